//! The terms of a session: what the client asks for, and the endpoint that both sides make of it.
//!
//! Settings are those of `headrace run`, by the same names. Paths have no topology here: rate and
//! base RTT are given, or guessed by the device. The network counts as one that does not trim
//! unless the client says otherwise. Bytes are payload unless said otherwise.

use experiments::input::InputError;
use experiments::plan::{Draft, Origin, RunError, link_settings};
use serde::{Deserialize, Serialize};
use transport::ec::EcKind;
use transport::number::us_text;
use transport::wire::addressing::{Addressing, UDP_PORT};
use transport::wire::{KEY_LEN, frame};
use transport::{Bytes, Config, Duration, Rate, Settings, ShareMax};

/// The purpose of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Job {
    /// Throughput, to the server and from it.
    Perf {
        /// The client sends.
        up: bool,
        /// The server sends.
        down: bool,
        /// Senders stop after this long, milliseconds.
        duration_ms: Option<u64>,
        /// Senders stop after this many bytes each.
        bytes: Option<u64>,
    },
    /// Round trips.
    Ping,
}

/// The terms of a session, as its client asks for them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionTerms {
    /// The purpose of the session.
    pub job: Job,
    /// Preset of policies.
    pub transport: Option<String>,
    /// Congestion control.
    pub cc: Option<String>,
    /// Load balancer.
    pub lb: Option<String>,
    /// Settings by key, as `--set` takes them.
    pub set: Vec<(String, String)>,
    /// The rate that flows assume for the link, bit/s.
    pub rate_bps: u64,
    /// Round-trip time of the idle network, nanoseconds.
    pub base_rtt_ns: u64,
    /// Bytes of a full segment; what both devices carry at most, once agreed.
    pub payload_bytes: u16,
    /// Flows of each direction.
    pub flows: u16,
    /// Bytes of a message.
    pub message_bytes: u32,
    /// Messages that a flow has under way.
    pub depth: u16,
    /// Whether UDP checksums are computed and verified.
    pub udp_sums: bool,
    /// Whether the bytes of every message are verified.
    pub verify: bool,
    /// Microseconds between two looks of the receiving application at its ring; 0 is all the time.
    pub think_us: u64,
    /// Milliseconds between two intervals that are reported; with 0 there are none, and round trips
    /// of segments are not measured.
    pub interval_ms: u64,
}

/// The names of a session's policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Policies {
    /// Preset.
    pub transport: &'static str,
    /// Congestion control.
    pub cc: &'static str,
    /// Load balancer.
    pub lb: &'static str,
}

/// How often an idle flow reminds its receiver within the patience of a session.
const REMINDERS: u64 = 4;
/// Base RTTs between two reminders, at least: what `keep_alive` allows.
const REMIND_RTTS: u64 = 8;

/// Segments of memos before anything is agreed: they fit every device.
pub(super) const LOBBY_PAYLOAD: u16 = 1024;
/// Messages that carry memos, beside those of the job: one on each spare flow, and the session's.
const MEMOS: u32 = FLOWS_SPARE + 64;
/// Flows beside those of the job: of memos to all hosts, and of former sessions.
pub(super) const FLOWS_SPARE: u32 = 512;

impl Default for SessionTerms {
    fn default() -> Self {
        Self {
            job: Job::Ping,
            transport: None,
            cc: None,
            lb: None,
            set: Vec::new(),
            rate_bps: Rate::from_gbps(100).as_bps(),
            base_rtt_ns: 100_000,
            payload_bytes: LOBBY_PAYLOAD,
            flows: 1,
            message_bytes: 64,
            depth: 4,
            udp_sums: true,
            verify: false,
            think_us: 0,
            interval_ms: 1000,
        }
    }
}

impl SessionTerms {
    /// The terms of memos before anything is agreed.
    pub(super) fn lobby() -> Self {
        Self { flows: 0, interval_ms: 0, ..Self::default() }
    }

    /// Whether these terms are those of [`SessionTerms::lobby`].
    pub(super) const fn is_lobby(&self) -> bool {
        self.flows == 0
    }

