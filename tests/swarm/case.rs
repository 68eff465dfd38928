//! One random scenario: a small network, its traffic, settings and faults, all drawn from a seed
//! and a number.
//!
//! Registered names are enumerated rather than drawn. A seed's cases take every so-many-th of all
//! combinations of controller, balancer, discipline, scheduler and generator. So a few dozen cases
//! have every name, and every combination comes before one comes twice. One case in 16 is one of
//! pods (`pods.rs`) in place of its combination. A fifth of the cases are unchanged presets
//! instead. Everything else is drawn. Sizes are bounded by a budget of packets, so a case takes
//! milliseconds. What is drawn can be printed as the files and flags that the command takes.

#[path = "pods.rs"]
mod pods;

use std::fmt::Write as _;
use std::num::NonZeroU32;

use experiments::plan::{Draft, Origin, transports};
use experiments::topology::{FatTreeSpec, TierSpec, WanSpec, topo_file};
use experiments::workload::matrix::{LineMeaning, Start, TriggerKind};
use experiments::workload::{self, FlowSpec, GENERATORS, Matrix, Params, cm_write};
use fabric::QdiscKind;
use transport::cc::{CcKind, CcParams};
use transport::ec::EcKind;
use transport::lb::LbKind;
use transport::sched::SchedKind;
use transport::{Bytes, Duration, HostId, Rng, Settings};

/// DATA packets of a case, about.
const PACKETS: u64 = 3000;

/// The longest flow.
const SIZE_MAX: u64 = 1 << 20;

/// Longer than any run.
pub(crate) const FOR_EVER: Duration = Duration::from_s(1_000_000);

/// A scenario.
pub(crate) struct Case {
    /// The network.
    pub(crate) topology: FatTreeSpec,
    /// The traffic.
    pub(crate) matrix: Matrix,
    /// Everything else, as `--set` takes it; `transport`, `cc`, `lb`, `trim` and `seed` are flags.
    pub(crate) settings: Vec<(&'static str, String)>,
    /// The longest time for which a link is down; without end is [`FOR_EVER`].
    pub(crate) outage: Duration,
}

/// Draws from `names`: the name with the largest number, which is drawn for it alone. So a name
/// that is added changes only the draws in which it is drawn.
pub(crate) fn drawn_by_name(rng: &Rng, names: Vec<&'static str>) -> &'static str {
    names.into_iter().max_by_key(|name| rng.fork(name, 0).next_u64()).unwrap()
}

/// Draws from `items`.
pub(crate) fn pick<T: Clone>(rng: &mut Rng, items: &[T]) -> T {
    items[below(rng, items.len())].clone()
}

pub(crate) fn below(rng: &mut Rng, n: usize) -> usize {
    usize::try_from(rng.below(n as u64)).unwrap()
}

/// Uniform in `low..=high`.
fn between(rng: &mut Rng, low: u32, high: u32) -> u32 {
    low + u32::try_from(rng.below(u64::from(high - low) + 1)).unwrap()
}

/// At least 1 and at most `1 << bits`, as likely in one octave as in any other.
fn octave(rng: &mut Rng, bits: u32) -> u64 {
    let bits = between(rng, 0, bits);
    rng.below(1 << bits) + 1
}

/// Digits of a number, each to a base of its own.
struct Digits(u64);

/// Counts of the enumerated choices: controllers, balancers, disciplines and none, schedulers,
/// generators and as many matrices of no generator.
const BASES: [usize; 5] =
    [CcKind::NAMES.len(), LbKind::NAMES.len(), QDISCS + 1, SCHEDULERS, 2 * GENERATORS.len()];

/// Schedulers without a digit: pHost and dcPIM have two thirds of the cases of their like, credit,
/// and pFabric has half of those whose switches would be without buffers.
const SCHEDULERS_APART: [SchedKind; 3] = [SchedKind::Phost, SchedKind::DcPim, SchedKind::Pfabric];
const SCHEDULERS: usize = SchedKind::NAMES.len() - SCHEDULERS_APART.len();

/// The discipline without a digit comes with its scheduler.
const QDISC_APART: QdiscKind = QdiscKind::Pfabric;
const QDISCS: usize = QdiscKind::NAMES.len() - 1;

/// The scheduler of a digit, wherever a new one is in the registry.
fn scheduler(digit: usize) -> &'static str {
    let mut kinds = SchedKind::ALL.iter().filter(|kind| !SCHEDULERS_APART.contains(kind));
    kinds.nth(digit).unwrap().name()
}

/// The discipline of a digit; `None` beyond the last.
fn qdisc(digit: usize) -> Option<&'static str> {
    let mut kinds = QdiscKind::ALL.iter().filter(|kind| **kind != QDISC_APART);
    kinds.nth(digit).map(|kind| kind.name())
}

