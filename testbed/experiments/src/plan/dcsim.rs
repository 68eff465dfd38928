//! Whether the parts of a run fit DCsim's hosts. Nothing trims or pauses, there is room for
//! data beside the small queues, the network can keep the delay, and the window never binds.

use fabric::{Blueprint, ProgramKind, QdiscKind};
use transport::path::ProbeFacts;
use transport::sched::dcsim::{DcSim, RttMax, TIGHT_BUCKET};
use transport::sched::{SchedKind, SchedSetup};
use transport::{Bytes, Config, Duration, HostId, Rng};

use super::checks::of_buffer;
use super::{Draft, Plan, RunError};
use crate::input::InputError;
use crate::topology::{FabricParams, FatTreeSpec};

/// Refuses what DCsim cannot work with; refuses nothing where another scheduler runs.
pub(super) fn check(
    draft: &Draft,
    (config, rtt_p): (&Config, Option<Duration>),
    fabric: &FabricParams,
    (tree, blueprint): (&FatTreeSpec, &Blueprint),
) -> Result<(), RunError> {
    let ports = blueprint.ports.iter().any(|port| port.qdisc == QdiscKind::DcSim);
    if ports || config.sched == SchedKind::DcSim {
        check_ports(draft, config, fabric, (tree, blueprint))?;
    }
    if config.sched == SchedKind::DcSim {
        check_rtt_p(config, rtt_p)?;
        check_delay(config, fabric)?;
        check_window(config)?;
    }
    Ok(())
}

/// Full segments that a probe of the scheduler stands for.
pub(super) fn per_probe(draft: &Draft) -> u16 {
    match draft.settings.sched {
        SchedKind::DcSim => draft.settings.sched_params.dcsim.per_sim,
        _ => 1,
    }
}

/// What hosts resolve their settings with, where ports answer probes.
pub(super) fn probes(draft: &Draft, fabric: &FabricParams) -> Option<ProbeFacts> {
    let params = &draft.switch.qdiscs.dcsim;
    let (queue, bucket, overhead) = (params.queue, params.bucket, params.overhead);
    (fabric.qdisc == QdiscKind::DcSim).then_some(ProbeFacts { queue, bucket, overhead })
}

fn refused(key: &str, found: String, expected: String, help: &str) -> RunError {
    InputError::new(found, expected).at(key, 0, 0).help(help).into()
}

/// Refuses switches and NICs that trim or pause under DCsim's hosts: RTT_max counts no pauses, and
/// these hosts send a trimmed segment again only when its timer ends.
pub(super) fn check_switches(
    draft: &Draft,
    fabric: &FabricParams,
    blueprint: &Blueprint,
) -> Result<(), RunError> {
    if draft.settings.sched != SchedKind::DcSim {
        return Ok(());
    }
    let expected = || "switches and NICs that neither trim nor pause, with sched=dcsim".to_owned();
    if draft.trim {
        let help = "leave --trim out, or say --trim off";
        return Err(refused("trim", "`on`".to_owned(), expected(), help));
    }
    let wrong = [QdiscKind::Lossless, QdiscKind::Trim, QdiscKind::PhantomTrim];
    for (key, qdisc) in [
        ("switch.qdisc", Some(fabric.qdisc)),
        ("switch.border_qdisc", fabric.border_qdisc),
        ("nic.qdisc", Some(draft.nic.qdisc)),
    ] {
        if let Some(qdisc) = qdisc.filter(|qdisc| wrong.contains(qdisc)) {
            let help = format!("use --set {key}=dcsim");
            return Err(refused(key, format!("`{}`", qdisc.name()), expected(), &help));
        }
    }
    if blueprint.switches_with(ProgramKind::Pfc).next().is_some() {
        let help = "leave it out: switches of DCsim lose SIMs in place of data";
        let found = format!("`{}`", ProgramKind::Pfc.name());
        return Err(refused("switch.program", found, expected(), help));
    }
    Ok(())
}

/// Bytes that B packets of each small class take at a port of DCsim's discipline.
fn small_classes(fabric: &FabricParams) -> Bytes {
    Bytes(3 * u64::from(fabric.qdiscs.dcsim.queue) * u64::from(fabric.probe_len))
}

/// The buffer of a port of DCsim's discipline that loses no data: B packets of each small class,
/// and the data of 4 B SIMs. The paper's theorems have B of one network; in mixes of flows on
/// networks of 10 to 100 Gb/s up to 37 segments waited in a port, with B = 12.
//= dcsim#3.1
fn lossless(fabric: &FabricParams) -> Bytes {
    let segments =
        DATA_OF * u64::from(fabric.qdiscs.dcsim.queue) * u64::from(fabric.per_probe.max(1));
    small_classes(fabric) + Bytes(segments.saturating_mul(fabric.packet_max.0))
}

