//! Messages between client and server, and how they are labelled.
//!
//! *Memos* are JSON in messages of their own; data, pings and pongs are messages too. The tag of
//! each message has its kind, its session, and its number:
//!
//! ```text
//!    63      48 47    44 43           32 31                          0
//!   +----------+--------+---------------+-----------------------------+
//!   |    0     |  kind  |    session    |           number            |
//!   +----------+--------+---------------+-----------------------------+
//! ```
//!
//! ```text
//!   client   Hello ->            Go ->                              Finish ->            Done ->
//!   server           <- Welcome       <- Ready  (data, pings)  <- End         <- Report
//! ```
//!
//! The server sends the Welcome from the endpoint that got the Hello. It makes the session's
//! endpoint when the Welcome is acknowledged or when Go arrives, whichever is first. The client
//! sends Go from its endpoint of the session, and nothing else until the server answers Ready: what
//! arrived before Go would be acknowledged by the former endpoint and counted in no session.
//! Messages arrive in any order, so only an answer shows that Go has arrived.
//!
//! Done ends the session at the server. The client waits for a limited time until Done is
//! acknowledged, so that a packet that is lost at the end is sent again.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Counters;
use super::terms::SessionTerms;
use super::vitals::Vitals;

/// Version of these messages. Both sides must have the same.
pub(super) const PROTOCOL: u64 = 4;

/// Longest memo, bytes: a longer one is not read.
pub(super) const MEMO_MAX: usize = 1 << 16;

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A [`Memo`].
    Memo,
    /// Bytes to be counted.
    Data,
    /// A message to be answered.
    Ping,
    /// The answer.
    Pong,
}

/// The label of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Tag {
    pub(super) kind: Kind,
    /// The low 12 bits of the session's number.
    pub(super) session: u16,
    /// The number of the message among those of its kind and direction; wraps.
    pub(super) number: u32,
}

/// Messages of one direction, as one side has counted them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Messages.
    pub messages: u64,
    /// The bytes of these messages.
    pub bytes: u64,
    /// A sum over the messages' numbers: equal where each message was counted once.
    pub fingerprint: u64,
    /// Messages that arrived with other bytes than were sent; always 0 where nothing is verified.
    pub wrong: u64,
}

/// The content of a memo. Its key is `note` in every protocol, so that each version can read
/// another one's refusal.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub(super) enum Memo {
    /// The client asks for a session.
    Hello { protocol: u64, version: String, session: u64, terms: Box<SessionTerms> },
    /// The server agrees, with the payload that its device carries.
    Welcome { session: u64, payload_bytes: u16 },
    /// The server does not agree; `busy` when it might later.
    Refused { session: u64, busy: bool, reason: String },
    /// The client is ready.
    Go { session: u64 },
    /// The server is ready, too: the client may send.
    Ready { session: u64 },
    /// A sender has finished: all of its data is acknowledged.
    End { session: u64, sent: Totals },
    /// The client asks for the server's counts.
    Finish { session: u64 },
    /// The server's counts.
    Report { session: u64, received: Totals, counters: Counters, vitals: Vitals },
    /// The client has the report: the session is over.
    Done { session: u64 },
    /// One side ends the session at once.
    Stop { session: u64, reason: String },
}

impl Tag {
    /// The packed number that a message carries, never 0.
    pub(super) fn pack(self) -> u64 {
        let kind = self.kind as u64 + 1;
        kind << 44 | u64::from(self.session & 0xFFF) << 32 | u64::from(self.number)
    }

    /// The label in `tag`; `None` when it is no tag of this protocol.
    pub(super) fn unpack(tag: u64) -> Option<Self> {
        let kind = match tag >> 44 {
            1 => Kind::Memo,
            2 => Kind::Data,
            3 => Kind::Ping,
            4 => Kind::Pong,
            _ => return None,
        };
        let session = u16::try_from(tag >> 32 & 0xFFF).ok()?;
        let number = u32::try_from(tag & u64::from(u32::MAX)).ok()?;
        Some(Self { kind, session, number })
    }
}