impl Digits {
    /// Seeds begin anywhere among the combinations. They go through them by about the golden ratio
    /// of all, by a step that shares no divisor with any base. So the first cases, too, are spread
    /// over each digit.
    fn of(seed: u64, number: u64) -> Self {
        let all = BASES.iter().product::<usize>() as u64;
        let spreads = |step: &u64| {
            let mut place = 1;
            BASES.iter().all(|&base| {
                let base = base as u64;
                let own = step / place % base;
                place *= base;
                divisor(*step, base) == 1 && divisor(own, base) == 1
            })
        };
        let step = (all * 618 / 1000..).find(spreads).unwrap();
        Self((Rng::new(seed).fork("digits", 0).below(all) + number * step) % all)
    }

    fn next(&mut self, base: usize) -> usize {
        let digit = usize::try_from(self.0 % base as u64).unwrap();
        self.0 /= base as u64;
        digit
    }
}

impl Case {
    /// Case `number` of `seed`.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut rng = Rng::new(seed).fork("case", number);
        let mut digits = Digits::of(seed, number);
        let mut case = Self {
            topology: FatTreeSpec::default(),
            matrix: Matrix::default(),
            settings: Vec::new(),
            outage: Duration::ZERO,
        };
        if case.pods(&mut rng.fork("pods", 0)) {
            return case;
        }
        case.policies(&mut digits, &mut rng);
        if case.draft().settings.cc == CcKind::Fixed {
            case.set("cc.fixed.bdps", pick(&mut rng, &[0.0, 0.05, 0.2, 1.0, 4.0]));
        }
        case.topology = topology(rng.chance(0.5), &mut rng);
        let mtu = pick(&mut rng, &[64u64, 256, 1000, 1500, 4096, 4096, 8960]);
        case.set("mtu", mtu);
        case.matrix = matrix(&mut digits, case.topology.nodes, mtu, &mut rng);
        if case.is_lossless() {
            // A plan needs room for data that arrives until a pause is obeyed.
            for tier in &mut case.topology.tier {
                (tier.queue_down, tier.queue_up) = (None, None);
            }
        }
        case.transport_settings(&mut rng);
        case.switch_settings(mtu, &mut rng);
        case.dcsim_settings(&mut rng.fork("dcsim", 0));
        case.telemetry(&mut rng.fork("telemetry", 0));
        case.borders(&mut rng.fork("borders", 0));
        for _ in 0..pick(&mut rng, &[0, 0, 1, 1, 2, 3]) {
            case.fault(&mut rng);
        }
        case.set("seed", rng.next_u32());
        case
    }

    /// Sets what was drawn before to something else.
    pub(crate) fn reset(&mut self, key: &'static str, value: impl ToString) {
        self.unset(key);
        self.set(key, value);
    }

    /// Leaves a setting as it is by default.
    pub(crate) fn unset(&mut self, key: &str) {
        self.settings.retain(|(set, _)| *set != key);
    }

    pub(crate) fn set(&mut self, key: &'static str, value: impl ToString) {
        self.settings.push((key, value.to_string()));
    }

    fn policies(&mut self, digits: &mut Digits, rng: &mut Rng) {
        let mut preset = rng.fork("preset", 0);
        if preset.chance(0.2) {
            let runs = |name: &&str| !stays_out(name) && !name.starts_with("mlcc");
            let names = transports::names().into_iter().filter(runs).collect();
            return self.set("transport", drawn_by_name(&preset, names));
        }
        let cc = CcKind::NAMES[digits.next(CcKind::NAMES.len())];
        self.set("cc", cc);
        self.set("lb", LbKind::NAMES[digits.next(LbKind::NAMES.len())]);
        let qdisc = qdisc(digits.next(QDISCS + 1));
        // Ports without buffers lose nearly all packets that no scheduler keeps apart.
        let bufferless = qdisc == Some("bufferless");
        let ranks = bufferless && rng.fork("ranks", 0).chance(0.5);
        if let Some(name) = qdisc {
            let plain = if ranks { "pfabric" } else { "drop-tail" };
            self.set("switch.qdisc", if bufferless { plain } else { name });
        }
        let sched = scheduler(digits.next(SCHEDULERS));
        let like_credit = pick(&mut rng.fork("tokens", 1), &["credit", "phost", "dcpim"]);
        let sched = if sched == "credit" { like_credit } else { sched };
        let sched = if ranks { "pfabric" } else { sched };
        self.set("sched", if stays_out(sched) { "round-robin" } else { sched });
        let trim = pick(rng, &["on", "off"]);
        self.set("trim", trim);
        self.set("lb.paths", pick(rng, &[1, 3, 16, 256, 65535]));
        self.far_policies(&mut rng.fork("far", 0));
        self.fit_paths();
        for key in CcParams::keys(CcKind::by_name(cc).unwrap()) {
            if key.values == "on or off" && rng.chance(0.2) {
                let name: &'static str = format!("cc.{cc}.{}", key.key).leak();
                self.set(name, pick(rng, &["on", "off"]));
            }
        }
    }

    /// Other policies for far paths: which are far is drawn from what base RTTs may be. Controllers
    /// that overload small links stay out, as the caller says.
    fn far_policies(&mut self, rng: &mut Rng) {
        if rng.chance(0.75) {
            return;
        }
        self.set("far.rtt", pick(rng, &["2us", "5us", "20us"]));
        self.set("far.cc", pick(rng, &["same", "smartt", "unocc", "swift", "gemini"]));
        let lb = pick(rng, LbKind::NAMES);
        self.reset("far.lb", lb);
    }

    /// No more paths than the balancers keep.
    fn fit_paths(&mut self) {
        let Settings { lb, far, lb_params, .. } = self.draft().settings;
        let paths = lb_params.common.paths;
        let refuses = |lb: LbKind| lb.paths_expected(paths).is_some();
        if refuses(lb) || far.lb.is_some_and(refuses) {
            self.reset("lb.paths", Settings::default().lb_params.common.paths);
        }
    }

    /// From asking for everything to asking for nothing, from trickling to flooding.
    fn credit_settings(&mut self, rng: &mut Rng) {
        self.set("sched.credit.first_window", pick(rng, &["0", "0.1", "1", "1", "4"]));
        self.set("sched.credit.ahead", pick(rng, &["0.01", "1.5", "1.5", "8"]));
        self.set("sched.credit.rate", pick(rng, &[10, 99, 99, 100]));
        self.set("sched.credit.quantum", pick(rng, &[1, 1, 3, 64]));
    }

    /// From a token at a time to windows of several round trips, and tokens that die at once.
    fn token_settings(&mut self, rng: &mut Rng) {
        self.set("sched.phost.window", pick(rng, &["0.01", "1", "1", "4"]));
        self.set("sched.phost.timeout", pick(rng, &["1", "1.1", "1.1", "8"]));
        self.set("sched.phost.life", pick(rng, &["1", "1.5", "8", "64"]));
        self.set("sched.phost.ack_every", pick(rng, &[1, 16, 64]));
    }

    /// From one channel to many, matched in two rounds or more, with and without early ones.
    fn matching_settings(&mut self, rng: &mut Rng) {
        self.set("sched.dcpim.channels", pick(rng, &[1, 4, 4, 7]));
        self.set("sched.dcpim.rounds", pick(rng, &[2, 4, 4, 6]));
        self.set("sched.dcpim.by_size", pick(rng, &[0, 1, 2]));
        self.set("sched.dcpim.slack", pick(rng, &["1", "1.3", "3"]));
        self.set("sched.dcpim.early", pick(rng, &["off", "windows", "tokens"]));
        self.set("sched.dcpim.short", pick(rng, &["0", "0", "1", "4"]));
        self.set("sched.dcpim.window", pick(rng, &["0.01", "1", "1", "4"]));
        self.set("sched.dcpim.life", pick(rng, &[1, 8, 8, 64]));
        self.set("sched.dcpim.ack_every", pick(rng, &[1, 16, 64]));
    }

    /// Draws from one packet of each small class and one token to many, over switches that have the
    /// classes of DCsim and over others. DCsim needs switches that neither trim nor pause, and a
    /// window that never binds.
    fn dcsim_settings(&mut self, rng: &mut Rng) {
        let Draft { settings, switch, .. } = self.draft();
        let hosts = settings.sched == SchedKind::DcSim;
        if !hosts && switch.qdisc != Some(QdiscKind::DcSim) {
            return;
        }
        let queue = pick(rng, &[2, 4, 12, 24]);
        self.set("switch.dcsim.queue", queue);
        let bucket = pick(rng, &[1, 2, queue]);
        self.set("switch.dcsim.bucket", bucket);
        self.reset("switch.queue", pick(rng, &["100KB", "500KB", "1MB"]));
        if !hosts {
            return;
        }
        self.reset("trim", "off");
        self.reset("switch.qdisc", pick(rng, &["dcsim", "dcsim", "drop-tail", "ecn"]));
        self.reset("switch.border_qdisc", "auto");
        self.reset("cc", "fixed");
        self.reset("cc.fixed.bdps", "1000000");
        self.reset("far.cc", "same");
        self.set("sched.dcsim.bind", pick(rng, &["departure", "ack"]));
        self.reset("sched.dcsim.unscheduled", pick(rng, &["0", "bdp", "30KB", "4MB"]));
        self.reset("sched.dcsim.recycle", pick(rng, &["0", "8"]));
        self.reset("sched.dcsim.drain", pick(rng, &["0", "auto", "two-tokens", "1", "8"]));
        self.set("sched.dcsim.refund", pick(rng, &["0", "0", "1", "4"]));
        self.reset("sched.dcsim.fraction", pick(rng, &["1", "1", "0.85", "0.3", "0"]));
        let tight = if bucket > 1 { "tight" } else { "paper" };
        self.reset("sched.dcsim.rtt_max", pick(rng, &["paper", "auto", tight]));
        self.reset("sched.dcsim.per_sim", pick(rng, &[1, 1, 3]));
        let order = pick(rng, &["collectives", "flows", "shortest", "smallest"]);
        self.reset("sched.dcsim.order", order);
        let tail = pick(&mut rng.fork("tail", 0), &["false", "false", "true"]);
        self.reset("sched.dcsim.tail", tail);
        let stay = pick(&mut rng.fork("stay", 0), &["true", "false"]);
        self.reset("sched.dcsim.stay", stay);
    }

    /// Switches that write telemetry, for controllers that read it and for others; packets with
    /// room for all of it, for some and for none.
    fn telemetry(&mut self, rng: &mut Rng) {
        let settings = self.draft().settings;
        if settings.has_int() {
            // Hops of different paths cannot be compared.
            let balancer = pick(rng, &["ecmp", "plb"]);
            self.reset("lb", balancer);
            self.reset("far.lb", "same");
            self.set("switch.int_room", pick(rng, &[3, 8, 8]));
            self.set("cc.mlcc.signal", "off");
        } else if rng.chance(0.2) {
            self.set("switch.int", pick(rng, &["all", "tor", "agg,tor:0"]));
            self.set("switch.int_room", pick(rng, &[0, 1, 3, 8]));
        } else {
            return;
        }
        self.make_room();
        self.set("switch.int_cut", "on");
    }

    /// Leaves the queues of all switches as they are by default and lifts those of tiers, since
    /// both were drawn for packets without telemetry. With DCsim's discipline, tiers' queues were
    /// not drawn for small packets and two of data either.
    pub(crate) fn make_room(&mut self) {
        let dcsim = self.draft().switch.qdisc == Some(QdiscKind::DcSim);
        self.unset("switch.queue");
        for tier in &mut self.topology.tier {
            for queue in [&mut tier.queue_down, &mut tier.queue_up].into_iter().flatten() {
                *queue += Bytes(if dcsim { 30_000 } else { 1_000 });
            }
        }
    }

    /// From a parity packet for each segment to one for many, for all flows or far ones, asked for
    /// at once or late.
    fn code_settings(&mut self, rng: &mut Rng) {
        let code = pick(rng, &["8,2", "auto", "1,1", "3,2", "auto:20,4", "48,16"]);
        let shape = code.trim_start_matches("auto:").replace("auto", "8,2");
        let by_loss = code.starts_with("auto");
        if !by_loss || !self.draft().settings.sched.facts().only_takes_turns {
            self.set("ec", shape);
        } else {
            self.set("ec", code);
            // On soon, and off again.
            self.set("ec.auto.losses", pick(rng, &[1, 2]));
            self.set("ec.auto.hold", pick(rng, &["1ms", "1s"]));
            self.set("ec.auto.marked", pick(rng, &["0.05", "1"]));
        }
        self.set("ec.base_rtt_min", pick(rng, &["0us", "0us", "0us", "10us"]));
        self.set("ec.block_timeout", pick(rng, &["5us", "50us", "640us", "20ms", "auto"]));
        self.set("ec.block_timer", pick(rng, &["pause", "pause", "whole"]));
        self.set("ec.resend", pick(rng, &["lost", "needed"]));
    }

    fn transport_settings(&mut self, rng: &mut Rng) {
        if self.draft().settings.sched == SchedKind::Credits {
            self.credit_settings(rng);
        } else if self.draft().settings.sched == SchedKind::Phost {
            self.token_settings(&mut rng.fork("tokens", 0));
        } else if self.draft().settings.sched == SchedKind::DcPim {
            self.matching_settings(&mut rng.fork("matching", 0));
        }
        let mut own = rng.fork("code", 0);
        if own.chance(0.4) {
            self.code_settings(&mut own);
        }
        let settings = self.draft().settings;
        let coded = settings.ec != EcKind::Uncoded;
        if own.chance(0.2) {
            let segment = u32::from(settings.payload_max);
            self.set("run.message", pick(&mut own, &[segment, segment + 1, 7 * segment]));
        }
        self.set("ack_every", pick(rng, &[1, 1, 2, 5, 64]));
        let least = if coded { "256" } else { "128" };
        self.set("psn_window", pick(rng, &["auto", "auto", least, "256", "4096"]));
        self.set("msg_window", pick(rng, &[1, 2, 64, 1024]));
        self.set("loss.reorder_window", pick(rng, &["auto", "0", "off", "0.25", "1", "3"]));
        self.set("loss.tail_probe", pick(rng, &["auto", "on", "off"]));
        self.set("loss.rto", pick(rng, &["7", "7", "4", "20"]));
        self.set("loss.backoff_max", pick(rng, &[6, 6, 5, 7]));
    }

    fn switch_settings(&mut self, mtu: u64, rng: &mut Rng) {
        // From one packet to all there are. Queues that drop start at eight: many flows can lock
        // one out of less for longer than its patience.
        let Draft { trim, switch, .. } = self.draft();
        let trims = trim && matches!(switch.qdisc, None | Some(QdiscKind::Trim));
        let counts = if trims { [1, 2, 5] } else { [8, 12, 16] };
        let tiny = counts.map(|packets| (packets * (mtu + 100)).to_string());
        let lossless = self.is_lossless();
        match below(rng, 4) {
            0 if lossless => self.set("switch.pfc.xoff", pick(rng, &tiny)),
            0 => self.set("switch.queue", pick(rng, &tiny)),
            1 => self.set("switch.queue", "1GiB"),
            2 => self.set("switch.queue_bdp", pick(rng, &["0.2", "0.5", "4"])),
            _ => {}
        }
        let mut shares = rng.fork("alpha", 0);
        if lossless && shares.chance(0.3) {
            self.set("switch.pfc.alpha", pick(&mut shares, &["0.125", "1", "40"]));
        }
        if rng.chance(0.2) {
            self.set("switch.control_queue", pick(rng, &["2KiB", "10KiB"]));
        }
        let kmin = rng.next_f64();
        self.set("switch.kmin", kmin);
        self.set("switch.kmax", kmin + (1.0 - kmin) * rng.next_f64());
        self.set("switch.detection", pick(rng, &["0us", "1us", "100us", "never"]));
        self.phantom_settings(&mut rng.fork("phantom", 0));
    }

    fn phantom_settings(&mut self, rng: &mut Rng) {
        self.set("switch.phantom.drain", pick(rng, &["0.5", "0.9", "1"]));
        self.set("switch.phantom.physical", pick(rng, &["on", "off"]));
        if rng.chance(0.5) {
            self.set("switch.phantom.size", pick(rng, &["10KB", "1MB"]));
        }
        if self.topology.wan.is_some() && !self.is_lossless() && rng.chance(0.5) {
            self.set("switch.border_queue", pick(rng, &["200KB", "4MB"]));
            let border = pick(rng, QdiscKind::NAMES);
            if border != "lossless" {
                self.set("switch.border_qdisc", border);
            }
        }
    }

    /// Rates are such that thirteen transmissions in a row, there and back over six links each, are
    /// practically never all lost.
    fn fault(&mut self, rng: &mut Rng) {
        let rate = |rng: &mut Rng, max: f64| (rng.next_f64() * max * 1e4).round() / 1e4;
        let rtt = self.round_trip();
        let us = |rng: &mut Rng, rtts: f64| {
            let ps = (rtt.as_us_f64() * 1e6 * rtts * rng.next_f64()).round();
            ps / 1e6
        };
        let tors = self.topology.tors();
        let tor = rng.below(u64::from(tors));
        let port = rng.below(u64::from(self.topology.tier[0].radix_up));
        let host = rng.below(u64::from(self.topology.nodes));
        let uplink = format!("tor:{tor}:up:{port}");
        let one = pick(rng, &[uplink, format!("host:{host}")]);
        let links = pick(rng, &["all", "hosts", "fabric", one.as_str()]).to_owned();
        let border = if self.topology.wan.is_some() { "border" } else { links.as_str() };
        let mut fault = match below(rng, 8) {
            0 => format!("loss:{}@{links}", rate(rng, 0.02)),
            1 => {
                // A burst ends by packets, not by time: a lone one may be lost many times in a row.
                self.set("loss.retries_max", 64);
                format!("burst-loss:{}@{links},burst={}", rate(rng, 0.02), between(rng, 1, 3))
            }
            2 => format!("duplicate:{}@{links}", rate(rng, 0.2)),
            3 => {
                let delay = us(rng, 3.0) + 0.001;
                format!("reorder:{}@{links},delay_us={delay}", rate(rng, 0.3))
            }
            4 => format!("corrupt:{}@{links}", rate(rng, 0.02)),
            5 => format!("degrade:{}@{links}", 0.1 + rate(rng, 0.9)),
            6 => {
                let [one, two] = [rate(rng, 0.1), rate(rng, 0.05)];
                format!("block-loss:{one}/{two}@{border},block={}", between(rng, 5, 20))
            }
            _ => format!("down@{one}"),
        };
        let from = us(rng, 10.0);
        let down = fault.starts_with("down");
        let until = if down { us(rng, 50.0) } else { us(rng, 500.0) } + 0.001;
        if rng.chance(0.5) {
            write!(fault, ",from_us={from:.6}").unwrap();
        }
        if rng.chance(if down { 0.8 } else { 0.5 }) {
            write!(fault, ",until_us={:.6}", from + until).unwrap();
            if down {
                // A switch goes on avoiding the link until it notices that it is back.
                let until = until + 100.0;
                self.outage = self.outage.max(micros(until));
            }
        } else if down {
            self.outage = FOR_EVER;
        }
        self.set("fault", fault);
    }

    /// The longest round trip, about.
    pub(crate) fn round_trip(&self) -> Duration {
        self.topology.base_rtt(Bytes(9000), Bytes(100))
    }

    pub(crate) fn is_lossless(&self) -> bool {
        self.draft().switch.qdisc == Some(QdiscKind::Lossless)
    }

    /// Whether anything breaks.
    pub(crate) fn has_faults(&self) -> bool {
        self.settings.iter().any(|(key, _)| *key == "fault")
    }

    /// The settings as a run has them, with samples to watch windows by.
    pub(crate) fn draft(&self) -> Draft {
        let mut draft = Draft::default();
        for (key, value) in &self.settings {
            match *key {
                "transport" => draft.set_transport(value, Origin::Set),
                "cc" => draft.set_cc(value, Origin::Set),
                "lb" => draft.set_lb(value, Origin::Set),
                "seed" => {
                    draft.set_seed(value.parse().unwrap(), Origin::Set);
                    Ok(())
                }
                "trim" => {
                    draft.set_trim(value == "on", Origin::Set);
                    Ok(())
                }
                key => draft.set(key, value, Origin::Set),
            }
            .unwrap_or_else(|error| panic!("{key}={value}: {error}"));
        }
        draft.limit = Some(Duration::from_s(3600));
        if self.outage < FOR_EVER {
            draft.sampling = Some(self.round_trip().max(Duration::from_us(1)));
        }
        draft
    }

    /// The case as inputs of the command: two files and a line.
    pub(crate) fn text(&self) -> String {
        let topo = topo_file::to_text(&self.topology);
        let mut text = format!("--- case.topo\n{topo}--- case.cm (--set cm.start_unit=ps)\n");
        cm_write::write(&self.matrix, workload::cm::StartUnit::Ps, Text(&mut text)).unwrap();
        text += "---\nheadrace run case.cm --topo case.topo --world sim";
        for (key, value) in &self.settings {
            match *key {
                "transport" | "cc" | "lb" | "trim" | "seed" => {
                    write!(text, " --{key} {value}").unwrap()
                }
                key => write!(text, " --set '{key}={value}'").unwrap(),
            }
        }
        text
    }
}

