//! Warnings about flags and settings that a run does not read: a typing error must not look like a
//! result.

use experiments::input::{InputError, Warning};
use experiments::plan::keys;
use experiments::plan::{Draft, Plan};
use fabric::{ProgramKind, QdiscKind};
use transport::cc::CcKind;
use transport::ec::EcKind;
use transport::lb::LbParams;
use transport::sched::SchedKind;
use transport::{Duration, Instant};

use crate::args::{RunArgs, World};

/// The warnings about a run in `world`; `draft` has what was set, and the plan follows from it.
pub(super) fn warnings(args: &RunArgs, world: World, draft: &Draft, plan: &Plan) -> Vec<Warning> {
    let of_plan = [
        idle_code(plan),
        hasty_border(plan),
        small_buffer(plan),
        short_target(plan),
        plain_switches(world, plan),
        late_restart(plan),
    ];
    let of_plan = of_plan.into_iter().flatten();
    of_plan.chain(idle_flags(args, world, draft, plan)).collect()
}

/// An erasure code was chosen, and no path is long enough for it.
fn idle_code(plan: &Plan) -> Option<Warning> {
    let settings = &plan.settings;
    if settings.ec == EcKind::Uncoded || plan.codes() {
        return None;
    }
    let found = format!("base RTTs of at most {}: no flow is erasure-coded", settings.base_rtt);
    let least = settings.ec_params.base_rtt_min;
    let expected = format!("some of at least ec.base_rtt_min, {least}");
    let help = "to code near flows too: --set ec.base_rtt_min=0us";
    Some(Warning(InputError::new(found, expected).at("ec", 0, 0).help(help)))
}

/// MLCC is to reach its threshold in little more than its feedback takes, or in less.
fn hasty_border(plan: &Plan) -> Option<Warning> {
    let (key, theta, rtt_c) = plan.hasty_border()?;
    let found = format!("a theta of {theta}");
    let expected =
        format!("clearly more than rc.mlcc.rtt_c, {rtt_c}: the border's queue oscillates");
    let help = "three RTT_C: --set cc.mlcc.theta_rtts=3";
    let key = plan.draft.written(key);
    Some(Warning(InputError::new(found, expected).at(key, 0, 0).help(help)))
}

/// DCsim's switches have room for less data than arrives at worst.
fn small_buffer(plan: &Plan) -> Option<Warning> {
    let (buffer, wanted) = plan.small_dcsim_buffer()?;
    let found = format!("a buffer of {} bytes, in which DCsim may lose data", buffer.0);
    let expected = format!("at least {} bytes: data of four full queues of SIMs", wanted.0);
    let help = "raise it, or leave it out: that is the least of a buffer that nothing sets";
    Some(Warning(InputError::new(found, expected).at("switch.queue", 0, 0).help(help)))
}

/// Emulated switches have no class for the SIMs of DCsim's hosts.
fn plain_switches(world: World, plan: &Plan) -> Option<Warning> {
    let (key, qdisc) = plan.qdisc_without_sims().filter(|_| world != World::Nic)?;
    let found = format!("`{}`, whose ports have no class for SIMs", qdisc.name());
    let expected = "`dcsim`: other switches lose data in place of SIMs, so runs take longer";
    let help = format!("leave {key} out");
    Some(Warning(InputError::new(found, expected).at(key, 0, 0).help(help)))
}

/// A host would begin anew when the run is over.
fn late_restart(plan: &Plan) -> Option<Warning> {
    let limit = plan.limit?;
    let (at, host) =
        plan.host_restarts().into_iter().find(|(at, _)| *at > Instant::ZERO + limit)?;
    let found = format!("host {} begins anew at {}", host.0, at.since(Instant::ZERO));
    let expected = format!("an instant up to run.limit, {limit}; it changes nothing");
    Some(Warning(InputError::new(found, expected).at("fault", 0, 0).help("write another from_us")))
}