    /// The endpoint of a process of this `incarnation`, among the hosts of `addressing`.
    ///
    /// # Errors
    /// A name or a value that does not exist, by name.
    pub(super) fn config(
        &self,
        incarnation: u16,
        addressing: &Addressing,
    ) -> Result<Config, RunError> {
        let ranges = [
            ("flows", "1..=256", (0..=256).contains(&self.flows)),
            ("depth", "1..=512", (1..=512).contains(&self.depth)),
            ("size", "1 byte to 1 GiB", (1..=1 << 30).contains(&self.message_bytes)),
            ("rate", "above zero", self.rate_bps > 0),
            ("rtt", "above zero and at most 2 s", (1..=2_000_000_000).contains(&self.base_rtt_ns)),
        ];
        for (name, expected, holds) in ranges {
            if !holds {
                let error = InputError::new(format!("--{name} out of range"), expected);
                return Err(error.at("the session's terms", 0, 0).into());
            }
        }
        let mut draft = self.draft()?;
        draft.yield_to_frames("nic");
        let rtt = Duration::from_ns(self.base_rtt_ns);
        let mut settings = link_settings(&draft, Rate::from_bps(self.rate_bps), rtt)?;
        let messages = u32::from(self.flows) * u32::from(self.depth);
        // What follows the headers takes its room from the payload: frames keep their length.
        let extensions = settings.headers_max() - frame::PLAIN_HEADERS_MAX;
        let payload = self.payload_bytes.saturating_sub(extensions);
        settings.payload_max = settings.payload_max.min(payload);
        settings.frame_overhead = frame::header_overhead(addressing.version());
        settings.key_bytes = KEY_LEN;
        settings.msg_window = settings.msg_window.max(self.depth.max(16));
        settings.tx_flows_max = u32::from(self.flows) + FLOWS_SPARE;
        settings.rx_flows_max = settings.tx_flows_max;
        // Every host may send to a server: each flow proves its sender's address first.
        settings.unproven_max = 0;
        settings.msgs_max = 2 * messages + MEMOS;
        // A session and its memos fit into what one host may hold.
        let all_but = |part| ShareMax {
            flows: settings.rx_flows_max - FLOWS_SPARE / part,
            messages: settings.msgs_max - MEMOS / part,
            bytes: u64::MAX,
        };
        (settings.peer_max, settings.group_max) = (all_but(2), all_but(4));
        settings.groups = addressing.groups();
        settings.incarnation = incarnation;
        let chosen = |key: &str| self.set.iter().any(|(set, _)| set == key);
        if !chosen("loss.backoff_max") {
            settings.loss.backoff_max = Config::new(settings.clone())?.doublings_in_outages();
        }
        Ok(Config::new(settings)?)
    }

    /// These terms with flows that survive `silence`, which is at least the silence that the client
    /// of the session survives. In that time idle ends remind each other of their flows several
    /// times, so that a session that pauses does not count as one whose peer is gone. Values that
    /// the user has set stay.
    pub(super) fn surviving(&self, silence: Duration) -> Self {
        let mut terms = self.clone();
        // Terms that make no draft are refused when the endpoint is made.
        let draft = self.draft().ok();
        let survived = draft.as_ref().map_or(Duration::ZERO, |draft| draft.settings.loss.give_up);
        let survived = if survived > Duration::ZERO { survived } else { silence };
        let base_rtt = draft.and_then(|draft| draft.base_rtt);
        let base_rtt = base_rtt.unwrap_or(Duration::from_ns(self.base_rtt_ns));
        let every = (survived / REMINDERS).max(base_rtt.min(survived) * REMIND_RTTS);
        let keep_alive = if every <= survived { us_text(every) } else { "off".to_owned() };
        for (key, value) in [("loss.give_up", us_text(silence)), ("keep_alive", keep_alive)] {
            if terms.set.iter().all(|(set, _)| set != key) {
                terms.set.push((key.to_owned(), value));
            }
        }
        terms
    }

    /// The policies by name.
    ///
    /// # Errors
    /// As for the endpoint.
    pub fn policies(&self) -> Result<Policies, RunError> {
        let draft = self.draft()?;
        let Draft { transport, settings, .. } = &draft;
        Ok(Policies { transport: transport.name, cc: settings.cc.name(), lb: settings.lb.name() })
    }

    /// Bytes of messages that a receiver must have room for.
    pub(super) fn receive_bytes(&self) -> u64 {
        let messages = u64::from(self.flows) * u64::from(self.depth);
        // As many again that the application has not dropped yet.
        2 * messages * u64::from(self.message_bytes) + (1 << 20)
    }