/// A text to write bytes of text to.
struct Text<'a>(&'a mut String);

impl std::io::Write for Text<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Two or three tiers, at most 36 hosts; `alike` gives all links one speed and one latency.
fn topology(alike: bool, rng: &mut Rng) -> FatTreeSpec {
    let tiers = pick(rng, &[2u8, 3]);
    let [hosts, tors, aggs] = [between(rng, 1, 4), between(rng, 1, 3), between(rng, 1, 3)];
    // Two hosts at least, and something above them.
    let pods = if tiers == 3 { between(rng, 2, 3) } else { 1 };
    let tors = if pods * tors * hosts < 2 { 2 } else { tors };
    let [bundle, bundle_up, cores] = [between(rng, 1, 2), between(rng, 1, 2), between(rng, 1, 2)];
    let podsize = tors * hosts;
    let radices = [
        (hosts, aggs * bundle, 1),
        (tors * bundle, if tiers == 3 { cores * bundle_up } else { 0 }, bundle),
        (pods * bundle_up, 0, bundle_up),
    ];
    // Links of a tier are always alike.
    let speed = |rng: &mut Rng| pick(rng, &[1u32, 25, 100, 100, 400, 800]);
    let delay = |rng: &mut Rng| pick(rng, &[0u32, 1, 50, 600, 600, 5_000, 100_000]);
    let (mut gbps, mut latency) = (speed(rng), delay(rng));
    let mut tree = FatTreeSpec { nodes: pods * podsize, tiers, podsize, ..FatTreeSpec::default() };
    for (tier, (radix_down, radix_up, bundle)) in radices.into_iter().enumerate() {
        if tier >= usize::from(tiers) {
            break;
        }
        if !alike {
            (gbps, latency) = (speed(rng), delay(rng));
        }
        let queue = |rng: &mut Rng| rng.chance(0.1).then(|| Bytes(9100 + rng.below(100_000)));
        tree.tier[tier] = TierSpec {
            downlink_mbps: gbps * 1000,
            radix_down,
            radix_up,
            queue_down: queue(rng),
            queue_up: queue(rng).filter(|_| tier + 1 < usize::from(tiers)),
            oversubscribed: 1,
            bundle,
            switch_latency_ns: delay(rng).min(600),
            downlink_latency_ns: latency,
        };
    }
    let mut sites = rng.fork("sites", 0);
    if sites.chance(0.2) {
        join(&mut tree, alike, &mut sites);
    }
    for tier in 0..tree.levels() {
        tree.tier[usize::from(tier)].oversubscribed = tree.oversubscription(tier);
    }
    tree.check().unwrap_or_else(|error| panic!("{error}: {tree:?}"));
    tree
}

