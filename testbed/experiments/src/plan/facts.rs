//! Facts of a network that policies resolve their settings with.

use transport::path::{NetworkFacts, QueueFacts};
use transport::{Bytes, Duration, Rate};

use super::{Draft, dcsim, pods};
use crate::topology::{FabricParams, FatTree, FatTreeSpec, Level, TierSpec, WanSpec};

/// Long enough that picoseconds do not count.
const MEGABYTE: Bytes = Bytes(1_000_000);

/// Facts of a network, beside its base RTTs, that policies resolve their settings with.
pub(super) fn of(draft: &Draft, topology: &FatTreeSpec, fabric: &FabricParams) -> NetworkFacts {
    let farthest = topology.levels().saturating_sub(1);
    let links = 2 * topology.tiers_via(farthest).len() + usize::from(topology.wan.is_some());
    let idle = topology.base_rtt(Bytes::ZERO, Bytes::ZERO);
    let sending = topology.base_rtt(MEGABYTE, Bytes::ZERO) - idle;
    let at_one_rate = topology.tier[0].link_rate().time_for(MEGABYTE) * links as u64;
    #[expect(clippy::cast_possible_truncation, reason = "a ratio")]
    let stretch = (sending.as_us_f64() / at_one_rate.as_us_f64()) as f32;
    NetworkFacts {
        sites: Some(topology.sites().max(draft.sites)),
        propagation_rtt: Some(idle),
        stretch: Some(stretch),
        hops: u16::try_from(links).ok(),
        line_rate: Some(topology.tier[0].link_rate()),
        probes: dcsim::probes(draft, fabric),
        queues: fabric.buffer.map(|buffer| queues(topology, fabric, buffer)),
        pod: pods::facts(draft, topology),
        ..NetworkFacts::default()
    }
}

/// The queues on the longest path, up and down again; ports without a buffer of their own have
/// `buffer`.
fn queues(topology: &FatTreeSpec, fabric: &FabricParams, buffer: Bytes) -> QueueFacts {
    let tiers = topology.tiers_via(topology.levels().saturating_sub(1));
    let down = tiers.iter().map(|tier| (tier.queue_down, tier.link_rate()));
    let above = tiers.iter().skip(1).map(TierSpec::link_rate);
    let across = topology.wan.iter().map(WanSpec::link_rate);
    let up = tiers.iter().map(|tier| tier.queue_up).zip(above.chain(across));
    let full = down.chain(up).map(|(own, rate)| rate.time_for(own.unwrap_or(buffer)));
    let least = full.clone().min().unwrap_or_default();
    let full = full.fold(Duration::ZERO, |sum, delay| sum + delay);
    let packet = topology.tier[0].link_rate().time_for(Bytes(fabric.mtu.into()));
    QueueFacts { full, least, packet }
}

/// The highest rate of one flow over a path that turns at tier `top`. It is the least of the rate
/// of a host's link and the rates of all links together up from a ToR, a pod or a site.
pub(super) fn path_rate(tree: &FatTree, top: u8) -> Rate {
    let levels = Level::all(tree);
    let crossed = levels.iter().filter(|level| level.tier <= top);
    crossed.map(|level| level.capacity).min().unwrap_or(tree.spec().tier[0].link_rate())
}

/// [`of`] a network, with what follows from its base RTTs, which are those of paths by the tier at
/// which they turn.
pub(super) fn with_loop(
    draft: &Draft,
    tree: &FatTree,
    fabric: &FabricParams,
    base_rtts: &[Duration],
) -> NetworkFacts {
    NetworkFacts { loop_rtt: Some(loop_rtt(tree, base_rtts)), ..of(draft, tree.spec(), fabric) }
}

