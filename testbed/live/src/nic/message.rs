//! Messages between the hosts of a run over TCP: one line of JSON each.
//!
//! ```text
//!   rounds       every host sends its part; the first host collects them and sends all of them the
//!                whole: Join, Device, Measure, Armed, Synced, Report
//!   in between   clocks are compared; pokes of triggers pass through the first host; Idle, Ask,
//!                Lost, End
//!   without it   Follow goes to the host that is next, which leads from then on: Lead
//!   at any time  Alive, Failed
//! ```
//!
//! The first line of a connection is the part of round Join and stays readable by all versions: it
//! names the version of the rest. Times are picoseconds of the named host's clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use experiments::conductor::Poke;
use experiments::measure::HostSeen;
use experiments::measure::collectives::DcSimResult;
use serde::{Deserialize, Serialize};
use transport::Stats;
use transport::stats::{DropCounts, DropReason};

/// Version of these messages, and of those with which hosts and the scheduler of a pod meet; it
/// changes with each of them.
pub(super) const PROTOCOL: u32 = 12;

/// One line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Say {
    /// Goes to the first host: this host's part of a round.
    Part { round: Round, part: RoundPart },
    /// Goes to all others: all parts, by host, and when they were complete.
    Whole { round: Round, parts: Vec<RoundPart>, now_ps: u64 },
    /// Says only that this process runs.
    Alive,
    /// Asks for the time of the receiver.
    ClockAsk { sent_ps: u64 },
    /// Answers `ClockAsk` with the time at which it was read.
    ClockAnswer { sent_ps: u64, now_ps: u64 },
    /// A trigger is poked.
    Poke(Poke),
    /// Goes to the first host: no flow of this host is under way.
    Idle(IdleReport),
    /// Goes to all others: they are to report again once they are idle.
    Ask,
    /// Goes to all others: a host is gone and does not come back, and its flows fail.
    Lost { host: u32, reason: String },
    /// Goes to the first host: the user wants the run to end.
    Stop,
    /// Goes to all others: the run is over, or is ended early.
    End { stopped: bool },
    /// The first line of a connection during the run, to the host that is to lead now. It has the
    /// sender's number, the number of the receiver's address, and the losses and the end that the
    /// sender was notified of.
    Follow { host: u32, pass: u64, lost: BTreeMap<u32, String>, over: Option<bool> },
    /// Answers `Follow`: the sender leads; the hosts that are lost, and whether the run is over.
    Lead { lost: BTreeMap<u32, String>, over: Option<bool> },
    /// A host cannot go on.
    Failed { host: String, reason: String },
    /// Everything has been received.
    Bye,
}

/// The state of a host without flows under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct IdleReport {
    /// Pokes received from others.
    pub(super) pokes_received: u64,
    /// Hosts that are gone, whose flows are in neither count.
    pub(super) lost: u64,
    /// Questions received from the first host.
    pub(super) asked: u64,
    /// Flows wholly acknowledged here.
    pub(super) acked: u64,
    /// Flows wholly delivered here.
    pub(super) delivered: u64,
}

/// The rounds in which all hosts take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Round {
    /// Hosts report their identity and the run that they would start.
    Join,
    /// Have their devices up.
    Device,
    /// Hosts report their peers' MACs and base RTTs.
    Measure,
    /// Have their workers ready.
    Armed,
    /// Hosts have compared their clocks with the first host's.
    Synced,
    /// Hosts report how the run went.
    Report,
}

/// A host's part of a round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum RoundPart {
    Join(Hello),
    Device(DevicePart),
    Measure(MeasurePart),
    Armed,
    Synced,
    Report(Box<HostReport>),
    /// Stands for the part of a host that is gone.
    Lost {
        reason: String,
    },
}

impl RoundPart {
    /// The round that this part belongs to; `None` where it stands for any.
    pub(super) const fn round(&self) -> Option<Round> {
        Some(match self {
            Self::Join(_) => Round::Join,
            Self::Device(_) => Round::Device,
            Self::Measure(_) => Round::Measure,
            Self::Armed => Round::Armed,
            Self::Synced => Round::Synced,
            Self::Report(_) => Round::Report,
            Self::Lost { .. } => return None,
        })
    }
}