/// Two of `tree`, with border switches; far apart, if not all links are `alike`.
fn join(tree: &mut FatTreeSpec, alike: bool, rng: &mut Rng) {
    let (tops, top) = (tree.tops_per_site(), usize::from(tree.tiers) - 1);
    let (bundle, links) = (between(rng, 1, 2), between(rng, 1, 3));
    let borders = pick(&mut rng.fork("borders", 0), &[1, 1, 2, 3]);
    let mut border =
        TierSpec { radix_down: tops * bundle, radix_up: links * borders, bundle, ..tree.tier[0] };
    let (mut gbps, mut latency_ns) = (border.downlink_mbps / 1000, border.downlink_latency_ns);
    if !alike {
        (gbps, latency_ns) = (pick(rng, &[25, 100, 800]), pick(rng, &[5_000, 900_000]));
        border.downlink_mbps = gbps * 1000;
    }
    tree.nodes *= 2;
    tree.tier[top].radix_up = bundle * borders;
    tree.tier[top + 1] = border;
    tree.wan = Some(WanSpec { gbps, latency_ns, borders });
}

fn matrix(digits: &mut Digits, nodes: u32, mtu: u64, rng: &mut Rng) -> Matrix {
    let mut matrix = match GENERATORS.get(digits.next(2 * GENERATORS.len())) {
        Some(generator) => generated(generator, nodes, rng),
        None => drawn(nodes, rng),
    };
    // Shares of the budget; short flows leave theirs to the long ones.
    let share = PACKETS * mtu / matrix.flows.len() as u64;
    for flow in &mut matrix.flows {
        let cap = share.max(1) * pick(rng, &[1, 1, 1, 3]);
        flow.size = flow.size.min(Bytes(cap.min(SIZE_MAX)));
    }
    workload::check::check(&matrix).unwrap_or_else(|error| panic!("{error}"));
    matrix
}

