//! The settings of `--set KEY=VALUE` and of a scenario's `[set]`: one table, one line a key.
//!
//! Keys of policies (`cc.<name>.<key>`, `lb.<key>`, `ec.<key>`, `sched.<name>.<key>`), of queue
//! disciplines and of switch programs (`switch.<name>.<key>`) come from their own tables.

use std::num::NonZeroU32;

use fabric::QdiscKind;
use transport::cc::CcKind;
use transport::ec::{BlockShape, EcKind};
use transport::lb::LbKind;
use transport::params::ParamError;
use transport::sched::SchedKind;
use transport::wire::int::HOPS_MAX;
use transport::{Bytes, Duration};

use super::draft::Draft;
use super::policy_keys::{self, ENDPOINTS, SWITCHES};
use super::transports::Transport;
use crate::input::number;
use crate::input::{InputError, did_you_mean, nearest};
use crate::topology::programs;
use crate::workload::cm::StartUnit;
use crate::workload::matrix::MESSAGE_MAX;

/// One setting.
pub struct Key {
    /// The dotted name of the key.
    pub name: &'static str,
    /// One line for lists: meaning, unit and range.
    pub about: &'static str,
    set: fn(&mut Draft, &str) -> Result<(), Refusal>,
    show: fn(&Draft) -> String,
}

/// Why a value was refused: what was expected of it as a whole, or which part of it is wrong.
enum Refusal {
    Expected(&'static str),
    Part(InputError),
}

impl From<&'static str> for Refusal {
    fn from(expected: &'static str) -> Self {
        Self::Expected(expected)
    }
}

impl From<InputError> for Refusal {
    fn from(error: InputError) -> Self {
        Self::Part(error)
    }
}

macro_rules! keys {
    ($(
        $name:literal, $about:literal,
        |$draft:ident, $text:ident| $set:expr, |$d:ident| $show:expr;
    )+) => {
        /// Every setting that is not a policy's.
        pub const KEYS: &[Key] = &[$(Key {
            name: $name,
            about: $about,
            set: |$draft, $text| { $set; Ok(()) },
            show: |$d| $show,
        }),+];
    };
}