/// Timely's target is absolute, and an idle path takes longer.
fn short_target(plan: &Plan) -> Option<Warning> {
    let (settings, params) = (&plan.settings, &plan.settings.cc_params.timely);
    if settings.cc != CcKind::Timely && settings.far.cc != Some(CcKind::Timely) {
        return None;
    }
    let paths = plan.matrix.flows.iter().map(|flow| plan.path(flow.src, flow.dst));
    let of_timely = paths.filter(|path| settings.policies(path).cc == CcKind::Timely);
    let longest = of_timely.map(|path| path.base_rtt).max().filter(|rtt| *rtt >= params.t_low)?;
    let found = format!("{}, and base RTTs of up to {longest}", params.t_low);
    let expected = "a T_low above all base RTTs: Timely slows down on paths without queues";
    let above = |time: Duration| (longest + time).as_ps().div_ceil(1_000_000);
    let low = above(params.t_low);
    let high = above(params.t_high).max(low + 1);
    let help = format!("use --set cc.timely.t_low={low}us and --set cc.timely.t_high={high}us");
    Some(Warning(InputError::new(found, expected).at("cc.timely.t_low", 0, 0).help(help)))
}

/// Flags and settings of `--set` that change nothing in this run.
fn idle_flags<'a>(
    args: &'a RunArgs,
    world: World,
    draft: &'a Draft,
    plan: &'a Plan,
) -> impl Iterator<Item = Warning> + 'a {
    let (captured, kept) = (args.capture.is_some(), args.out.is_some());
    let idle = move |key: &str| match key {
        "udp_port" if world == World::Sim && captured => None,
        "sampling.interval"
            if !kept
                && draft.sampling.is_some()
                && (world != World::Sim || plan.counts_arrivals().is_none()) =>
        {
            Some(("of samples that no file takes", "--out DIR"))
        }
        "sim.threads" if args.why && world == World::Sim && draft.threads > 1 => {
            Some(("with --why, whose journal one thread keeps", "a run without --why"))
        }
        "vdev.record" if !kept && draft.vdev.record && world == World::Vdev => {
            Some(("of recordings that no file takes", "--out DIR"))
        }
        _ => unread(key, world, plan).or_else(|| unowned(key, draft, plan)),
    };
    let warning = |flag: &str, found: String, expected: &str| {
        let expected = format!("{expected}; it changes nothing");
        Warning(InputError::new(found, expected).at(flag, 0, 0))
    };
    let settings = args.policies.settings().unwrap_or_default().into_iter();
    let set = settings.filter_map(move |(key, _)| {
        let (why, expected) = idle(keys::canonical(key))?;
        Some(warning("--set", format!("`{key}`, {why}"), expected))
    });
    let (port, threads) = (args.udp_port, args.threads);
    let port = port.map(|port| ("udp_port", "--udp-port", port.to_string()));
    let threads = threads.map(|count| ("sim.threads", "--threads", count.to_string()));
    let flags = port.into_iter().chain(threads).filter_map(move |(key, flag, value)| {
        let (why, expected) = idle(key)?;
        Some(warning(flag, format!("{value} {why}"), expected))
    });
    set.chain(flags)
}

/// Why nothing reads a setting, and what is expected instead.
type Unread = (&'static str, &'static str);

/// Settings that this world, or a network without far paths, does not read.
fn unread(key: &str, world: World, plan: &Plan) -> Option<Unread> {
    let near = plan.settings.base_rtt < plan.settings.far.rtt;
    let family = key.split('.').next().unwrap_or_default();
    match (family, key) {
        (family, key) if plan.is_ideal() && is_of_packets(family, key) => {
            Some(("with the transport ideal, which sends no packets", "another transport"))
        }
        ("udp_port", _) if world == World::Sim => {
            Some(("in a simulation, which has no ports", "--world vdev or nic"))
        }
        (_, "sampling.flows") if plan.draft.sampling.is_none() => {
            Some(("in a run that is not sampled", "sampling.interval, too"))
        }
        ("sim", _) | (_, "run.memory") if world != World::Sim => {
            Some(("in real time, which is not simulated", "--world sim"))
        }
        ("vdev", _) if world != World::Vdev => {
            Some(("in a world without virtual devices", "--world vdev"))
        }
        (_, key) if world == World::Nic && keys::is_of_scheduler_alone(key) => Some((
            "of the pod's scheduler, which is a process of its own",
            "headrace scheduler --set",
        )),
        (_, "nic.patience") if world != World::Nic => {
            Some(("in a world whose hosts are in one process", "--world nic"))
        }
        ("sched", key) => idle_in_pod(key, world, plan),
        ("nic", "nic.qdisc" | "nic.depth" | "nic.control_depth") if world == World::Nic => {
            Some(("in a world whose cards are real", "--world sim or vdev"))
        }
        // Beyond every base RTT it makes flows across near ones.
        ("far", "far.rtt") if plan.tree.spec().wan.is_some() => None,
        ("far", _) if near && world != World::Nic => {
            Some(("in a network without far paths", "a topology of two sites, or a lower far.rtt"))
        }
        (_, "switch.border_queue" | "switch.border_qdisc") if plan.tree.spec().wan.is_none() => {
            Some(("in a network without border switches", "a topology of two sites"))
        }
        (_, "switch.detection") if plan.link_faults().is_ok_and(|faults| faults.is_empty()) => {
            Some(("in a network whose links all work", "a fault, or a failure in the matrix"))
        }
        (_, "switch.kmin" | "switch.kmax") if !disciplines(plan).any(QdiscKind::marks) => {
            Some(("in a network whose queues mark nothing", "a discipline that marks, as ecn"))
        }
        (_, "switch.queue_bdp") if plan.draft.switch.queue.is_some() => {
            Some(("beside switch.queue, which replaces it", "one of them"))
        }
        _ => None,
    }
}

