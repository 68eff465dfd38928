//! Checks of a plan beside those of single systems: queues, marks, sizes, and how packets name
//! their way.

use fabric::ProgramKind;
use transport::cc::CcKind;
use transport::{Bytes, Config, Duration, Settings};

use super::{Draft, RunError};
use crate::flow_set::FlowSet;
use crate::input::InputError;
use crate::topology::FatTreeSpec;
use crate::workload::cm::MatrixLine;
use crate::workload::{FlowSpec, Matrix};

/// The topology has the hosts of the matrix.
pub(super) fn check_hosts(matrix: &Matrix, tree: &FatTreeSpec) -> Result<(), RunError> {
    if matrix.nodes <= tree.nodes {
        return Ok(());
    }
    let expected = format!("at most {}, the hosts of the topology", tree.nodes);
    let error = InputError::new(format!("{} hosts", matrix.nodes), expected);
    let help = "choose a larger topology with --topo, or a matrix of fewer hosts";
    Err(RunError::at_line(MatrixLine::Nodes, error.help(help)))
}

/// Settings fit each other, the matrix and the topology.
pub(super) fn check_settings(
    draft: &Draft,
    matrix: &Matrix,
    tree: &FatTreeSpec,
    config: &Config,
) -> Result<(), RunError> {
    check_queues(draft, tree, config)?;
    check_marks(draft)?;
    check_timely(draft)?;
    check_sizes(draft)?;
    check_code(draft)?;
    check_sampled(draft, matrix)
}

/// A code by loss adds parity to blocks that have begun to leave. A scheduler with packets of its
/// own has asked for leave of what was posted by then, and would ask for the parity of one block
/// after the other.
fn check_code(draft: &Draft) -> Result<(), RunError> {
    let (code, sched) = (draft.settings.ec, draft.settings.sched);
    if !code.is_by_loss() || sched.facts().only_takes_turns {
        return Ok(());
    }
    let expected = format!(
        "off, or X,Y, with the scheduler `{}`: it is asked for the packets of a message before \
         losses say whether parity is among them",
        sched.name()
    );
    let help = "use --ec 8,2, or a scheduler whose flows only take turns, as --transport uno";
    Err(InputError::new(format!("`{}`", code.name()), expected).at("ec", 0, 0).help(help).into())
}

/// Packets have a way, as they name it or as switches choose it.
pub(super) fn check_ways(
    draft: &Draft,
    matrix: &Matrix,
    tree: &FatTreeSpec,
) -> Result<(), RunError> {
    check_routing(draft)?;
    check_cores(draft, matrix, tree)
}

/// Every queue whose size was set must hold the longest packet that it is for, or nothing would
/// ever pass. The topology's own count where no setting replaces them.
fn check_queues(draft: &Draft, tree: &FatTreeSpec, config: &Config) -> Result<(), RunError> {
    let (packet, control) = (config.packet_max(), config.control_max());
    let help = "raise it, or lower `mtu` with --set mtu=BYTES";
    let switch = &draft.switch;
    let runs_dci = draft.programs.iter().any(|spec| spec.program == ProgramKind::Dci);
    let dci_buffer = switch.programs.dci.buffer.filter(|_| runs_dci);
    let settings = [
        ("switch.queue", switch.queue, packet, "packet", help),
        ("switch.dci.buffer", dci_buffer, packet, "packet", "raise it, or leave it out"),
        ("switch.border_queue", switch.border_queue, packet, "packet", help),
        (
            "switch.control_queue",
            switch.control_queue,
            control,
            "control packet",
            "raise it, or leave it out",
        ),
    ];
    for (name, queue, packet, what, help) in settings {
        if let Some(queue) = queue.filter(|queue| *queue < packet) {
            let expected = format!("a queue that holds one {what} of {} bytes", packet.0);
            let error = InputError::new(format!("{} bytes", queue.0), expected);
            return Err(error.at(name, 0, 0).help(help).into());
        }
    }
    let expected = || format!("a queue that holds one packet of {} bytes", packet.0);
    let small = own_queues(draft, tree).find(|(_, _, queue)| *queue < packet);
    small.map_or(Ok(()), |(tier, key, queue)| {
        let found = format!("{key} {} in tier {tier}", queue.0);
        let error = InputError::new(found, expected()).help(help);
        Err(RunError::Topology(Some(tier), key, Box::new(error)))
    })
}