keys! {
    "sched", "who sends next: a scheduler; see `headrace list schedulers`",
        |d, v| d.settings.sched = SchedKind::by_name(v)
            .ok_or("a scheduler; see `headrace list schedulers`")?,
        |d| d.settings.sched.name().to_owned();
    "ec", "erasure code of far flows: X,Y data and parity segments of a block, NAME:X,Y for a code \
        other than mds, or off; see `headrace list ec`",
        |d, v| (d.settings.ec, d.settings.ec_shape) = code(v)?,
        |d| shown_code(d.settings.ec, d.settings.ec_shape);
    "far.rtt", "base RTT from which on a path is far: leads to another datacentre; a time above 0",
        |d, v| d.settings.far.rtt = above_zero(v)?, |d| time(d.settings.far.rtt);
    "far.cc", "controller of far paths, or same: that of the others",
        |d, v| d.settings.far.cc = unless(v, "same", controller)?,
        |d| d.settings.far.cc.map_or("same".to_owned(), |kind| kind.name().to_owned());
    "far.lb", "load balancer of far paths, or same: that of the others",
        |d, v| d.settings.far.lb = unless(v, "same", balancer)?,
        |d| d.settings.far.lb.map_or("same".to_owned(), |kind| kind.name().to_owned());
    "mtu", "payload bytes of a full segment, 64..=8960",
        |d, v| d.settings.payload_max = payload(v)?, |d| d.settings.payload_max.to_string();
    "ack_every", "acknowledge every n-th segment, 1..=64",
        |d, v| d.settings.ack_every = integer(v)?, |d| d.settings.ack_every.to_string();
    "ack_delay", "how long a segment may wait to be acknowledged with others: a time, or auto",
        |d, v| d.settings.ack_delay = unless(v, "auto", duration)?,
        |d| d.settings.ack_delay.map_or("auto".to_owned(), time);
    "keep_alive", "how often the receiver of an idle flow is reminded of it: a time, or off",
        |d, v| d.settings.keep_alive = unless(v, "off", duration)?,
        |d| d.settings.keep_alive.map_or("off".to_owned(), time);
    "psn_window", "PSNs a flow may have outstanding, a power of two 128..=1048576, or auto",
        |d, v| d.psn_window = unless(v, "auto", integer)?, |d| shown(d.psn_window, "auto");
    "msg_window", "messages a flow may have unfinished, 1..=1024",
        |d, v| d.settings.msg_window = integer(v)?, |d| d.settings.msg_window.to_string();
    "base_rtt", "idle round-trip time of every path, or auto: by the topology, for each pair",
        |d, v| d.base_rtt = unless(v, "auto", duration)?, |d| shown(d.base_rtt, "auto");
    "loss.reorder_window", "base RTTs a segment may be overtaken by, 0.25.., or off, or auto",
        |d, v| d.reorder_window = unless(v, "auto", |v| unless(v, "off", real))?,
        |d| d.reorder_window.map_or("auto".to_owned(), |window| shown(window, "off"));
    "loss.rto", "base RTTs of silence after which a segment is lost, 1..=1000",
        |d, v| d.settings.loss.rto_quarters = quarters(v)?,
        |d| (f64::from(d.settings.loss.rto_quarters) / 4.0).to_string();
    "loss.rto_min", "shortest timeout, a time",
        |d, v| d.settings.loss.rto_min = duration(v)?, |d| time(d.settings.loss.rto_min);
    "loss.backoff_max", "doublings of the timeout, 0..=16",
        |d, v| d.settings.loss.backoff_max = integer(v)?,
        |d| d.settings.loss.backoff_max.to_string();
    "loss.retries_max", "timeouts in a row after which a flow fails, 1..=64",
        |d, v| d.settings.loss.retries_max = integer(v)?,
        |d| d.settings.loss.retries_max.to_string();
    "loss.give_up", "silence that a flow survives whatever its timeouts, a time up to 3600 s",
        |d, v| d.settings.loss.give_up = duration(v)?, |d| time(d.settings.loss.give_up);
    "loss.tail_probe", "probe a silent tail before the timeout: on, off, or auto: without trimming",
        |d, v| d.tail_probe = unless(v, "auto", on_off)?, |d| shown(d.tail_probe, "auto");
    "switch.qdisc", "queue discipline of switch ports, or auto: by trim",
        |d, v| d.switch.qdisc = unless(v, "auto", qdisc)?,
        |d| d.switch.qdisc.map_or("auto".to_owned(), |kind| kind.name().to_owned());
    "switch.routing", "the way of a packet up: hash, drawn by addresses and entropy value, or \
        explicit, named by the entropy value",
        |d, v| d.switch.explicit = routing(v)?,
        |d| (if d.switch.explicit { "explicit" } else { "hash" }).to_owned();
    "switch.program", "programs of switches: NAME@SWITCHES with commas between, SWITCHES all, a \
        tier or one of it (pfc@tor:3), or none; see `headrace list programs`",
        |d, v| d.programs = programs::read(v)?, |d| programs::show(&d.programs);
    "switch.int", "switches whose ports write telemetry into packets: auto, all where a controller \
        reads it; off; or SWITCHES with commas between (tor,border), for packets of every flow",
        |d, v| d.set_stamping(v.parse()?), |d| d.stamping.to_string();
    "switch.int_room", "hops of telemetry that packets with telemetry have room for, 0..=8",
        |d, v| d.settings.int_room = hops(v)?, |d| d.settings.int_room.to_string();
    "switch.int_cut", "run where paths have more hops than packets have room for: on or off",
        |d, v| d.int_cut = on_off(v)?, |d| if d.int_cut { "on" } else { "off" }.to_owned();
    "switch.queue", "data bytes a port buffers (where lossless, of its link in, or of the whole \
        switch with switch.pfc.alpha), or auto: the topology's, else switch.queue_bdp",
        |d, v| d.switch.queue = unless(v, "auto", bytes)?, |d| shown(d.switch.queue, "auto");
    "switch.queue_bdp", "data a port buffers in BDPs of the network (of one site), above 0",
        |d, v| d.switch.queue_bdp = positive(v)?, |d| d.switch.queue_bdp.to_string();
    "switch.border_queue", "data bytes a port at a border switch's link buffers, or auto: as all",
        |d, v| d.switch.border_queue = unless(v, "auto", bytes)?,
        |d| shown(d.switch.border_queue, "auto");
    "switch.border_qdisc", "queue discipline of these ports, or auto: as all",
        |d, v| d.switch.border_qdisc = unless(v, "auto", qdisc)?,
        |d| d.switch.border_qdisc.map_or("auto".to_owned(), |kind| kind.name().to_owned());
    "switch.kmin", "share of the queue up to which nothing is marked, 0..=1",
        |d, v| d.switch.kmin = share(v)?, |d| d.switch.kmin.to_string();
    "switch.kmax", "share of the queue above which everything is marked, 0..=1",
        |d, v| d.switch.kmax = share(v)?, |d| d.switch.kmax.to_string();
    "switch.control_queue", "control bytes a port buffers, or auto: as much as data, and 64 \
        acknowledgements at least",
        |d, v| d.switch.control_queue = unless(v, "auto", bytes)?,
        |d| shown(d.switch.control_queue, "auto");
    "switch.detection", "how long a dead link is used before its switch notices, a time, or never",
        |d, v| d.switch.detection = unless(v, "never", duration)?,
        |d| d.switch.detection.map_or("never".to_owned(), time);
    "run.limit", "network time after which a run ends unfinished, or none",
        |d, v| d.limit = unless(v, "none", duration)?, |d| d.limit.map_or("none".to_owned(), time);
    "run.message", "bytes of a flow that one message carries at most, 1..=1GiB, or none: all",
        |d, v| d.message = unless(v, "none", message)?, |d| shown(d.message, "none");
    "run.memory", "memory a simulation may be expected to need, or auto: what the machine has",
        |d, v| d.memory = unless(v, "auto", bytes)?, |d| shown(d.memory.map(|b| b.0), "auto");
    "sim.threads", "threads that run a simulation, 1..=64; results do not depend on it",
        |d, v| d.threads = workers(v)?, |d| d.threads.to_string();
    "sampling.interval", "time between samples of series.jsonl, or none",
        |d, v| d.sampling = unless(v, "none", interval)?,
        |d| d.sampling.map_or("none".to_owned(), time);
    "sampling.flows", "flows that samples show one by one, as 1,5,10..20: lines of the matrix from \
        1, at most 4096, or auto: the first 64",
        |d, v| d.sampled = unless(v, "auto", str::parse)?, |d| shown(d.sampled.as_ref(), "auto");
    "cm.start_unit", "unit of start in .cm files: us or ps",
        |d, v| d.start_unit = StartUnit::by_name(v).ok_or("us or ps")?,
        |d| (if d.start_unit == StartUnit::Ps { "ps" } else { "us" }).to_owned();
    "wire.data_overhead", "bytes around the payload of DATA that a simulation accounts, 1..=1024, \
        or headers: those of this implementation",
        |d, v| d.settings.accounted.data_overhead = unless(v, "headers", size_up_to::<1024>)?,
        |d| shown(d.settings.accounted.data_overhead, "headers");
    "wire.control", "bytes of a packet without payload that a simulation accounts, 1..=255, or \
        headers: those of this implementation",
        |d, v| d.settings.accounted.control = unless(v, "headers", size_up_to::<255>)?,
        |d| shown(d.settings.accounted.control, "headers");
    "wire.data_min", "payload bytes that DATA counts as at least in a simulation with \
        wire.data_overhead, 0..=8960: shorter ones are padded",
        |d, v| d.settings.accounted.data_min = at_most::<8960>(v)?,
        |d| d.settings.accounted.data_min.to_string();
    "host.offset", "how far the clock of a simulated host is ahead of network time or behind it at \
        most, a time up to 1s; each host draws its own",
        |d, v| d.clocks.offset = up_to(v, Duration::from_s(1))?, |d| time(d.clocks.offset);
    "host.drift_ppm", "how much faster or slower such a clock runs at most, 0..=10000 parts in a \
        million; each host draws its own",
        |d, v| d.clocks.drift_ppm = ppm(v)?, |d| d.clocks.drift_ppm.to_string();
    "host.jitter", "how late a reading of such a clock is at most, a time up to 1ms",
        |d, v| d.clocks.jitter = up_to(v, Duration::from_ms(1))?, |d| time(d.clocks.jitter);
    "udp_port", "UDP port that hosts listen at, 1..=65535",
        |d, v| d.udp_port = udp_port(v)?, |d| d.udp_port.to_string();
    "fault", "adds a fault: KIND[:VALUE]@LINKS[,key=value]..., e.g. loss:0.01@all",
        |d, v| d.faults.push(v.parse()?),
        |d| d.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    "vdev.pmd", "virtual device of a host: net_ring, net_memif, net_tap or net_null",
        |d, v| d.vdev.pmd = word(v, PMDS)?, |d| d.vdev.pmd.clone();
    "vdev.time_scale", "real time per network time, 1.., or auto: what this machine sustains",
        |d, v| d.vdev.time_scale = unless(v, "auto", at_least_one)?,
        |d| shown(d.vdev.time_scale, "auto");
    "vdev.workers", "threads that run hosts, 1..=64, or auto",
        |d, v| d.vdev.workers = unless(v, "auto", workers)?, |d| shown(d.vdev.workers, "auto");
    "vdev.memory_mb", "memory for packet buffers, MiB, 64.., or auto",
        |d, v| d.vdev.memory_mb = unless(v, "auto", memory)?, |d| shown(d.vdev.memory_mb, "auto");
    "vdev.hugepages", "use hugepages: on, off, or auto: when there are enough",
        |d, v| d.vdev.hugepages = unless(v, "auto", on_off)?, |d| shown(d.vdev.hugepages, "auto");
    "vdev.record", "keep every input of every endpoint for replay: on or off",
        |d, v| d.vdev.record = on_off(v)?, |d| d.vdev.record.to_string();
    "nic.qdisc", "queue discipline of an emulated NIC (worlds sim and vdev)",
        |d, v| d.nic.qdisc = qdisc(v)?, |d| d.nic.qdisc.name().to_owned();
    "nic.depth", "packets that a simulated NIC holds beyond the one that it sends, 1..=1024",
        |d, v| d.nic.depth = depth(v)?, |d| d.nic.depth.to_string();
    "nic.control_depth", "control packets that a simulated NIC holds beside nic.depth of data, \
        1..=1024, or auto: both count for nic.depth",
        |d, v| d.nic.control_depth = unless(v, "auto", depth)?,
        |d| shown(d.nic.control_depth, "auto");
    "nic.patience", "how long hosts of a real network wait for each other to begin, a time",
        |d, v| d.nic.patience = duration(v)?, |d| time(d.nic.patience);
}