    fn draft(&self) -> Result<Draft, InputError> {
        let mut draft = Draft::default();
        if let Some(name) = &self.transport {
            draft
                .set_transport(name, Origin::Flag("transport"))
                .map_err(|e| on(e, "--transport"))?;
        }
        // Nothing between two hosts trims unless the user sets it.
        draft.set_trim(false, Origin::Default);
        draft.settings.payload_max = self.payload_bytes;
        draft.settings.loss.rto_min = RTO_MIN;
        if let Some(name) = &self.cc {
            draft.set_cc(name, Origin::Flag("cc")).map_err(|error| on(error, "--cc"))?;
        }
        if let Some(name) = &self.lb {
            draft.set_lb(name, Origin::Flag("lb")).map_err(|error| on(error, "--lb"))?;
        }
        for (key, value) in &self.set {
            draft.set(key, value, Origin::Set).map_err(|error| on(error, "--set"))?;
        }
        if draft.udp_port != UDP_PORT {
            // Memos travel to it before there are terms.
            let found = format!("udp_port={} among a session's terms", draft.udp_port);
            let error = InputError::new(found, "no such setting").at("--set udp_port", 0, 0);
            return Err(error.help("--udp-port on both sides"));
        }
        let most = Settings::ANSWERS_MAX;
        if let Some(asked) = draft.settings.answers_max.filter(|asked| *asked > most) {
            // The other end would answer so many strangers because this one asks for it.
            let found = format!("answers_max={asked} among a session's terms");
            let error = InputError::new(found, format!("at most {most}"));
            return Err(error.at("--set answers_max", 0, 0));
        }
        if draft.settings.ec != EcKind::Uncoded {
            // Memos travel between an end that has agreed to a code and one that has not yet.
            let error = InputError::new("an erasure code between two processes", "`off`");
            let help = "flows of `headrace run` are coded in every world, --world nic among them";
            return Err(error.at("--set ec", 0, 0).help(help));
        }
        Ok(draft)
    }

    /// The base RTT at which the windows of all flows together are `bytes`, as far as that is less
    /// than `most`.
    #[must_use]
    pub fn rtt_for(bytes: u64, rate: Rate, flows: u16, most: Duration) -> Duration {
        // Windows grow to 1.5 products of rate and base RTT.
        let each = Bytes((bytes * 2 / 3 / u64::from(flows.max(1))).max(1 << 14));
        rate.time_for(each).min(most)
    }
}

/// Longer than most breaks that a scheduler makes.
pub(super) const RTO_MIN: Duration = Duration::from_ms(100);

fn on(error: InputError, place: &str) -> InputError {
    if error.file.is_empty() { error.at(place, 0, 0) } else { error }
}

#[cfg(test)]
mod tests {
    use transport::wire::addressing::IpVersion;

    use super::*;

    const V4: Addressing = Addressing::emulated(IpVersion::V4);

    #[test]
    fn the_default_terms_make_an_endpoint_of_the_incarnation() {
        let config = SessionTerms::default().config(77, &V4).unwrap();
        assert_eq!((config.incarnation, config.payload_max), (77, LOBBY_PAYLOAD));
        assert_eq!(config.loss.rto_min, RTO_MIN);
        assert!(config.loss.tail_probe, "losses are reported by the receiver alone");
    }

    #[test]
    fn flows_survive_the_clients_patience_unless_another_time_is_set() {
        let patience = Duration::from_s(70);
        let give_up = |terms: SessionTerms| {
            let config = terms.surviving(patience).config(1, &V4).unwrap();
            (config.loss.give_up, config.give_up_after(&config.default_path()) > patience)
        };
        assert_eq!(give_up(SessionTerms::default()), (patience, true));
        let set = vec![("loss.give_up".to_owned(), "2s".to_owned())];
        assert_eq!(
            give_up(SessionTerms { set, ..SessionTerms::default() }),
            (Duration::from_s(2), false)
        );
    }

    #[test]
    fn a_session_tries_a_silent_peer_four_times_a_second_unless_doublings_are_set() {
        let doublings = |set: &[(&str, &str)]| {
            let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let terms = SessionTerms { set: set.collect(), ..SessionTerms::default() };
            terms.surviving(Duration::from_s(20)).config(1, &V4).unwrap().loss.backoff_max
        };
        // A timeout of 100 ms doubles up to 0.2 s.
        assert_eq!(doublings(&[]), 1);
        assert_eq!(doublings(&[("loss.rto_min", "10ms")]), 4);
        assert_eq!(doublings(&[("loss.rto_min", "200ms")]), 0);
        assert_eq!(doublings(&[("loss.rto_min", "2s")]), 0);
        assert_eq!(doublings(&[("loss.backoff_max", "5")]), 5);
        assert_eq!(SessionTerms::lobby().config(1, &V4).unwrap().loss.backoff_max, 6);
    }