/// Queues of SIMs for whose data a port has room where nothing sets its buffer.
const DATA_OF: u64 = 4;

/// The least buffer of ports whose size nothing sets; `None` where none is DCsim's.
pub(super) fn least_buffer(fabric: &FabricParams) -> Option<Bytes> {
    let qdiscs = [Some(fabric.qdisc), fabric.border_qdisc];
    qdiscs.contains(&Some(QdiscKind::DcSim)).then(|| lossless(fabric))
}

/// The smallest buffer of a port of DCsim's discipline.
fn smallest_buffer(blueprint: &Blueprint) -> Option<Bytes> {
    let ports = blueprint.ports.iter().filter(|port| port.qdisc == QdiscKind::DcSim);
    ports.map(|port| port.params.data_limit).min()
}

/// B packets of each small class and two of data fit every buffer, and the bucket is no larger
/// than B.
fn check_ports(
    draft: &Draft,
    config: &Config,
    fabric: &FabricParams,
    (tree, blueprint): (&FatTreeSpec, &Blueprint),
) -> Result<(), RunError> {
    let params = &fabric.qdiscs.dcsim;
    if params.bucket > params.queue {
        let expected = format!("1 to switch.dcsim.queue, {}", params.queue);
        let help = "lower it, or raise switch.dcsim.queue";
        return Err(refused("switch.dcsim.bucket", params.bucket.to_string(), expected, help));
    }
    let small = small_classes(fabric);
    let least = small + Bytes(2 * config.packet_max().0);
    let Some(buffer) = smallest_buffer(blueprint).filter(|size| *size < least) else {
        return Ok(());
    };
    let found = format!("a buffer of {} bytes", buffer.0);
    let (small, least) = (small.0, least.0);
    let expected = format!("at least {least} bytes: {small} for small packets, and two of data");
    let help = format!(
        "raise it with --set switch.queue={least} (or Queue_Down and Queue_Up of the topology), or \
         lower switch.dcsim.queue"
    );
    let error = InputError::new(found, expected).help(help);
    Err(of_buffer(draft, tree, ("switch.queue", buffer), error))
}

impl Plan {
    /// RTT_max of hosts, where a simulation counts arrivals of SIMs and of their data; `None` where
    /// no host sends SIMs, or the run is not sampled.
    #[must_use]
    pub fn counts_arrivals(&self) -> Option<Duration> {
        self.draft.sampling.filter(|_| self.settings.sched == SchedKind::DcSim)?;
        let config = self.host_configs().ok()?.into_iter().next()?;
        Some(DcSim::new(&config.sched_setup(HostId(0), Rng::new(0))).rtt_max())
    }

    /// The smallest buffer of a port of DCsim's discipline, and the size that loses no data, where
    /// the smallest is less than that.
    #[must_use]
    pub fn small_dcsim_buffer(&self) -> Option<(Bytes, Bytes)> {
        let (fabric, wanted) = (&self.fabric, least_buffer(&self.fabric)?);
        let buffer = smallest_buffer(&self.tree.blueprint(fabric))?;
        (buffer < wanted).then_some((buffer, wanted))
    }

    /// The setting by which emulated switches have no class for the SIMs of this run's hosts, and
    /// the discipline that they have; `None` where they have one, or no host sends SIMs.
    #[must_use]
    pub fn qdisc_without_sims(&self) -> Option<(&'static str, QdiscKind)> {
        let fabric = &self.fabric;
        // Without a second site no port is a border's.
        let at_border = fabric.border_qdisc.filter(|_| self.tree.spec().wan.is_some());
        let set = [("switch.qdisc", Some(fabric.qdisc)), ("switch.border_qdisc", at_border)];
        let mut set = set.into_iter().filter_map(|(key, qdisc)| Some((key, qdisc?)));
        let other = set.find(|(_, qdisc)| *qdisc != QdiscKind::DcSim);
        other.filter(|_| self.settings.sched == SchedKind::DcSim)
    }
}

/// RTT_p is no shorter than a round trip of the network: all SIM-ACKs would be late.
fn check_rtt_p(config: &Config, own: Option<Duration>) -> Result<(), RunError> {
    let given = config.sched_params.dcsim.rtt_p;
    let Some((given, own)) = given.zip(own).filter(|(given, own)| given < own) else {
        return Ok(());
    };
    let expected = format!("at least {own}, the round trip of this network's longest path");
    let help = "raise it, or leave it out: auto";
    Err(refused("sched.dcsim.rtt_p", given.to_string(), expected, help))
}

/// RTT_max is at most so many times the paper's: beyond, ports run out before SIMs come back.
const RTT_MAX_TIMES: u64 = 16;