/// The devices of `vdev.pmd`.
pub const PMDS: &[&str] = &["net_ring", "net_memif", "net_tap", "net_null"];

/// Sets `key` from `value`.
pub(super) fn set(draft: &mut Draft, key: &str, value: &str) -> Result<(), InputError> {
    // Messages name the setting as it was written.
    let (written, key) = (key, canonical(key));
    let wrong = |expected: String| InputError::new(format!("`{written}={value}`"), expected);
    if let Some(known) = KEYS.iter().find(|known| known.name == key) {
        return (known.set)(draft, value).map_err(|refusal| match refusal {
            Refusal::Expected(expected) => wrong(expected.to_owned()),
            Refusal::Part(mut error) => {
                error.found = format!("`{written}={value}`: {}", error.found);
                error
            }
        });
    }
    if let Some(set) = policy_keys::set(draft, key, value) {
        return set.map_err(|error| match error {
            ParamError::UnknownKey(_) => unknown(written),
            ParamError::BadValue(known) | ParamError::OutOfRange(known) => {
                wrong(known.takes()).help(default_with(draft.transport, key).unwrap_or_default())
            }
        });
    }
    Err(unknown(written))
}

/// A sentence that names the default of `key` with the preset `transport`.
fn default_with(transport: &Transport, key: &str) -> Option<String> {
    let of_preset = transport.set().filter(|(name, _)| canonical(name) == key).last();
    match of_preset {
        Some((_, value)) => {
            Some(format!("its default is {value} with the transport {}", transport.name))
        }
        None => default_of(key).map(|value| format!("its default is {value}")),
    }
}