fn generated(generator: &workload::Generator, nodes: u32, rng: &mut Rng) -> Matrix {
    let mut params = Params::from_pairs([]);
    for parameter in generator.parameters {
        let value = match parameter.name {
            "degree" => between(rng, 1, nodes - 1).to_string(),
            "receiver" => between(rng, 0, nodes - 1).to_string(),
            "window" => between(rng, 0, 3).to_string(),
            "size" => rng.below(SIZE_MAX).max(1).to_string(),
            "load" => format!("{:.3}", 0.05 + 0.95 * rng.next_f64()),
            "remote" | "full_bisection" | "synchronous" => rng.chance(0.5).to_string(),
            "duration" => "100us".to_owned(),
            _ => continue,
        };
        // A permutation of two halves needs two halves.
        if parameter.name != "full_bisection" || nodes.is_multiple_of(2) {
            params.push(parameter.name, &value, 0, 0);
        }
    }
    let workload = workload::by_name(generator.name, &params);
    let workload = workload.unwrap_or_else(|error| panic!("{}: {error}", generator.name));
    let mut matrix = workload.generate(nodes, rng).unwrap();
    if matrix.flows.is_empty() {
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1)));
    }
    matrix
}

/// A matrix with starts by time, messages on connections, and triggers in stages: each trigger is
/// poked by flows of earlier stages and starts a later one.
fn drawn(nodes: u32, rng: &mut Rng) -> Matrix {
    let mut matrix = Matrix { nodes, ..Matrix::default() };
    for _ in 0..between(rng, 1, 12) {
        let start = Start::At(Duration::from_ns(rng.below(3) * rng.below(50_000)));
        let flow = FlowSpec { start, ..flow(nodes, rng) };
        push_with_messages(&mut matrix, flow, rng);
    }
    for _ in 0..between(rng, 0, 3) {
        stage(&mut matrix, rng);
    }
    matrix
}