/// The time in which a host's line sends the largest BDP of a path; `base_rtts` are those of paths
/// by the tier at which they turn.
fn loop_rtt(tree: &FatTree, base_rtts: &[Duration]) -> Duration {
    let line = tree.spec().tier[0].link_rate();
    let bdp = |(top, rtt): (u8, &Duration)| path_rate(tree, top).min(line).bytes_in(*rtt);
    line.time_for((0..tree.spec().levels()).zip(base_rtts).map(bdp).max().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use crate::plan::{Draft, Origin, Plan};
    use crate::topology::{FatTreeSpec, by_name};
    use crate::workload::{FlowSpec, Matrix};
    use transport::{Bytes, Duration, HostId, Rate};

    #[test]
    fn a_path_is_as_fast_as_the_narrowest_place_that_it_crosses() {
        // Two links between the sites, of 100 Gb/s each as built.
        let between = |gbps| {
            let mut topology = by_name("two-dc:4,2,5us").unwrap();
            topology.wan.as_mut().unwrap().gbps = gbps;
            let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
            matrix.push_flow(FlowSpec::new(HostId(0), HostId(31), Bytes(1000))).unwrap();
            let plan = Plan::new(&Draft::default(), matrix, &topology).unwrap();
            [1, 31].map(|dst| plan.path(HostId(0), HostId(dst)).line_rate)
        };
        let [near, far] = [100, 20].map(Rate::from_gbps);
        assert_eq!(between(100), [near, near]);
        assert_eq!(between(10), [near, far]);
    }

    /// A flow between two sites with these settings.
    fn across(set: &[(&str, &str)]) -> Plan {
        let topology = by_name("two-dc:4,2,5us").unwrap();
        let mut draft = Draft::default();
        for (key, value) in set {
            draft.set(key, value, Origin::Set).unwrap();
        }
        let mut matrix = Matrix { nodes: 32, ..Matrix::default() };
        matrix.push_flow(FlowSpec::new(HostId(0), HostId(31), Bytes(1000))).unwrap();
        Plan::new(&draft, matrix, &topology).unwrap()
    }

    /// UnoCC's alpha on `topology`: the one that acts, and the one that a manifest shows, with its
    /// origin.
    fn alpha(
        transport: &str,
        topology: &FatTreeSpec,
        change: impl FnOnce(&mut Draft),
    ) -> (f32, String, Origin) {
        let mut draft = Draft::default();
        draft.set_transport(transport, Origin::Flag("transport")).unwrap();
        change(&mut draft);
        let mut matrix = Matrix { nodes: topology.nodes, ..Matrix::default() };
        let farthest = HostId(topology.nodes - 1);
        matrix.push_flow(FlowSpec::new(HostId(0), farthest, Bytes(1000))).unwrap();
        let plan = Plan::new(&draft, matrix, topology).unwrap();
        let shown = plan.draft.effective().into_iter().find(|(key, ..)| key == "cc.unocc.alpha");
        let (_, shown, origin) = shown.unwrap();
        // Another plan of the same draft decides alike.
        let again = Plan::new(&plan.draft, plan.matrix.clone(), topology).unwrap();
        assert_eq!(again.settings.cc_params.unocc, plan.settings.cc_params.unocc);
        (plan.settings.cc_params.unocc.alpha, shown, origin)
    }

    #[test]
    fn alpha_is_that_of_one_datacentre_where_the_topology_is_one_site_at_any_base_rtt() {
        let one = || (0.032, "0.032".to_owned(), Origin::Topology);
        // The setting's default is the alpha of several.
        let several = || (0.001, "0.001".to_owned(), Origin::Default);
        for (topology, base_rtt, transport, expected) in [
            ("leaf-spine:4,4,4", None, "uno", one()),
            ("leaf-spine:4,4,4", Some("2ms"), "uno", one()),
            ("dumbbell:8,100,2ms", None, "uno", one()),
            // Its far flows have UnoCC. They are far by their base RTT alone.
            ("dumbbell:8,100,200us", None, "auto", one()),
            ("two-dc:4,2,1ms", None, "uno", several()),
            ("two-dc:4,2,1ms", None, "auto", several()),
            ("two-dc:4,2,1ms", Some("100us"), "uno", several()),
            ("two-dc:4,2,1us", None, "uno", several()),
            ("two-dc-leaf", None, "uno", several()),
            ("two-sites:2", None, "uno", several()),
        ] {
            let found = alpha(transport, &by_name(topology).unwrap(), |draft| {
                if let Some(base_rtt) = base_rtt {
                    draft.set("base_rtt", base_rtt, Origin::Set).unwrap();
                }
            });
            assert_eq!(found, expected, "{topology} {base_rtt:?} {transport}");
        }
        // At a tenth of a gigabit a second a round trip takes milliseconds.
        let slow = by_name("leaf-spine:2,2,4").unwrap().with_hosts_at(100);
        assert_eq!(alpha("uno", &slow, |_| ()), one());
    }

    #[test]
    fn alpha_is_that_of_several_datacentres_where_a_hosts_file_names_several() {
        let one_switch = by_name("leaf-spine:1,1,4").unwrap();
        let of = |sites| alpha("uno", &one_switch, |draft| draft.sites = sites).0;
        assert_eq!([1, 2, 3].map(of), [0.032, 0.001, 0.001]);
        let apart = by_name("two-sites:2").unwrap();
        assert_eq!(alpha("uno", &apart, |draft| draft.sites = 1).0, 0.001);
    }

    #[test]
    fn alpha_stays_as_a_hand_or_a_preset_of_the_paper_sets_it() {
        for topology in ["leaf-spine:4,4,4", "two-dc:4,2,1ms"] {
            let topology = by_name(topology).unwrap();
            for value in ["0.001", "0.032", "0.5"] {
                let (acts, shown, origin) = alpha("uno", &topology, |draft| {
                    draft.set("cc.unocc.alpha", value, Origin::Set).unwrap();
                });
                assert_eq!(
                    (acts.to_string(), shown, origin),
                    (value.into(), value.into(), Origin::Set)
                );
            }
            for preset in ["uno-paper", "uno-mended", "uno-artifact"] {
                let kept = (0.001, "0.001".to_owned(), Origin::Transport(preset));
                assert_eq!(alpha(preset, &topology, |_| ()), kept);
            }
        }
    }

    #[test]
    fn an_alpha_by_hand_that_is_the_networks_changes_no_other_setting() {
        let one_site = by_name("leaf-spine:4,4,4").unwrap();
        let settings = |set: &[(&str, &str)]| {
            let mut draft = Draft::default();
            draft.set_transport("uno", Origin::Flag("transport")).unwrap();
            set.iter().for_each(|(key, value)| draft.set(key, value, Origin::Set).unwrap());
            let matrix = Matrix { nodes: 16, ..Matrix::default() };
            Plan::new(&draft, matrix, &one_site).unwrap().settings.cc_params.unocc
        };
        assert_eq!(settings(&[("cc.unocc.alpha", "0.032")]), settings(&[]));
        assert_ne!(settings(&[("cc.unocc.alpha", "0.001")]), settings(&[]));
    }

    #[test]
    fn hosts_get_the_wait_of_half_the_shortest_queue_unless_it_is_set() {
        let queue = |set: &[(&str, &str)]| {
            across(&[&[("ec", "auto")], set].concat()).settings.code_params.auto.queue.unwrap()
        };
        let (short, border) = (("switch.queue", "250KB"), ("switch.border_queue", "100KB"));
        assert_eq!(queue(&[short]), Duration::from_us(10));
        assert_eq!(queue(&[short, border]), Duration::from_us(4));
        assert_eq!(queue(&[short, ("ec.auto.queue", "7us")]), Duration::from_us(7));
    }

    #[test]
    fn the_time_of_a_block_is_that_of_all_queues_on_the_way_unless_it_is_set() {
        let wait = |set: &[(&str, &str)]| {
            let plan = across(set);
            let packet = Rate::from_gbps(100).time_for(Bytes(plan.fabric.mtu.into()));
            (plan.settings.ec_params.patience(), packet * 10)
        };
        let full = |bytes| Rate::from_gbps(100).time_for(Bytes(bytes));
        // Settings are of whole nanoseconds.
        let cut = |span: Duration| Duration::from_ns(span.as_ps() / 1000);
        let [whole, queue] = [("ec.block_timer", "whole"), ("switch.queue", "250KB")];
        // Eight queues of the network; of one size; three at links of border switches deeper.
        let (wait_own, block) = wait(&[whole]);
        assert_eq!(wait_own, cut(full(1 << 20) * 8 + block));
        assert_eq!(wait(&[whole, queue]).0, cut(full(250_000) * 8 + block));
        let deep = cut(full(250_000) * 5 + full(4_000_000) * 3 + block);
        assert_eq!(wait(&[whole, queue, ("switch.border_queue", "4MB")]).0, deep);
        let set = ("ec.block_timeout", "7us");
        assert_eq!(wait(&[whole, queue, set]).0, Duration::from_us(7));
        assert_eq!(wait(&[whole, set, ("ec.block_timeout", "auto")]).0, wait_own);
        assert_eq!(wait(&[queue]).0, Duration::from_us(80));
    }

    #[test]
    fn each_queue_on_the_way_takes_the_time_of_its_own_link() {
        let wait = |topology: &FatTreeSpec, set: &[(&str, &str)]| {
            let mut draft = Draft::default();
            for (key, value) in [&[("ec.block_timer", "whole")], set].concat() {
                draft.set(key, value, Origin::Set).unwrap();
            }
            let mut matrix = Matrix { nodes: topology.nodes, ..Matrix::default() };
            matrix.push_flow(FlowSpec::new(HostId(0), HostId(7), Bytes(1000))).unwrap();
            let plan = Plan::new(&draft, matrix, topology).unwrap();
            (plan.settings.ec_params.patience(), plan.fabric)
        };
        let cut = |span: Duration| Duration::from_ns(span.as_ps() / 1000);
        let time = |gbps: u32, bytes| Rate::from_gbps(gbps.into()).time_for(Bytes(bytes));
        let mut two_sites = by_name("two-dc:4,2,5us").unwrap();
        let rates = [25, 50, 100, 200];
        for (tier, gbps) in two_sites.tier.iter_mut().zip(rates) {
            tier.downlink_mbps = gbps * 1000;
        }
        two_sites.wan.as_mut().unwrap().gbps = 400;
        let (found, fabric) = wait(&two_sites, &[("switch.queue", "250KB")]);
        // Up to the border switch and across, then down to the host, whose own link has one queue.
        let links = [50, 100, 200, 400, 200, 100, 50, 25];
        let full = links.iter().fold(Duration::ZERO, |sum, gbps| sum + time(*gbps, 250_000));
        assert_eq!(found, cut(full + time(25, fabric.mtu.into()) * 10));
        // Ports of this network have no size of their own.
        let one_site = by_name("leaf-spine:2,2,4").unwrap();
        let gbps = one_site.tier[0].downlink_mbps / 1000;
        let (found, fabric) = wait(&one_site, &[]);
        let full = time(gbps, fabric.buffer.unwrap().0) * 3;
        assert_eq!(found, cut(full + time(gbps, fabric.mtu.into()) * 10));
    }

    #[test]
    fn the_time_of_a_block_is_that_of_the_last_network_and_no_less_than_the_world_needs() {
        let at = |draft: &Draft, gbps: u32| {
            let mut topology = by_name("leaf-spine:2,2,4").unwrap();
            let tiers = usize::from(topology.levels());
            topology.tier[..tiers].iter_mut().for_each(|tier| tier.downlink_mbps = gbps * 1000);
            let mut matrix = Matrix { nodes: topology.nodes, ..Matrix::default() };
            matrix.push_flow(FlowSpec::new(HostId(0), HostId(5), Bytes(1000))).unwrap();
            Plan::new(draft, matrix, &topology).unwrap()
        };
        let patience = |plan: &Plan| plan.settings.ec_params.patience();
        let mut draft = Draft::default();
        draft.set("switch.queue", "1MB", Origin::Set).unwrap();
        for timer in ["pause", "whole"] {
            draft.set("ec.block_timer", timer, Origin::Set).unwrap();
            draft.block_timeout_min = Duration::ZERO;
            let [slow, fast] = [100, 400].map(|gbps| at(&draft, gbps));
            assert_eq!(patience(&slow) > patience(&fast), timer == "whole", "{timer}");
            assert_eq!(patience(&at(&slow.draft, 400)), patience(&fast), "{timer}");
            for (least, wait) in [(1, patience(&fast)), (5000, Duration::from_us(5000))] {
                draft.block_timeout_min = Duration::from_us(least);
                let planned = at(&draft, 400);
                assert_eq!(patience(&planned), wait, "{timer}");
                assert_eq!(patience(&at(&planned.draft, 400)), wait, "{timer}");
                let mut without = planned.draft.clone();
                without.block_timeout_min = Duration::ZERO;
                assert_eq!(patience(&at(&without, 400)), patience(&fast), "{timer}");
            }
        }
        // A plan says so where flows are coded, and where the setting is less.
        for (ec, near, own, raises) in [
            ("8,2", "0us", "10us", true),
            ("8,2", "0us", "5ms", false),
            ("8,2", "100us", "10us", false),
            ("off", "0us", "10us", false),
        ] {
            for (key, value) in [("ec", ec), ("ec.base_rtt_min", near), ("ec.block_timeout", own)] {
                draft.set(key, value, Origin::Set).unwrap();
            }
            assert_eq!(at(&draft, 400).raises_block_timeout(), raises, "{ec} {near} {own}");
        }
    }
}