/// No setting has this name.
fn unknown(key: &str) -> InputError {
    let names = names();
    let seconds = SECOND_NAMES.iter().map(|(second, _)| *second);
    let all: Vec<&str> = names.iter().map(String::as_str).chain(seconds).collect();
    let (mut family, mut near) = (key, Vec::new());
    while let (true, Some(end)) = (near.is_empty(), family.rfind('.')) {
        near = all.iter().copied().filter(|name| name.starts_with(&family[..=end])).collect();
        family = &family[..end];
    }
    let help = match nearest(key, all.iter().copied()) {
        _ if ["transport", "cc", "lb", "seed", "topo", "world"].contains(&key) => {
            format!("that is the flag --{key}, and a key of scenarios")
        }
        _ if !near.is_empty() && near.len() <= FAMILY_MAX => did_you_mean(key, &near),
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("headrace list settings has all {}", all.len()),
    };
    InputError::new(format!("setting `{key}`"), "a known setting").help(help)
}

/// A family of more settings than these is not listed for a typing error.
const FAMILY_MAX: usize = 40;

/// Second names: MLCC is one thing to its user, and three parts here; DCsim's switches limit SIMs.
const SECOND_NAMES: [(&str, &str); 18] = [
    ("cc.mlcc.theta", "rc.mlcc.theta"),
    ("cc.mlcc.theta_rtts", "rc.mlcc.theta_rtts"),
    ("cc.mlcc.dt", "rc.mlcc.dt"),
    ("cc.mlcc.dt_rtts", "rc.mlcc.dt_rtts"),
    ("cc.mlcc.leak", "rc.mlcc.leak"),
    ("cc.mlcc.alpha", "rc.mlcc.alpha"),
    ("cc.mlcc.m", "rc.mlcc.m"),
    ("cc.mlcc.initial", "rc.mlcc.initial"),
    ("cc.mlcc.below", "rc.mlcc.below"),
    ("cc.mlcc.clock", "switch.dci.clock"),
    ("cc.mlcc.feedback_gap", "switch.dci.feedback_gap"),
    ("dci.queues", "switch.dci.queues"),
    ("sched.zeropod.clock_offset", "host.offset"),
    ("sched.zeropod.clock_drift", "host.drift_ppm"),
    ("sched.zeropod.clock_jitter", "host.jitter"),
    ("switch.sim.queue", "switch.dcsim.queue"),
    ("switch.sim.bucket", "switch.dcsim.bucket"),
    ("switch.sim.overhead", "switch.dcsim.overhead"),
];