/// The topology's own queues, where `switch.queue` does not replace them: the tier, the key and the
/// size of each.
fn own_queues(
    draft: &Draft,
    tree: &FatTreeSpec,
) -> impl Iterator<Item = (u8, &'static str, Bytes)> {
    let own = tree.tier.iter().zip(0..).filter(|_| draft.switch.queue.is_none());
    let keys = own.flat_map(|(spec, tier)| {
        [(tier, "Queue_Down", spec.queue_down), (tier, "Queue_Up", spec.queue_up)]
    });
    keys.filter_map(|(tier, key, queue)| Some((tier, key, queue?)))
}

/// The error of a port whose buffer of `buffer` bytes is too small. It is at the queue of the
/// topology that has this size, if there is one such queue and no more, and at the setting `key`
/// elsewhere.
pub(super) fn of_buffer(
    draft: &Draft,
    tree: &FatTreeSpec,
    (key, buffer): (&str, Bytes),
    error: InputError,
) -> RunError {
    let error = error.at(key, 0, 0);
    let mut same = own_queues(draft, tree).filter(|(_, _, queue)| *queue == buffer);
    match (same.next(), same.next()) {
        (Some((tier, key, _)), None) if draft.switch.border_queue != Some(buffer) => {
            RunError::Topology(Some(tier), key, Box::new(error))
        }
        _ => error.into(),
    }
}

/// The threshold at which marks begin is at most the one above which every packet is marked.
fn check_marks(draft: &Draft) -> Result<(), RunError> {
    let (switch, phantom) = (&draft.switch, &draft.switch.qdiscs.phantom);
    for (of, kmin, kmax) in
        [("switch", switch.kmin, switch.kmax), ("switch.phantom", phantom.kmin, phantom.kmax)]
    {
        if kmin > kmax {
            let expected = format!("at most {of}.kmax, {kmax}");
            let help = format!("lower it, or raise {of}.kmax");
            let error = InputError::new(kmin.to_string(), expected);
            return Err(error.at(&format!("{of}.kmin"), 0, 0).help(help).into());
        }
    }
    Ok(())
}

/// The RTT below which Timely speeds up is below the one above which it slows down.
fn check_timely(draft: &Draft) -> Result<(), RunError> {
    let settings = &draft.settings;
    let params = &settings.cc_params.timely;
    if !settings.chooses(CcKind::Timely) || params.t_low < params.t_high {
        return Ok(());
    }
    let (low, high) = (params.t_low, params.t_high);
    let (key, found, expected, help) = match draft.is_given("cc.timely.t_high") {
        true => ("cc.timely.t_high", high, format!("above cc.timely.t_low, {low}"), "raise it"),
        false => (
            "cc.timely.t_low",
            low,
            format!("below cc.timely.t_high, {high}"),
            "lower it, or raise cc.timely.t_high, too",
        ),
    };
    Err(InputError::new(found.to_string(), expected).at(key, 0, 0).help(help).into())
}

/// The longest round trip is one that endpoints work with. Where no setting says another one, it is
/// that of the topology's links.
pub(super) fn check_round_trip(
    draft: &Draft,
    tree: &FatTreeSpec,
    longest: Duration,
) -> Result<(), RunError> {
    if longest <= Settings::RTT_MAX || draft.base_rtt.is_some() {
        return Ok(());
    }
    // The longest latency is the one that is blamed.
    let tiers = tree.tier.iter().take(tree.tiers.into()).zip(0..).flat_map(|(spec, tier)| {
        [
            (spec.downlink_latency_ns, tier, "Downlink_Latency_ns"),
            (spec.switch_latency_ns, tier, "Switch_Latency_ns"),
        ]
    });
    let wan = tree.wan.iter().map(|wan| (wan.latency_ns, tree.tiers, "Uplink_Latency_ns"));
    let (_, tier, key) = tiers.chain(wan).max().unwrap_or((0, 0, "Downlink_Latency_ns"));
    let found = format!("a round trip of {:.3} ms by its latencies", longest.as_us_f64() / 1e3);
    let error = InputError::new(found, format!("at most {}", Settings::RTT_MAX));
    let help = match &tree.wan {
        Some(_) => "choose a shorter delay in the topology, as two-dc-leaf:900ms",
        None => "lower this latency, which is the longest",
    };
    Err(RunError::at_topology(Some(tier), key, error.help(help)))
}

