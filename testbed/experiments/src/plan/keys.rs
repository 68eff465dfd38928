//! The settings of `--set KEY=VALUE` and of a scenario's `[set]`: one table, one line a key.
//!
//! Keys of policies (`cc.<name>.<key>`, `lb.<key>`, `ec.<key>`, `sched.<name>.<key>`), of queue
//! disciplines and of switch programs (`switch.<name>.<key>`) come from their own tables.

use transport::Duration;
use transport::params::ParamError;
use transport::sched::SchedKind;

use super::draft::Draft;
use super::policy_keys::{self, ENDPOINTS, SWITCHES};
use super::transports::Transport;
use super::values::{
    above_zero, at_least_one, at_most, balancer, bytes, code, controller, depth, duration, hops,
    integer, interval, memory, message, on_off, payload, positive, ppm, qdisc, quarters,
    reorder_window, routing, share, shown, shown_code, size_up_to, time, udp_port, unless, up_to,
    word, workers,
};
use crate::input::{InputError, did_you_mean, nearest};
use crate::topology::programs;
use crate::workload::cm::StartUnit;

/// One setting.
pub struct SettingKey {
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
        pub const KEYS: &[SettingKey] = &[$(SettingKey {
            name: $name,
            about: $about,
            set: |$draft, $text| { $set; Ok(()) },
            show: |$d| $show,
        }),+];
    };
}

keys! {
    "sched", "the flow of a host that sends next: a scheduler; see `headrace list schedulers`",
        |d, v| d.settings.sched = SchedKind::by_name(v)
            .ok_or("a scheduler; see `headrace list schedulers`")?,
        |d| d.settings.sched.name().to_owned();
    "ec", "erasure code of flows with a base RTT of ec.base_rtt_min or more: X,Y data and parity \
        segments of a block; auto, which codes (8,2) only where links lose segments; NAME:X,Y for \
        a code other than mds, like auto:4,1; or off; see `headrace list ec`",
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
    "answers_max", "answers a second to packets of flows that a host does not have, \
        1..=1000000, or auto: 8000 where hosts are not trusted",
        |d, v| d.settings.answers_max = unless(v, "auto", integer)?,
        |d| shown(d.settings.answers_max, "auto");
    "psn_window", "PSNs a flow may have outstanding, a power of two 128..=1048576, or auto",
        |d, v| d.psn_window = unless(v, "auto", integer)?, |d| shown(d.psn_window, "auto");
    "msg_window", "messages a flow may have unfinished, 1..=1024",
        |d, v| d.settings.msg_window = integer(v)?, |d| d.settings.msg_window.to_string();
    "base_rtt", "idle round-trip time of every path (where MLCC's border switches take part: of \
        paths between sites), or auto: by the topology, for each pair",
        |d, v| d.base_rtt = unless(v, "auto", duration)?, |d| shown(d.base_rtt, "auto");
    "loss.reorder_window", "base RTTs a segment may be overtaken by, 0.25.., or off, or auto, or \
        0: a 64th for flows whose balancer keeps one path, and auto for others",
        |d, v| d.reorder_window = unless(v, "auto", |v| unless(v, "off", reorder_window))?,
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
    "loss.silence_probe", "probe silences of flows that follow border switches: on or off",
        |d, v| d.settings.loss.silence_probe = on_off(v)?,
        |d| if d.settings.loss.silence_probe { "on" } else { "off" }.to_owned();
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
    "switch.border_qdisc", "queue discipline of ports at a border switch's link, or auto: as all",
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
    "sampling.interval", "time between samples of series.jsonl, or none; with an interval, \
        simulated hosts of DCsim count arrivals for dcsim.follow",
        |d, v| d.sampling = unless(v, "none", interval)?,
        |d| d.sampling.map_or("none".to_owned(), time);
    "sampling.flows", "flows that samples show one by one, as 1,5,10..20: lines of the matrix from \
        1, at most 4096, or auto: the first 64",
        |d, v| d.sampled = unless(v, "auto", str::parse)?, |d| shown(d.sampled.as_ref(), "auto");
    "cm.start_unit", "unit of start in .cm files: us or ps",
        |d, v| d.start_unit = StartUnit::by_name(v).ok_or("us or ps")?,
        |d| (if d.start_unit == StartUnit::Ps { "ps" } else { "us" }).to_owned();
    "wire.data_overhead", "bytes around the payload of DATA, as links count them in sim and, where \
        hosts send in slots, in vdev, 1..=1024, or headers: those of this implementation",
        |d, v| d.settings.accounted.data_overhead = unless(v, "headers", size_up_to::<1024>)?,
        |d| shown(d.settings.accounted.data_overhead, "headers");
    "wire.control", "bytes of a packet without payload, as links count them in sim and, where \
        hosts send in slots, in vdev, 1..=255, or headers: those of this implementation",
        |d, v| d.settings.accounted.control = unless(v, "headers", size_up_to::<255>)?,
        |d| shown(d.settings.accounted.control, "headers");
    "wire.data_min", "payload bytes that DATA counts as at least, in every run that obeys \
        wire.data_overhead, 0..=8960: shorter ones are padded",
        |d, v| d.settings.accounted.data_min = at_most::<8960>(v)?,
        |d| d.settings.accounted.data_min.to_string();
    "host.offset", "how far the clock of a simulated host is ahead of network time or behind it at \
        most, a time up to 1s; each host draws its own",
        |d, v| d.clocks.offset = up_to(v, Duration::from_s(1))?, |d| time(d.clocks.offset);
    "host.drift_ppm", "how much faster or slower the clock of a simulated host runs at most, \
        0..=10000 parts in a million; each host draws its own",
        |d, v| d.clocks.drift_ppm = ppm(v)?, |d| d.clocks.drift_ppm.to_string();
    "host.jitter", "how late a reading of the clock of a simulated host is at most, a time up \
        to 1ms",
        |d, v| d.clocks.jitter = up_to(v, Duration::from_ms(1))?, |d| time(d.clocks.jitter);
    "udp_port", "UDP port that hosts listen at, 1..=65535",
        |d, v| d.udp_port = udp_port(v)?, |d| d.udp_port.to_string();
    "fault", "adds a fault: KIND[:VALUE][@LINKS][,key=value]..., e.g. loss:0.01@all",
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
            Refusal::Expected(expected) => {
                let about = one_line(known.about);
                let default = default_with(draft.transport, (written, key)).unwrap_or_default();
                wrong(expected.to_owned()).help(format!("{written}: {about}; {default}"))
            }
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
                let default = default_with(draft.transport, (written, key));
                wrong(known.takes()).help(default.unwrap_or_default())
            }
        });
    }
    Err(unknown(written))
}