/// Settings of Zeropod that hosts, or a network without Cores, do not read.
fn idle_in_pod(key: &str, world: World, plan: &Plan) -> Option<Unread> {
    let params = &plan.settings.sched_params.zeropod;
    if plan.settings.sched != SchedKind::Zeropod {
        return None;
    }
    match key {
        "sched.zeropod.core_buffer" | "sched.zeropod.pause_cells" if params.cores == 0 => {
            Some(("in a network without Cores", "a topology with Cores, as zeropod:8,8,7"))
        }
        "sched.zeropod.optimistic" | "sched.zeropod.optimistic_copies"
            if world != World::Sim || params.early > Duration::ZERO =>
        {
            Some((
                "at hosts that make their packets early, when no slot is free for sure",
                "--world sim, with exact clocks and without sched.zeropod.early",
            ))
        }
        _ => None,
    }
}

/// Whether a setting is of endpoints or switches: a run that is computed without packets reads none
/// of these.
fn is_of_packets(family: &str, key: &str) -> bool {
    const FAMILIES: [&str; 10] =
        ["cc", "ec", "far", "host", "lb", "loss", "nic", "rc", "sched", "switch"];
    const KEYS: [&str; 8] = [
        "ack_delay",
        "ack_every",
        "answers_max",
        "base_rtt",
        "keep_alive",
        "msg_window",
        "psn_window",
        "run.message",
    ];
    FAMILIES.contains(&family) || KEYS.contains(&key)
}

/// Settings of policies, disciplines and programs that this run does not have.
fn unowned(key: &str, draft: &Draft, plan: &Plan) -> Option<Unread> {
    let unused = ("which no policy of this run uses", "a setting of its policies");
    let acts = draft.effective().iter().any(|(known, ..)| known == key);
    let (family, rest) = key.split_once('.')?;
    let member = rest.split('.').next().unwrap_or_default();
    let settings = &plan.settings;
    let owned = match family {
        "lb" => LbParams::owner(rest).is_none_or(|owner| {
            [Some(settings.lb), settings.far.lb].into_iter().flatten().any(|lb| lb.name() == owner)
        }),
        "ec" => settings.ec != EcKind::Uncoded,
        "switch" if QdiscKind::by_name(member).is_some() => has_qdisc(plan, member),
        "switch" if ProgramKind::by_name(member).is_some() => has_program(plan, member),
        _ => true,
    };
    (!acts || !owned).then_some(unused)
}

/// Whether ports of the network have the discipline called `name`, or one with its settings.
fn has_qdisc(plan: &Plan, name: &str) -> bool {
    let owner = |qdisc| match qdisc {
        QdiscKind::PhantomTrim => QdiscKind::PhantomEcn,
        other => other,
    };
    disciplines(plan).any(|qdisc| owner(qdisc).name() == name)
}