/// Zeropod's hosts alone name the way of a packet: other hosts draw entropy values, and a program
/// sends by their hash.
fn check_routing(draft: &Draft) -> Result<(), RunError> {
    if !draft.switch.explicit {
        return Ok(());
    }
    if !draft.settings.sched.facts().departs_in_slots {
        let expected = "hash, with a scheduler whose hosts name no ways";
        let help = "leave it out, or use --transport zeropod";
        let error = InputError::new("`explicit`", expected);
        return Err(error.at("switch.routing", 0, 0).help(help).into());
    }
    let Some(spec) = draft.programs.first() else { return Ok(()) };
    let found = format!("`{}`", spec.program.name());
    let expected = "no program in switches that take the way that a packet names";
    Err(InputError::new(found, expected).at("switch.program", 0, 0).help("leave it out").into())
}

/// A switch that sends by a hash draws among all its ports up. So where flows go from pod to pod,
/// each port up has to lead to a Core. Ports up do not matter where no flow uses them.
fn check_cores(draft: &Draft, matrix: &Matrix, tree: &FatTreeSpec) -> Result<(), RunError> {
    let aggs = tree.aggs_per_pod();
    let Some(cores) = tree.dealt_cores.filter(|cores| *cores < aggs) else { return Ok(()) };
    let leaves_pod = |flow: &FlowSpec| tree.meeting_tier(flow.src, flow.dst) > 1;
    let hashes = !draft.switch.explicit && !draft.transport.is_ideal();
    if !hashes || !matrix.flows.iter().any(leaves_pod) {
        return Ok(());
    }
    let found = format!("{cores} Cores for the {aggs} aggregation switches of a pod");
    let expected = format!("at least {aggs}, one for each, where switches send by a hash");
    let help = "use a topology with more Cores, or --transport zeropod, whose hosts name their way";
    Err(RunError::at_topology(None, "Cores", InputError::new(found, expected).help(help)))
}

/// Flows that are to be sampled by name are lines of the matrix.
fn check_sampled(draft: &Draft, matrix: &Matrix) -> Result<(), RunError> {
    let (last, flows) = (draft.sampled.as_ref().map(FlowSet::last), matrix.flows.len());
    let Some(last) = last.filter(|last| *last >= flows) else { return Ok(()) };
    let expected = format!("lines of the matrix, which has {flows}");
    let error = InputError::new(format!("flow {}", last.saturating_add(1)), expected);
    Err(error.at("sampling.flows", 0, 0).help("flows count from 1").into())
}

/// Payload is padded where the octets around it are accounted, too.
fn check_sizes(draft: &Draft) -> Result<(), RunError> {
    let sizes = &draft.settings.accounted;
    if sizes.data_min == 0 || sizes.data_overhead.is_some() {
        return Ok(());
    }
    if draft.is_given("wire.data_overhead") {
        let expected = format!("a number of bytes, where wire.data_min is {}", sizes.data_min);
        let error = InputError::new("`headers`", expected).at("wire.data_overhead", 0, 0);
        let help = "leave it out where the transport sets both, or set wire.data_min=0";
        return Err(error.help(help).into());
    }
    let expected = "0, where the headers around payload count as they are";
    let error = InputError::new(sizes.data_min.to_string(), expected).at("wire.data_min", 0, 0);
    Err(error.help("set wire.data_overhead, too").into())
}

#[cfg(test)]
mod tests {
    use crate::plan::{Draft, Origin, Plan};
    use crate::topology::by_name;
    use crate::workload::{FlowSpec, Matrix};
    use transport::{Bytes, Config, HostId, Settings};