/// The settings of `sched.zeropod` that are of the scheduler's decisions: hosts do not read them
/// where it is a process of its own.
pub const OF_DECISIONS: [&str; 5] = ["matcher", "iterations", "kernel", "classes", "fair_every"];

/// Whether `key` is one of [`OF_DECISIONS`].
#[must_use]
pub fn is_of_decisions(key: &str) -> bool {
    key.strip_prefix("sched.zeropod.").is_some_and(|own| OF_DECISIONS.contains(&own))
}

/// The first name of a setting.
#[must_use]
pub fn canonical(key: &str) -> &str {
    SECOND_NAMES.iter().find(|(second, _)| *second == key).map_or(key, |(_, first)| first)
}

/// The second name of a setting, for messages; its only name where it has one.
#[must_use]
pub fn familiar(key: &str) -> &str {
    SECOND_NAMES.iter().find(|(_, first)| *first == key).map_or(key, |(second, _)| second)
}

/// The value of a setting that is not a policy's, as text that sets it.
pub(super) fn show(draft: &Draft, key: &str) -> Option<String> {
    KEYS.iter().find(|known| known.name == key).map(|known| (known.show)(draft))
}

/// The value of a key without a preset, a scenario or a flag, as text that sets it.
pub(super) fn default_of(key: &str) -> Option<String> {
    let draft = Draft::default();
    show(&draft, key).or_else(|| policy_keys::show(&draft, key))
}

/// Every name of `--set`.
#[must_use]
pub fn names() -> Vec<String> {
    all().map(|(name, _)| name).collect()
}

/// Every name with its one line, in the order of the tables.
pub fn all() -> impl Iterator<Item = (String, String)> {
    let line = |doc: &str| doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let named = |keys: &'static [Key]| keys.iter().map(|key| (key.name.to_owned(), key.about));
    let (before, after) = around_switches();
    let own = named(before).chain(policy_keys::all(SWITCHES)).chain(named(after));
    own.chain(policy_keys::all(ENDPOINTS)).map(move |(name, doc)| {
        let line = line(doc) + &also(&name);
        (name, line)
    })
}

/// A setting as lists show it.
pub struct Listed {
    /// The dotted name.
    pub name: String,
    /// Meaning, unit and range, one line.
    pub about: String,
    /// The value without a preset, a scenario or a flag, as text that sets it.
    pub default: String,
    /// The form of its values and their range, where a policy's table has them.
    pub takes: Option<String>,
}

/// Every setting, in the order of [`all`].
pub fn listed() -> Vec<Listed> {
    let line = |(name, about): (String, String)| {
        let default = default_of(&name).unwrap_or_default();
        let takes = policy_keys::takes(&name);
        Listed { name, about, default, takes }
    };
    all().map(line).collect()
}