    #[test]
    fn idle_flows_remind_the_peer_before_it_is_impatient_unless_another_time_is_set() {
        let every = |set: &[(&str, &str)]| {
            let set = set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            let terms = SessionTerms { set: set.collect(), ..SessionTerms::default() };
            terms.surviving(Duration::from_s(10)).config(1, &V4).unwrap().keep_alive
        };
        assert_eq!(every(&[]), Some(Duration::from_ms(2500)));
        assert_eq!(every(&[("keep_alive", "1s")]), Some(Duration::from_s(1)));
        assert_eq!(every(&[("loss.give_up", "2s")]), Some(Duration::from_ms(500)));
        assert_eq!(every(&[("keep_alive", "off")]), None);
        // Reminders are base RTTs apart, and end where the silence is as short.
        assert_eq!(every(&[("base_rtt", "1s")]), Some(Duration::from_s(8)));
        assert_eq!(every(&[("base_rtt", "2s")]), None);
    }

    #[test]
    fn a_transport_that_needs_a_network_is_refused_by_its_name() {
        let transport = Some("zeropod".to_owned());
        let terms = SessionTerms { transport, ..SessionTerms::default() };
        let error = terms.config(1, &V4).unwrap_err().to_string();
        let found = "sched: found `zeropod` by transport zeropod, which needs a network";
        assert!(error.starts_with(found), "{error}");
    }

    #[test]
    fn room_for_telemetry_is_taken_from_the_payload() {
        let names = |cc: &str| (Some(cc.to_owned()), Some("ecmp".to_owned()));
        let frame = |cc: &str| {
            let (cc, lb) = names(cc);
            let terms = SessionTerms { cc, lb, payload_bytes: 4096, ..SessionTerms::default() };
            let config = terms.config(1, &V4).unwrap();
            config.payload_max + config.headers_max()
        };
        assert_eq!(frame("hpcc"), frame("swift"));
    }

    #[test]
    fn what_cannot_be_is_refused_by_its_name() {
        let terms = |change: fn(&mut SessionTerms)| {
            let mut terms = SessionTerms::default();
            change(&mut terms);
            terms.config(1, &V4).unwrap_err().to_string()
        };
        assert!(terms(|t| t.flows = 257).contains("--flows"));
        assert!(terms(|t| t.message_bytes = 0).contains("--size"));
        let answers = |most: &str| vec![("answers_max".to_owned(), most.to_owned())];
        let of_more = SessionTerms { set: answers("8001"), ..SessionTerms::default() };
        assert!(of_more.config(1, &V4).unwrap_err().to_string().contains("at most 8000"));
        let of_fewer = SessionTerms { set: answers("100"), ..SessionTerms::default() };
        assert_eq!(of_fewer.config(1, &V4).unwrap().answers_max, Some(100));
        let rtt = terms(|t| t.base_rtt_ns = 9_000_000_000_000);
        assert!(rtt.contains("--rtt") && rtt.contains("at most 2 s"), "{rtt}");
        assert!(terms(|t| t.cc = Some("smrtt".into())).contains("smartt"));
        assert!(terms(|t| t.set = vec![("losss.rto".into(), "1".into())]).contains("loss.rto"));
        assert!(terms(|t| t.set = vec![("mtu".into(), "7".into())]).contains("mtu"));
        let port = terms(|t| t.set = vec![("udp_port".into(), "5000".into())]);
        assert!(port.contains("--udp-port on both sides"), "{port}");
        let coded = terms(|t| t.set = vec![("ec".into(), "8,2".into())]);
        assert!(coded.contains("--set ec") && coded.contains("--world nic"), "{coded}");
    }

    #[test]
    fn windows_of_many_flows_share_what_there_is() {
        let rate = Rate::from_gbps(40);
        let most = Duration::from_us(200);
        assert_eq!(SessionTerms::rtt_for(1 << 30, rate, 1, most), most);
        let shared = SessionTerms::rtt_for(1_500_000, rate, 4, most);
        assert_eq!(rate.bytes_in(shared).0 * 4 * 3 / 2, 1_500_000);
    }
}