/// A sentence that names the default of `key`, `written` so, with the preset `transport`. It is
/// that of the count of round trips where the preset has one in the place of a time.
fn default_with(transport: &Transport, (written, key): (&str, &str)) -> Option<String> {
    let count = count_of(key);
    let acting = transport.set().filter_map(|(name, value)| {
        let name = canonical(name);
        (name == key || count == Some(name)).then_some((name, value))
    });
    let name = transport.name;
    match acting.last() {
        Some((set, rtts)) if Some(set) == count && rtts != "0" => {
            let end = set.strip_prefix(key).unwrap_or_default();
            Some(format!(
                "its default is {rtts} of RTT_C, by {written}{end} of the transport {name}"
            ))
        }
        Some((set, value)) if set == key => {
            Some(format!("its default is {value} with the transport {name}"))
        }
        _ => default_of(key).map(|value| format!("its default is {value}")),
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

/// A family of more settings than this is not listed in the error for a misspelt name.
const FAMILY_MAX: usize = 40;

/// The count of round trips that is another form of the time `key`; 0 where the time acts. The last
/// of both that is set acts, and so a time takes the count back.
pub(super) fn count_of(key: &str) -> Option<&'static str> {
    COUNTED_TIMES.iter().find(|(time, _)| *time == key).map(|(_, count)| *count)
}

/// Times, each with its count of round trips.
const COUNTED_TIMES: [(&str, &str); 2] =
    [("rc.mlcc.theta", "rc.mlcc.theta_rtts"), ("rc.mlcc.dt", "rc.mlcc.dt_rtts")];

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

/// The settings of `sched.zeropod` that `headrace scheduler` takes. Its hosts read `ask_every` and
/// none of the others.
pub const OF_SCHEDULER: [&str; 7] =
    ["matcher", "iterations", "kernel", "classes", "fair_every", "ask_every", "superepoch"];

/// Whether hosts do not read `key` where their scheduler is a process of its own.
#[must_use]
pub fn is_of_scheduler_alone(key: &str) -> bool {
    is_of_scheduler(key) && key != "sched.zeropod.ask_every"
}

/// Whether `key` is one of [`OF_SCHEDULER`].
#[must_use]
pub fn is_of_scheduler(key: &str) -> bool {
    key.strip_prefix("sched.zeropod.").is_some_and(|own| OF_SCHEDULER.contains(&own))
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
    let named =
        |keys: &'static [SettingKey]| keys.iter().map(|key| (key.name.to_owned(), key.about));
    let (before, after) = around_switches();
    let own = named(before).chain(policy_keys::all(SWITCHES)).chain(named(after));
    own.chain(policy_keys::all(ENDPOINTS)).map(move |(name, doc)| {
        let line = one_line(doc) + &also(&name);
        (name, line)
    })
}

/// A doc of several lines of the code, as one line.
fn one_line(doc: &str) -> String {
    doc.split_whitespace().collect::<Vec<_>>().join(" ")
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
fn around_switches() -> (&'static [SettingKey], &'static [SettingKey]) {
    let at = KEYS.iter().position(|key| key.name == "switch.control_queue");
    KEYS.split_at(at.unwrap_or(KEYS.len()))
}

/// The value of every key of the table, of all disciplines and programs and of the chosen policies,
/// as text that sets it.
pub(super) fn effective(draft: &Draft) -> impl Iterator<Item = (String, String)> + '_ {
    let shown = |keys: &'static [SettingKey]| {
        keys.iter().map(|key| (key.name.to_owned(), (key.show)(draft)))
    };
    let (before, after) = around_switches();
    let switches = policy_keys::values(SWITCHES, draft);
    let own = shown(before).chain(switches).chain(shown(after));
    own.chain(policy_keys::chosen(draft))
}

#[cfg(test)]
mod tests;