/// The second name of a setting, for its line.
fn also(name: &str) -> String {
    let second = SECOND_NAMES.iter().find(|(_, first)| *first == name);
    second.map_or(String::new(), |(second, _)| format!(" (also {second})"))
}

/// The table in two: the keys of disciplines and programs stand between, among those of switches.
fn around_switches() -> (&'static [Key], &'static [Key]) {
    let at = KEYS.iter().position(|key| key.name == "switch.control_queue");
    KEYS.split_at(at.unwrap_or(KEYS.len()))
}

/// The value of every key of the table, of all disciplines and programs and of the chosen policies,
/// as text that sets it.
pub(super) fn effective(draft: &Draft) -> impl Iterator<Item = (String, String)> + '_ {
    let shown =
        |keys: &'static [Key]| keys.iter().map(|key| (key.name.to_owned(), (key.show)(draft)));
    let (before, after) = around_switches();
    let switches = policy_keys::values(SWITCHES, draft);
    let own = shown(before).chain(switches).chain(shown(after));
    own.chain(policy_keys::chosen(draft))
}

/// The code of a text that names none.
const CODE_DEFAULT: EcKind = EcKind::Mds;

/// An erasure code and its blocks; without one, the blocks of the default.
fn code(text: &str) -> Result<(EcKind, BlockShape), &'static str> {
    let without = EcKind::ALL.iter().find(|kind| kind.number().is_none());
    if let Some(&none) = without.filter(|none| none.name() == text) {
        return Ok((none, BlockShape::default()));
    }
    let expected = "off, or X,Y: 1..=48 data and 1..=16 parity segments of a block, like 8,2";
    let (kind, shape) = match text.split_once(':') {
        Some((name, shape)) => (EcKind::by_name(name).ok_or(expected)?, shape),
        None => (CODE_DEFAULT, text),
    };
    let shape: BlockShape = shape.parse().map_err(|_| expected)?;
    if shape.parity() > 0 && kind.number().is_some() { Ok((kind, shape)) } else { Err(expected) }
}

/// The text that [`code`] reads.
fn shown_code(kind: EcKind, shape: BlockShape) -> String {
    match kind {
        CODE_DEFAULT => shape.to_string(),
        _ if kind.number().is_none() => kind.name().to_owned(),
        _ => format!("{}:{shape}", kind.name()),
    }
}

fn shown<T: std::fmt::Display>(value: Option<T>, none: &str) -> String {
    value.map_or(none.to_owned(), |value| value.to_string())
}

/// In the largest unit in which it is a whole number.
fn time(span: Duration) -> String {
    let ps = span.as_ps();
    let units = [("s", 1_000_000_000_000), ("ms", 1_000_000_000), ("us", 1_000_000), ("ns", 1000)];
    let whole = units.into_iter().find(|(_, of)| ps > 0 && ps.is_multiple_of(*of));
    match whole {
        Some((unit, of)) => format!("{}{unit}", ps / of),
        None => format!("{ps}ps"),
    }
}

/// `None` for the word, else the parsed value.
fn unless<T>(
    text: &str,
    word: &str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Result<Option<T>, &'static str> {
    if text == word { Ok(None) } else { parse(text).map(Some) }
}

fn integer<T: std::str::FromStr>(text: &str) -> Result<T, &'static str> {
    text.parse().map_err(|_| "a whole number in range; see `headrace list settings`")
}

fn payload(text: &str) -> Result<u16, &'static str> {
    integer(text)
        .and_then(|n| if (64..=8960).contains(&n) { Ok(n) } else { Err("64..=8960 bytes") })
}

/// A size of packets in bytes, 1 to `MOST`.
fn size_up_to<const MOST: u16>(text: &str) -> Result<u16, &'static str> {
    let size = integer(text).ok().filter(|size| (1..=MOST).contains(size));
    size.ok_or("bytes in range, or headers; see `headrace list settings`")
}

fn at_most<const MOST: u16>(text: &str) -> Result<u16, &'static str> {
    integer(text).ok().filter(|size| *size <= MOST).ok_or("bytes in range")
}

fn routing(text: &str) -> Result<bool, &'static str> {
    match text {
        "hash" => Ok(false),
        "explicit" => Ok(true),
        _ => Err("hash or explicit"),
    }
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    number::duration(text).map_err(|_| "a time: 10us, 1.5ms, 600ns; without unit microseconds")
}