fn flow(nodes: u32, rng: &mut Rng) -> FlowSpec {
    let src = between(rng, 0, nodes - 1);
    let dst = (src + between(rng, 1, nodes - 1)) % nodes;
    let size = octave(rng, 20);
    FlowSpec { prio: rng.next_u32() >> 1, ..FlowSpec::new(HostId(src), HostId(dst), Bytes(size)) }
}

/// Appends a flow and, sometimes, messages that follow on its connection.
fn push_with_messages(matrix: &mut Matrix, flow: FlowSpec, rng: &mut Rng) {
    let opener = matrix.push_flow(flow).unwrap();
    if !rng.chance(0.3) {
        return;
    }
    let id = matrix.flows[opener.index()].id;
    for number in 0..between(rng, 1, 6) {
        let message = if rng.chance(0.5) {
            LineMeaning::Next
        } else {
            LineMeaning::Numbered(NonZeroU32::new(number + 1).unwrap())
        };
        let size = Bytes(octave(rng, 16));
        matrix.flows.push(FlowSpec { id, size, message, ..flow });
    }
}

fn stage(matrix: &mut Matrix, rng: &mut Rng) {
    let earlier = matrix.flows.len();
    // (flow, by its receiver rather than its sender)
    let mut pokes: Vec<(usize, bool)> = Vec::new();
    for _ in 0..between(rng, 1, 4) {
        let poke = (below(rng, earlier), rng.chance(0.5));
        let spec = &matrix.flows[poke.0];
        let taken = if poke.1 { spec.recv_done } else { spec.send_done };
        if taken.is_none() && !pokes.contains(&poke) {
            pokes.push(poke);
        }
    }
    let Some(count) = u32::try_from(pokes.len()).ok().and_then(NonZeroU32::new) else { return };
    let kinds = [TriggerKind::Oneshot, TriggerKind::Multishot, TriggerKind::Barrier(count)];
    let kind = pick(rng, &kinds);
    // Below the lookahead, about as long as it, and far above.
    let delay = pick(&mut rng.fork("delay", 0), &[0, 0, 1, 300_000, 700_000, 50_000_000]);
    let trigger = matrix.push_delayed_trigger(kind, Duration::from_ps(delay)).unwrap();
    for (flow, by_receiver) in pokes {
        let spec = &mut matrix.flows[flow];
        *(if by_receiver { &mut spec.recv_done } else { &mut spec.send_done }) = Some(trigger);
    }
    let waiting = if kind == TriggerKind::Multishot { count.get() } else { between(rng, 1, 4) };
    for _ in 0..waiting {
        let flow = FlowSpec { start: Start::On(trigger), ..flow(matrix.nodes, rng) };
        matrix.push_flow(flow).unwrap();
    }
}

/// Hosts of Zeropod need a pod with a scheduler: they have cases of their own (`pods`).
fn stays_out(name: &str) -> bool {
    name.starts_with("zeropod") || name == "ideal"
}

/// The greatest number that divides both.
fn divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Microseconds in a text's precision as a span.
pub(crate) fn micros(us: f64) -> Duration {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small and positive"
    )]
    Duration::from_ns((us * 1e3) as u64)
}

#[test]
fn sixty_cases_of_any_seed_have_every_name() {
    for seed in 0..200 {
        let mut seen = BASES.map(|base| vec![false; base]);
        for number in 0..60 {
            let mut digits = Digits::of(seed, number);
            for (names, base) in seen.iter_mut().zip(BASES) {
                names[digits.next(base)] = true;
            }
        }
        assert!(seen.iter().flatten().all(|seen| *seen), "seed {seed}: {seen:?}");
    }
}

#[test]
fn the_command_of_a_case_has_each_flag_once() {
    for number in 0..60 {
        let command = Case::new(1, number).text();
        for flag in [" --transport ", " --cc ", " --lb ", " --trim ", " --seed "] {
            assert!(command.matches(flag).count() <= 1, "{command}");
        }
    }
}