    fn refusal(transport: &str, set: &[(&str, &str)]) -> String {
        let mut draft = Draft::default();
        draft.set_transport(transport, Origin::Default).unwrap();
        for (key, value) in set {
            draft.set(key, value, Origin::Set).unwrap();
        }
        let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(1), Bytes(1000)));
        let network = if transport == "zeropod" { "zeropod:8" } else { "leaf-spine:4,4,4" };
        let plan = Plan::new(&draft, matrix, &by_name(network).unwrap());
        plan.map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn ways_that_packets_name_need_hosts_that_name_them_and_switches_that_take_them() {
        let explicit = ("switch.routing", "explicit");
        let said = refusal("smartt", &[explicit]);
        assert!(said.contains("switch.routing") && said.contains("--transport zeropod"), "{said}");
        let said = refusal("zeropod", &[("switch.program", "dci@tor:0")]);
        assert!(said.contains("switch.program") && said.contains("`dci`"), "{said}");
        assert_eq!(refusal("zeropod", &[]), "");
        assert_eq!(refusal("smartt", &[("switch.program", "dci@tor:0")]), "");
    }

    #[test]
    fn a_queue_that_holds_no_packet_is_refused_with_what_it_must_hold() {
        for (key, few) in
            [("switch.queue", "100"), ("switch.control_queue", "0"), ("switch.control_queue", "40")]
        {
            let said = refusal("smartt", &[(key, few)]);
            assert!(said.contains(key) && said.contains(&format!("{few} bytes")), "{said}");
            let (_, least) = said.split_once(" of ").unwrap();
            let least = least.split_whitespace().next().unwrap();
            assert_eq!(refusal("smartt", &[(key, least)]), "", "{said}");
        }
        // A REPORT, without which dcPIM sends nothing, is longer than an acknowledgement.
        let ack = Config::new(Settings::default()).unwrap().ack_len().0;
        let said = refusal("dcpim", &[("switch.control_queue", &ack.to_string())]);
        assert!(said.contains("switch.control_queue"), "{said}");
        let trimmed = [("wire.data_overhead", "200"), ("switch.control_queue", "199")];
        let said = refusal("smartt", &trimmed);
        assert!(said.contains("switch.control_queue") && said.contains("of 200 bytes"), "{said}");
    }

    #[test]
    fn a_code_by_loss_is_refused_where_schedulers_let_segments_leave_one_by_one() {
        for transport in ["eqds", "phost", "dcpim", "dcsim"] {
            let said = refusal(transport, &[("ec", "auto")]);
            for word in ["ec", "`auto`", "the scheduler `", "--ec 8,2", "--transport uno"] {
                assert!(said.contains(word), "no `{word}` in {said}");
            }
            assert_eq!(refusal(transport, &[("ec", "8,2")]), "", "{transport}");
        }
        assert_eq!(refusal("uno", &[("ec", "auto")]), "");
    }

    #[test]
    fn flows_that_the_matrix_has_not_are_not_sampled() {
        let said = refusal("smartt", &[("sampling.flows", "1,2")]);
        assert!(said.contains("sampling.flows") && said.contains("flow 2"), "{said}");
        // As many as are shown where none are named, too.
        let said = refusal("smartt", &[("sampling.flows", "1..64")]);
        assert!(said.contains("sampling.flows") && said.contains("flow 64"), "{said}");
        assert_eq!(refusal("smartt", &[("sampling.flows", "1")]), "");
        assert_eq!(refusal("smartt", &[("sampling.flows", "auto")]), "");
    }

    #[test]
    fn payload_is_padded_only_where_what_is_around_it_is_accounted() {
        let padded = ("wire.data_min", "512");
        let said = refusal("smartt", &[padded]);
        assert!(said.contains("wire.data_min") && said.contains("wire.data_overhead"), "{said}");
        assert_eq!(refusal("smartt", &[padded, ("wire.data_overhead", "40")]), "");
    }

    #[test]
    fn pods_that_some_switches_cannot_leave_are_refused_where_switches_send_by_a_hash() {
        let refusal = |transport, topology, to| {
            let mut draft = Draft::default();
            draft.set_transport(transport, Origin::Default).unwrap();
            let tree = by_name(topology).unwrap();
            let mut matrix = Matrix { nodes: tree.nodes, ..Matrix::default() };
            matrix.push_flow(FlowSpec::new(HostId(0), HostId(to), Bytes(1))).unwrap();
            let plan = Plan::new(&draft, matrix, &tree);
            plan.map_or_else(|error| error.to_string(), |_| String::new())
        };
        let said = refusal("smartt", "zeropod:8,2,3", 16);
        for word in ["topology", "3 Cores", "at least 4", "--transport zeropod"] {
            assert!(said.contains(word), "no `{word}` in {said}");
        }
        for (transport, topology, to) in [
            ("smartt", "zeropod:8,2,4", 16),
            ("smartt", "zeropod:8,2,3", 15),
            ("zeropod", "zeropod:8,2,3", 16),
        ] {
            assert_eq!(refusal(transport, topology, to), "", "{transport} {topology} {to}");
        }
    }
}