fn up_to(text: &str, most: Duration) -> Result<Duration, &'static str> {
    duration(text).ok().filter(|span| *span <= most).ok_or("a time: 10us, 600ns, 1ms, in range")
}

fn ppm(text: &str) -> Result<f64, &'static str> {
    real(text).ok().filter(|value| *value <= 10_000.0).ok_or("a number in 0..=10000")
}

fn above_zero(text: &str) -> Result<Duration, &'static str> {
    duration(text).and_then(|span| if span > Duration::ZERO { Ok(span) } else { Err("above zero") })
}

fn interval(text: &str) -> Result<Duration, &'static str> {
    // A run of a millisecond would have 10^5 samples, each with every port and flow.
    let least = Duration::from_ns(10);
    duration(text).and_then(|span| if span >= least { Ok(span) } else { Err("at least 10 ns") })
}

fn bytes(text: &str) -> Result<Bytes, &'static str> {
    number::bytes(text).map_err(|_| "a size: 65536, 64KiB, 1.5MB")
}

fn message(text: &str) -> Result<NonZeroU32, &'static str> {
    let len = bytes(text)?.0;
    let len = u32::try_from(len).ok().filter(|&len| len <= MESSAGE_MAX).and_then(NonZeroU32::new);
    len.ok_or("a size, 1..=1GiB")
}

fn real(text: &str) -> Result<f64, &'static str> {
    text.parse()
        .ok()
        .filter(|value: &f64| value.is_finite() && *value >= 0.0)
        .ok_or("a number, 0 or more")
}

fn positive(text: &str) -> Result<f64, &'static str> {
    real(text).and_then(|value| {
        if value > 0.0 && value <= 1e6 { Ok(value) } else { Err("above 0, at most 1e6") }
    })
}

fn share(text: &str) -> Result<f64, &'static str> {
    real(text).and_then(|value| if value <= 1.0 { Ok(value) } else { Err("a number in 0..=1") })
}

fn at_least_one(text: &str) -> Result<f64, &'static str> {
    real(text)
        .and_then(|value| if (1.0..=1e6).contains(&value) { Ok(value) } else { Err("1..=1e6") })
}

fn quarters(text: &str) -> Result<u16, &'static str> {
    let value = real(text)?;
    let range = "base RTTs, 1..=1000";
    if !(1.0..=1000.0).contains(&value) {
        return Err(range);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "1..=1000 checked")]
    Ok((value * 4.0) as u16)
}

fn workers(text: &str) -> Result<usize, &'static str> {
    integer(text).and_then(|n| if (1..=64).contains(&n) { Ok(n) } else { Err("1..=64 threads") })
}

fn hops(text: &str) -> Result<u8, &'static str> {
    let count: u8 = integer(text).map_err(|_| "0..=8 hops")?;
    if usize::from(count) <= HOPS_MAX { Ok(count) } else { Err("0..=8 hops") }
}

fn depth(text: &str) -> Result<usize, &'static str> {
    integer(text)
        .and_then(|n| if (1..=1024).contains(&n) { Ok(n) } else { Err("1..=1024 packets") })
}

fn memory(text: &str) -> Result<u32, &'static str> {
    integer(text)
        .and_then(|n| if (64..=1 << 20).contains(&n) { Ok(n) } else { Err("64..=1048576 MiB") })
}

fn udp_port(text: &str) -> Result<u16, &'static str> {
    text.parse().ok().filter(|port| *port != 0).ok_or("a port, 1..=65535")
}

fn on_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        _ => Err("on or off"),
    }
}

fn word(text: &str, known: &[&'static str]) -> Result<String, &'static str> {
    if known.contains(&text) {
        return Ok(text.to_owned());
    }
    Err("net_ring, net_memif, net_tap or net_null")
}

fn controller(text: &str) -> Result<CcKind, &'static str> {
    CcKind::by_name(text).ok_or("a controller; see `headrace list cc`")
}

fn balancer(text: &str) -> Result<LbKind, &'static str> {
    LbKind::by_name(text).ok_or("a load balancer; see `headrace list lb`")
}

fn qdisc(text: &str) -> Result<QdiscKind, &'static str> {
    QdiscKind::by_name(text).ok_or("a queue discipline; see `headrace list qdiscs`")
}

#[cfg(test)]
mod tests;