/// The disciplines of the network's ports.
fn disciplines(plan: &Plan) -> impl Iterator<Item = QdiscKind> + '_ {
    let fabric = &plan.fabric;
    let of_programs = plan.draft.programs.iter().filter_map(|spec| spec.program.qdisc());
    let of_ports = [Some(fabric.qdisc), fabric.border_qdisc, Some(fabric.nic_qdisc)];
    of_ports.into_iter().flatten().chain(of_programs)
}

/// Whether a switch of the network runs the program called `name`; a discipline can bring one.
fn has_program(plan: &Plan, name: &str) -> bool {
    let kind = ProgramKind::by_name(name);
    kind.is_some_and(|kind| plan.blueprint().switches_with(kind).next().is_some())
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::{Cli, Command};
    use experiments::plan::Origin;
    use experiments::topology::by_name;
    use experiments::workload::{FlowSpec, Matrix};
    use transport::{Bytes, HostId};

    /// One flow between the farthest hosts of a network.
    fn plan(topology: &str, set: &[(&str, &str)]) -> Plan {
        let topology = by_name(topology).unwrap();
        let mut draft = Draft::default();
        for (key, value) in set {
            match *key {
                "transport" => draft.set_transport(value, Origin::Set).unwrap(),
                _ => draft.set(key, value, Origin::Set).unwrap(),
            }
        }
        let mut matrix = Matrix { nodes: topology.nodes, ..Matrix::default() };
        let last = HostId(topology.nodes - 1);
        matrix.push_flow(FlowSpec::new(HostId(0), last, Bytes(1000))).unwrap();
        Plan::new(&draft, matrix, &topology).unwrap()
    }

    #[test]
    fn timely_beyond_its_target_is_warned_of_with_a_target_that_holds() {
        let far = "two-dc:4,2,1ms";
        let timely = ("transport", "timely");
        let said = short_target(&plan(far, &[timely])).unwrap().to_string();
        assert!(said.contains("cc.timely.t_low"), "{said}");
        let value = |key: &str| said.split(&format!("{key}=")).nth(1).unwrap().to_owned();
        let [low, high] = ["cc.timely.t_low", "cc.timely.t_high"].map(value);
        let word = |text: &str| text.split_whitespace().next().unwrap().to_owned();
        let (low, high) = (word(&low), word(&high));
        let mended = [timely, ("cc.timely.t_low", &low), ("cc.timely.t_high", &high)];
        assert!(short_target(&plan(far, &mended)).is_none());
        assert!(short_target(&plan("paper-testbed", &[timely])).is_none());
        assert!(short_target(&plan(far, &[("transport", "swift")])).is_none());
        let across = [timely, ("far.cc", "swift"), ("far.rtt", "1ms")];
        assert!(short_target(&plan(far, &across)).is_none(), "no flow has Timely");
        // The values that are named can be set on the longest paths.
        let longest = short_target(&plan("two-dc:4,2,499ms", &[timely])).unwrap().to_string();
        let low = word(longest.split("t_low=").nth(1).unwrap());
        let high = word(longest.split("t_high=").nth(1).unwrap());
        let mended = [timely, ("cc.timely.t_low", &low), ("cc.timely.t_high", &high)];
        plan("two-dc:4,2,499ms", &mended);
    }

    /// Hosts ask by one of the settings that their scheduler takes, too.
    #[test]
    fn settings_that_only_the_scheduler_reads_are_warned_of_at_its_hosts() {
        let plan = plan("zeropod:8", &[("transport", "zeropod")]);
        let own = keys::OF_SCHEDULER.map(|key| format!("sched.zeropod.{key}"));
        let is_idle = |world, key: &&String| unread(key, world, &plan).is_some();
        let read: Vec<_> = own.iter().filter(|key| !is_idle(World::Nic, key)).collect();
        assert_eq!(read, ["sched.zeropod.ask_every"]);
        assert!(!own.iter().any(|key| is_idle(World::Sim, &key)));
    }

    #[test]
    fn settings_of_a_pod_that_change_nothing_are_warned_of_and_no_others() {
        let idle = |topology, world, set: &[(&str, &str)], key: &str| {
            let all = [&[("transport", "zeropod")], set].concat();
            unread(&format!("sched.zeropod.{key}"), world, &plan(topology, &all)).is_some()
        };
        for key in ["core_buffer", "pause_cells"] {
            assert!(idle("zeropod:8", World::Sim, &[], key), "{key}");
            assert!(!idle("zeropod:8,2,2", World::Sim, &[], key), "{key}");
        }
        let early = ("sched.zeropod.early", "1us");
        let jitter = ("sched.zeropod.clock_jitter", "5ns");
        for key in ["optimistic", "optimistic_copies"] {
            assert!(!idle("zeropod:8", World::Sim, &[], key), "{key}");
            assert!(idle("zeropod:8", World::Vdev, &[], key), "{key}");
            assert!(idle("zeropod:8", World::Sim, &[early], key), "{key}");
            assert!(idle("zeropod:8", World::Sim, &[jitter], key), "{key}");
        }
        assert!(!idle("zeropod:8", World::Vdev, &[], "cells"));
        let other = plan("zeropod:8", &[("transport", "smartt")]);
        assert!(unread("sched.zeropod.optimistic", World::Vdev, &other).is_none());
    }

    #[test]
    fn threads_beside_a_journal_that_one_of_them_keeps_are_warned_of() {
        let of = |flags: &[&str]| {
            let line = ["headrace", "run", "a.cm", "--out", "o"].iter().chain(flags);
            let Command::Run(args) = Cli::try_parse_from(line).unwrap().command else { panic!() };
            let threads = args.threads.unwrap_or(1).to_string();
            let plan = plan("paper-testbed", &[("sim.threads", &threads)]);
            let all = idle_flags(&args, World::Sim, &plan.draft, &plan);
            all.map(|warning| warning.to_string()).collect::<String>()
        };
        assert!(
            of(&["--why", "--threads", "2"]).contains("--threads: warning: found 2 with --why")
        );
        assert_eq!(of(&["--threads", "2"]) + &of(&["--why", "--threads", "1"]), "");
    }

    #[test]
    fn settings_of_phantom_queues_act_beside_trimming_queues_too() {
        let said = |transport| {
            let plan = plan("two-dc:4,2,1ms", &[("transport", transport)]);
            unowned("switch.phantom.kmin", &plan.draft, &plan).map_or("", |(why, _)| why)
        };
        assert_eq!(["uno", "auto"].map(said), ["", ""]);
        assert!(said("smartt").contains("no policy"));
    }

    #[test]
    fn a_restart_of_a_host_after_the_limit_is_warned_of() {
        let restart = ("fault", "restart@host:1,from_us=20");
        let of = |limit| late_restart(&plan("paper-testbed", &[restart, ("run.limit", limit)]));
        let said = of("19us").unwrap().to_string();
        assert!(said.contains("host 1") && said.contains("run.limit"), "{said}");
        assert!(of("20us").is_none());
        assert!(late_restart(&plan("paper-testbed", &[restart])).is_none());
    }

    #[test]
    fn emulated_switches_without_a_class_for_sims_are_warned_of() {
        let of = |world, set: &[_]| plain_switches(world, &plan("leaf-spine:2,2,4", set));
        let set = [("transport", "dcsim"), ("switch.qdisc", "ecn")];
        for world in [World::Sim, World::Vdev] {
            let said = of(world, &set).unwrap().to_string();
            assert!(said.contains("switch.qdisc") && said.contains("`ecn`"), "{said}");
            assert!(of(world, &set[..1]).is_none() && of(world, &set[1..]).is_none());
        }
        // Real switches are judged by what hosts lose.
        assert!(of(World::Nic, &set).is_none());
    }

    #[test]
    fn dcsim_with_room_for_few_segments_is_warned_of() {
        let dcsim = ("transport", "dcsim");
        let said = small_buffer(&plan("leaf-spine:2,2,4", &[dcsim, ("switch.queue", "60000")]));
        let said = said.unwrap().to_string();
        let wanted = said.split("at least ").nth(1).unwrap().split(' ').next().unwrap().to_owned();
        let mended = [dcsim, ("switch.queue", &wanted)];
        assert!(small_buffer(&plan("leaf-spine:2,2,4", &mended)).is_none());
        assert!(small_buffer(&plan("leaf-spine:2,2,4", &[dcsim])).is_none());
        assert!(small_buffer(&plan("leaf-spine:2,2,4", &[])).is_none());
    }
}