/// RTT_max of `config`, in any world: `auto` counts as the longer of its values.
fn longest_rtt_max(config: &Config) -> Duration {
    let mut params = config.sched_params.clone();
    if params.dcsim.rtt_max == RttMax::Auto {
        params.dcsim.rtt_max = RttMax::Paper;
    }
    let setup = SchedSetup { params: &params, ..config.sched_setup(HostId(0), Rng::new(0)) };
    DcSim::new(&setup).rtt_max()
}

/// RTT_max is longer than an idle round trip, and not far longer than the longest time of a SIM.
/// The bounds `paper` and `tight` are accepted where they are bounds.
fn check_delay(config: &Config, fabric: &FabricParams) -> Result<(), RunError> {
    const KEY: &str = "sched.dcsim.rtt_max";
    let params = &config.sched_params.dcsim;
    let bucket = params.bucket.max(1);
    let probed = fabric.qdisc == QdiscKind::DcSim;
    if params.rtt_max == RttMax::Tight && probed && bucket < TIGHT_BUCKET {
        let expected = "`paper`, or switch.dcsim.bucket of two and more".to_owned();
        let help = "one token can let half of the SIMs wait far longer than that";
        return Err(refused(KEY, "`tight`, with switch.dcsim.bucket=1".to_owned(), expected, help));
    }
    let mut as_in_paper = config.sched_params.clone();
    as_in_paper.dcsim.rtt_max = RttMax::Paper;
    let setup = SchedSetup { params: &as_in_paper, ..config.sched_setup(HostId(0), Rng::new(0)) };
    let slot = config.line_rate.time_for(config.mtu());
    let least = params.rtt_p.unwrap_or(Duration::ZERO) + slot * u64::from(bucket);
    let most = DcSim::new(&setup).rtt_max() * RTT_MAX_TIMES;
    let chosen = longest_rtt_max(config);
    if chosen < least {
        let expected = format!("at least {least}: RTT_p, and what a full bucket lets go at once");
        let help = "raise it, or set it to paper";
        return Err(refused(KEY, chosen.to_string(), expected, help));
    }
    if chosen > most {
        let expected = format!("at most {most}: {RTT_MAX_TIMES} times that of the paper");
        let help = "lower it, or set it to paper";
        return Err(refused(KEY, chosen.to_string(), expected, help));
    }
    Ok(())
}

/// The window lets as much be sent as the line sends in RTT_max.
fn check_window(config: &Config) -> Result<(), RunError> {
    let cc = config.cc;
    let path = config.default_path();
    let window = path.bdp().scaled(f64::from(cc.window_max(&config.cc_params)));
    let wanted = config.line_rate.bytes_in(longest_rtt_max(config));
    if window >= wanted {
        return Ok(());
    }
    let found = format!("`{}`, whose window is {} bytes at most", cc.name(), window.0);
    let expected = format!("a window of {} bytes, what a host sends in RTT_max", wanted.0);
    let bdps = wanted.0.div_ceil(path.bdp().0.max(1));
    let help = format!("use --cc fixed with --set cc.fixed.bdps={bdps}, or more");
    Err(refused("cc", found, expected, &help))
}

#[cfg(test)]
mod tests {
    use crate::plan::{Draft, Origin, Plan};
    use crate::topology::by_name;
    use crate::workload::{FlowSpec, Matrix};
    use fabric::QdiscKind;
    use transport::{Bytes, HostId};