/// The identity of a host and the run that it would start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Hello {
    /// See [`PROTOCOL`].
    pub(super) protocol: u32,
    /// The program's.
    pub(super) version: String,
    /// The number of the host.
    pub(super) host: u32,
    /// Fingerprints: of the hosts file, the matrix, and the network.
    pub(super) inputs: BTreeMap<String, String>,
    /// Every setting with its value.
    pub(super) settings: Vec<(String, String)>,
    /// Where this host can be reached when it is to lead.
    #[serde(default, rename = "place")]
    pub(super) successor: Option<SuccessorAddress>,
}

#[cfg(test)]
impl Hello {
    /// What `host` introduces itself with in tests.
    pub(super) fn of_test(host: u32) -> Self {
        Self {
            protocol: PROTOCOL,
            version: "1".to_owned(),
            host,
            inputs: [("matrix".to_owned(), "m".to_owned())].into(),
            settings: vec![("mtu".to_owned(), "4096".to_owned())],
            successor: None,
        }
    }
}

/// Where a host listens in case the first host fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SuccessorAddress {
    pub(super) address: SocketAddr,
    /// A random number that only hosts of the run have.
    pub(super) pass: u64,
}

/// The properties of a device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct DevicePart {
    /// Speed of the link, Mbit/s, when the device reports it.
    pub(super) link_mbps: Option<u32>,
    /// Longest frame that the device sends and receives, bytes.
    pub(super) max_frame: u32,
}

/// The measurements of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MeasurePart {
    /// Base RTTs to peers, by host.
    pub(super) rtts_ps: Vec<(u32, u64)>,
    /// The longest echo.
    pub(super) longest_ps: u64,
    /// The most by which nine of ten echoes exceed the shortest one, at the worst peer.
    pub(super) jitter_ps: u64,
    /// Base RTT to the scheduler of the pod, where there is one.
    pub(super) scheduler_ps: Option<u64>,
    /// A number at random.
    pub(super) chance: u64,
}

/// How the run went on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct HostReport {
    /// Flows that the host sent.
    pub(super) sent: Vec<SentFlow>,
    /// Flows that the host received something of.
    pub(super) received: Vec<ReceivedFlow>,
    /// The counters of its endpoint.
    #[serde(with = "stats")]
    pub(super) stats: Stats,
    pub(super) driver: DriverPart,
    /// Messages delivered with bytes that differ from those that were sent.
    pub(super) wrong: u64,
    /// Buffers that are not back.
    pub(super) findings: Vec<String>,
    /// When the host stopped, by its clock since the start.
    pub(super) end_ps: u64,
    /// The change of the host's clock against the first host's since the start: to be added to its
    /// times.
    pub(super) offset_change_ps: i64,
    pub(super) seen: HostSeen,
    /// What its DCsim has counted and measured.
    pub(super) dcsim: Option<DcSimResult>,
}

/// A flow's record at its sender; a time that is missing has not come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct SentFlow {
    pub(super) flow: u32,
    pub(super) start_ps: Option<u64>,
    pub(super) acked_ps: Option<u64>,
    pub(super) acked: u64,
    /// Bytes of messages that are not wholly acknowledged.
    pub(super) begun: u64,
    pub(super) failed: bool,
}

/// A flow's record at its receiver.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ReceivedFlow {
    pub(super) flow: u32,
    pub(super) delivered_ps: Option<u64>,
    pub(super) delivered: u64,
    /// Bytes of messages that are not whole.
    pub(super) begun: u64,
}

/// Packets between endpoint and device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct DriverPart {
    pub(super) taken: u64,
    pub(super) lost: u64,
    pub(super) stuck: u64,
    pub(super) unsendable: u64,
    pub(super) received: u64,
    pub(super) left: u64,
    /// Packets taken that went to a scheduler, which is no host.
    pub(super) asked: u64,
    /// Packets received that came from a scheduler.
    pub(super) answered: u64,
}

/// [`Stats`] by the names of its counters, and drops by those of their reasons.
mod stats {
    use serde::{Deserializer, Serializer};

    use super::{BTreeMap, Deserialize, DropCounts, DropReason, Serialize, Stats};