impl Memo {
    /// The octets of the memo.
    pub(super) fn bytes(&self) -> Vec<u8> {
        // Plain data always is JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The memo that `bytes` hold, or the reason why there is none, which is sent to the other
    /// side.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > MEMO_MAX {
            return Err(format!("a memo of {} bytes; {MEMO_MAX} at most", bytes.len()));
        }
        // The protocol first: another one's memos need not be readable.
        let value: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("no JSON: {error}"))?;
        if let Some(theirs) = value.get("protocol").and_then(Value::as_u64)
            && theirs != PROTOCOL
        {
            let version = value.get("version").and_then(Value::as_str).unwrap_or("unknown");
            return Err(format!(
                "it speaks protocol {PROTOCOL} of headrace {}, the client protocol {theirs} of \
                 headrace {version}; run the same build on both sides",
                env!("CARGO_PKG_VERSION")
            ));
        }
        serde_json::from_value(value)
            .map_err(|error| format!("a memo that this version cannot read: {error}"))
    }

    /// Whether the memo belongs to session `number`. A refusal belongs to any session: the server
    /// may have been unable to read the number.
    pub(super) fn is_of(&self, number: u64) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Hello { session, .. }
            | Self::Welcome { session, .. }
            | Self::Go { session }
            | Self::Ready { session }
            | Self::End { session, .. }
            | Self::Finish { session }
            | Self::Report { session, .. }
            | Self::Done { session }
            | Self::Stop { session, .. } => *session == number,
        }
    }

    /// The session that unreadable bytes name, where they name one.
    pub(super) fn session_of(bytes: &[u8]) -> u64 {
        let value = serde_json::from_slice::<Value>(bytes).unwrap_or_default();
        value.get("session").and_then(Value::as_u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_survive_and_others_are_none() {
        for kind in [Kind::Memo, Kind::Data, Kind::Ping, Kind::Pong] {
            let tag = Tag { kind, session: 0xABC, number: u32::MAX };
            assert_eq!(Tag::unpack(tag.pack()), Some(tag));
            // The upper 16 bits name an application of the worker: the first.
            assert_eq!(tag.pack() >> 48, 0);
        }
        for other in [0, 5 << 44, u64::MAX] {
            assert_eq!(Tag::unpack(other), None);
        }
    }

    #[test]
    fn memos_survive_and_garbage_is_refused_with_a_reason() {
        let hello = Memo::Hello {
            protocol: PROTOCOL,
            version: "0".to_owned(),
            session: 7,
            terms: Box::new(SessionTerms::default()),
        };
        let report = Memo::Report {
            session: 7,
            received: Totals { messages: 1, bytes: 2, fingerprint: 3, wrong: 0 },
            counters: Counters::from([("retransmitted".to_owned(), 5)]),
            vitals: Vitals { cpu_percent: Some(2.5), cwnd_bytes: Some(9), ..Vitals::default() },
        };
        let reason = "why".to_owned();
        let stop = Memo::Stop { session: 7, reason: reason.clone() };
        let end = Memo::End { session: 7, sent: Totals::default() };
        let short =
            [Memo::Go { session: 7 }, Memo::Ready { session: 7 }, Memo::Done { session: 7 }];
        for memo in [hello, report, stop, end].into_iter().chain(short) {
            assert_eq!(Memo::read(&memo.bytes()), Ok(memo.clone()));
            assert_eq!(Memo::session_of(&memo.bytes()), 7);
            assert!(memo.is_of(7) && !memo.is_of(6), "{memo:?}");
        }
        assert!(Memo::Refused { session: 0, busy: false, reason }.is_of(7));
        for garbage in
            [&b""[..], b"{}", b"\xff\xfe", b"{\"note\":\"dance\"}", &[b'['; MEMO_MAX + 1]]
        {
            assert!(Memo::read(garbage).is_err());
        }
    }

    #[test]
    fn a_refusal_by_another_version_is_read() {
        let reason = "it speaks protocol 1 of headrace 0.1.0; run the same build on both sides";
        // The text that protocols 1 to 4 send, and later ones have to.
        let text = format!(r#"{{"note":"refused","session":0,"busy":false,"reason":"{reason}"}}"#);
        let refused = Memo::Refused { session: 0, busy: false, reason: reason.to_owned() };
        assert_eq!(refused.bytes(), text.as_bytes());
        assert_eq!(Memo::read(text.as_bytes()), Ok(refused));
    }

    #[test]
    fn another_protocol_is_refused_by_both_versions() {
        let text = br#"{"note":"greeting","protocol":99,"version":"9.9.9","session":3}"#;
        let reason = Memo::read(text).unwrap_err();
        assert!(reason.contains("protocol 99 of headrace 9.9.9"), "{reason}");
        assert!(reason.contains("run the same build"), "{reason}");
        assert_eq!(Memo::session_of(text), 3);
    }
}