    fn refusal(set: &[(&str, &str)]) -> String {
        let mut draft = Draft::default();
        draft.set_transport("dcsim", Origin::Default).unwrap();
        for (key, value) in set {
            match *key {
                "trim" => draft.set_trim(*value == "on", Origin::Set),
                "cc" => draft.set_cc(value, Origin::Set).unwrap(),
                _ => {
                    if let Err(error) = draft.set(key, value, Origin::Set) {
                        return error.to_string();
                    }
                }
            }
        }
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1000)));
        let plan = Plan::new(&draft, matrix, &by_name("dcsim").unwrap());
        plan.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn buffers_that_nothing_sets_hold_the_small_queues_and_their_data() {
        let mut draft = Draft::default();
        draft.set_transport("dcsim", Origin::Default).unwrap();
        draft.set("switch.dcsim.queue", "1024", Origin::Set).unwrap();
        draft.set("cc.fixed.bdps", "1000", Origin::Set).unwrap();
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1000)));
        let plan = Plan::new(&draft, matrix, &by_name("leaf-spine:2,2,4").unwrap()).unwrap();
        let full = 4 * 1024 * u64::from(plan.fabric.mtu);
        let data = plan.fabric.buffer.unwrap().0 - 3 * 1024 * u64::from(plan.fabric.probe_len);
        assert!(data >= full, "{data} of {full}");
    }

    /// A plan of one flow with `set` beside the preset.
    fn plan(set: &[(&str, &str)]) -> Plan {
        let mut draft = Draft::default();
        draft.set_transport("dcsim", Origin::Default).unwrap();
        for (key, value) in set {
            draft.set(key, value, Origin::Set).unwrap();
        }
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1000))).unwrap();
        Plan::new(&draft, matrix, &by_name("leaf-spine:2,2,4").unwrap()).unwrap()
    }

    #[test]
    fn a_set_buffer_that_may_lose_data_is_found() {
        assert_eq!(plan(&[]).small_dcsim_buffer(), None);
        let (found, wanted) = plan(&[("switch.queue", "60000")]).small_dcsim_buffer().unwrap();
        assert_eq!(found, Bytes(60_000));
        let of = |bytes: u64| plan(&[("switch.queue", &bytes.to_string())]).small_dcsim_buffer();
        assert_eq!(of(wanted.0), None);
        assert_eq!(of(wanted.0 - 1), Some((Bytes(wanted.0 - 1), wanted)));
    }

    #[test]
    fn switches_without_a_class_for_sims_are_found_where_hosts_send_some() {
        assert_eq!(plan(&[]).qdisc_without_sims(), None);
        let ecn = ("switch.qdisc", "ecn");
        assert_eq!(plan(&[ecn]).qdisc_without_sims(), Some(("switch.qdisc", QdiscKind::Ecn)));
        assert_eq!(plan(&[ecn, ("sched", "round-robin")]).qdisc_without_sims(), None);
        assert_eq!(plan(&[("switch.border_qdisc", "ecn")]).qdisc_without_sims(), None, "no border");
    }

    #[test]
    fn what_does_not_fit_is_refused_with_key_value_and_expectation() {
        assert_eq!(refusal(&[]), "");
        assert_eq!(refusal(&[("sched.dcsim.rtt_p", "7800ns")]), "");
        for (set, words) in [
            (&[("trim", "on")][..], &["trim", "`on`", "neither trim nor pause"][..]),
            (&[("switch.qdisc", "lossless")], &["switch.qdisc", "`lossless`", "neither"]),
            (&[("switch.border_qdisc", "trim")], &["switch.border_qdisc", "`trim`", "neither"]),
            (&[("nic.qdisc", "lossless")], &["nic.qdisc", "`lossless`", "nic.qdisc=dcsim"]),
            (&[("switch.program", "pfc@tor")], &["switch.program", "`pfc`", "leave it out"]),
            (&[("switch.dcsim.queue", "0")], &["switch.dcsim.queue=0", "1..=1024"]),
            (&[("switch.dcsim.bucket", "13")], &["switch.dcsim.bucket", "13", "12"]),
            (&[("sched.dcsim.fraction", "1.5")], &["fraction=1.5", "0..=1"]),
            (&[("sched.dcsim.rtt_max", "5us")], &["sched.dcsim.rtt_max", "5.000us", "RTT_p"]),
            (&[("sched.dcsim.rtt_max", "1ms")], &["rtt_max", "1000.000us", "at most", "16 times"]),
            (
                &[("sched.dcsim.rtt_max", "tight"), ("switch.dcsim.bucket", "1")],
                &["sched.dcsim.rtt_max", "`tight`", "two and more"],
            ),
            (&[("nic.qdisc", "dcsim"), ("switch.dcsim.bucket", "13")], &["bucket", "13", "12"]),
            (&[("sched.dcsim.rtt_p", "7799ns")], &["sched.dcsim.rtt_p", "7.799us", "7.800us"]),
            (&[("sched.dcsim.rtt_max", "soon")], &["rtt_max=soon", "auto, paper, tight"]),
            (&[("switch.queue", "10000")], &["switch.queue", "10000 bytes", "two of data"]),
            (
                &[("switch.queue", "200000"), ("switch.dcsim.queue", "1024")],
                &["switch.queue", "200000 bytes", "196608 for small"],
            ),
            (&[("cc.fixed.bdps", "0.5")], &["cc", "`fixed`", "RTT_max"]),
            (&[("cc", "smartt")], &["cc", "`smartt`", "RTT_max", "--cc fixed"]),
        ] {
            let said = refusal(set);
            for word in words {
                assert!(said.contains(word), "{set:?}: no `{word}` in `{said}`");
            }
        }
    }

    #[test]
    fn the_window_that_a_refusal_names_is_wide_enough_and_no_wider() {
        let said = refusal(&[("cc.fixed.bdps", "0.5")]);
        let named = said.split("cc.fixed.bdps=").nth(1).unwrap_or_else(|| panic!("{said}"));
        let bdps: u32 = named.split(',').next().unwrap().parse().unwrap();
        assert_eq!(refusal(&[("cc.fixed.bdps", &bdps.to_string())]), "");
        assert_ne!(refusal(&[("cc.fixed.bdps", &(bdps - 1).to_string())]), "");
    }
}