    #[derive(Serialize, Deserialize)]
    struct Named {
        counters: BTreeMap<String, u64>,
        drops: BTreeMap<String, u64>,
    }

    pub(super) fn serialize<S: Serializer>(stats: &Stats, out: S) -> Result<S::Ok, S::Error> {
        let named = |(name, count): (&str, u64)| (name.to_owned(), count);
        let counters = Stats::COUNTERS.iter().map(|(name, _)| *name).zip(stats.values());
        let drops = stats.drops.iter().filter(|(_, count)| *count > 0);
        let drops = drops.map(|(reason, count)| (reason.name(), count));
        Named { counters: counters.map(named).collect(), drops: drops.map(named).collect() }
            .serialize(out)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(text: D) -> Result<Stats, D::Error> {
        let Named { counters, drops } = Named::deserialize(text)?;
        let of = |counts: &BTreeMap<String, u64>, name| counts.get(name).copied().unwrap_or(0);
        let mut values = [0; Stats::COUNTERS.len()];
        for (value, (name, _)) in values.iter_mut().zip(Stats::COUNTERS) {
            *value = of(&counters, *name);
        }
        let mut stats = Stats::from_values(values);
        for reason in DropReason::ALL {
            // The counts of another process may add up to more than their sum can be.
            let mut of_reason = DropCounts::default();
            of_reason.count_many(*reason, of(&drops, reason.name()));
            stats.drops.add(&of_reason);
        }
        Ok(stats)
    }
}

impl Say {
    /// The line, with its end.
    pub(super) fn line(&self) -> Vec<u8> {
        // All keys are text, so serialisation cannot fail.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// The message of a line; `None` when it is none of this protocol.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

#[cfg(test)]
mod tests {
    use experiments::measure::own::OfDcSim;
    use proptest::prelude::*;
    use transport::Duration;

    use super::*;

    #[test]
    fn a_report_says_the_same_after_the_wire() {
        let mut stats = Stats { data_new: 7, messages_failed: u64::MAX, ..Stats::default() };
        stats.drops.count_many(DropReason::NoBuffer, 3);
        let sent = SentFlow {
            flow: 1,
            start_ps: Some(0),
            acked_ps: None,
            acked: 9,
            begun: 8,
            failed: true,
        };
        let report = HostReport {
            sent: vec![sent],
            received: vec![ReceivedFlow { flow: 2, delivered_ps: Some(5), delivered: 6, begun: 7 }],
            stats,
            driver: DriverPart { taken: 4, ..DriverPart::default() },
            wrong: 1,
            findings: vec!["a \"finding\"\n".to_owned()],
            end_ps: u64::MAX,
            offset_change_ps: -4,
            seen: HostSeen {
                clock_error_us: 0.25,
                counters: [("starved".to_owned(), 8)].into(),
                ..HostSeen::default()
            },
            dcsim: Some(
                OfDcSim { rtt_max: Duration::from_us(3), ..OfDcSim::default() }.result(None),
            ),
        };
        let say = Say::Part { round: Round::Report, part: RoundPart::Report(Box::new(report)) };
        let line = say.line();
        assert_eq!(line.iter().filter(|&&byte| byte == b'\n').count(), 1, "one line");
        assert_eq!(Say::parse(&line), Some(say));
    }

    #[test]
    fn drops_that_add_up_beyond_any_number_are_read() {
        #[derive(Deserialize)]
        struct Counted(#[serde(with = "stats")] Stats);
        let most = u64::MAX;
        let drops = format!("{{\"no_buffer\": {most}, \"no_route\": {most}}}");
        let Counted(read) =
            serde_json::from_str(&format!("{{\"counters\": {{}}, \"drops\": {drops}}}")).unwrap();
        let drops = read.drops;
        assert_eq!((drops.of(DropReason::NoBuffer), drops.total()), (most, most));
    }

    proptest! {
        #[test]
        fn lines_of_any_bytes_are_refused_without_a_panic(bytes: Vec<u8>, cut in 0_usize..60) {
            prop_assert_eq!(Say::parse(&bytes), None);
            let whole = Say::Idle(IdleReport { acked: 2, ..IdleReport::default() }).line();
            let cut = cut.min(whole.len() - 2);
            prop_assert_eq!(Say::parse(&whole[..cut]), None);
        }
    }
}
