//! Tests of the `.topo` reader and writer: the reference files, refused inputs with their places,
//! and round trips.

use proptest::prelude::*;

use super::*;
use crate::topology::by_name;
use transport::Rate;

fn parse(text: &str) -> Result<FatTreeSpec, InputError> {
    read(text.as_bytes(), "t.topo")
}

/// The 1024-host 8:1 tree of the SMaRTT evaluation as a file of uet-htsim has it.
const FT1024_8OS: &str =
    "# ft1024_8os_800g: 3-tier fat tree, 800 Gbps, 600 ns links, 400 ns switches
Nodes 1024
Tiers 3
Podsize 64

Tier 0
Oversubscribed 4
Downlink_speed_Gbps 800
Radix_Down 8
Radix_Up 2
Downlink_Latency_ns 600
Switch_Latency_ns 400

Tier 1
Oversubscribed 2
Downlink_speed_Gbps 800
Radix_Down 8
Radix_Up 4
Downlink_Latency_ns 600
Switch_Latency_ns 400
Bundle 1

Tier 2
Downlink_speed_Gbps 800
Radix_Down 16
Downlink_Latency_ns 600
Switch_Latency_ns 400
Bundle 1
";

/// Bundles and mixed speeds, with loose spelling.
const BUNDLED: &str =
    "nodes 8\r\n TIERS 3 \npodsize\t4\ntier 0\ndownlink_speed_gbps 200\nradix_down 2
radix_up 2 # two\ndownlink_latency_ns 1000\nqueue_down 100000\ntier 1\ndownlink_speed_gbps 200
radix_down 2\nradix_up 4\ndownlink_latency_ns 1000\nbundle 1\ntier 2\ndownlink_speed_gbps 100
radix_down 4\ndownlink_latency_ns 1000\nbundle 2";

#[test]
fn the_reference_file_is_the_built_in_tree_and_is_written_as_it_was() {
    let tree = parse(FT1024_8OS).unwrap();
    assert_eq!(tree, by_name("ft1024-8os").unwrap());
    let (_, body) = FT1024_8OS.split_once('\n').unwrap();
    assert_eq!(to_text(&tree), body);
}

#[test]
fn bundles_cut_the_number_of_switches() {
    let tree = parse(BUNDLED).unwrap();
    assert_eq!((tree.pods(), tree.tors(), tree.aggs(), tree.cores()), (2, 4, 4, 4));
    assert_eq!((tree.tier[0].queue_down, tree.tier[0].queue_up), (Some(Bytes(100_000)), None));
    assert_eq!(parse(&to_text(&tree)), Ok(tree));
}

#[test]
fn every_built_in_tree_survives_a_file() {
    for network in crate::topology::networks().filter(|known| known.parameters.is_empty()) {
        let tree = FatTreeSpec { faults: &[], ..by_name(network.name).unwrap() };
        assert_eq!(parse(&to_text(&tree)), Ok(tree), "{}", network.name);
    }
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let edit = |from: &str, to: &str| FT1024_8OS.replacen(from, to, 1);
    for (text, place, words) in [
        (edit("Nodes 1024", "Nodes 1000"), "t.topo:2: ", "a multiple of 64"),
        (edit("Nodes 1024\n", ""), "t.topo:27: ", "`Nodes`"),
        (edit("Tiers 3", "Tiers 4"), "t.topo:3:7: ", "2..=3"),
        (edit("Tiers 3", "Tiers 2"), "t.topo:23:6: ", "0..=1"),
        (edit("Podsize 64", "Podsize 64x"), "t.topo:4:9: ", "the hosts of a pod"),
        (edit("Radix_Up 2", "Radix_Up"), "t.topo:10:9: ", "Radix_Up, an integer"),
        (edit("Radix_Up 2\n", ""), "t.topo:6: ", "`Radix_Up`"),
        (edit("Radix_Up 2", "Radix_Upp 2"), "t.topo:10:1: ", "did you mean `Radix_Up`"),
        (edit("Oversubscribed 4", "Oversubscribed 3"), "t.topo:7: ", "expected 4"),
        (edit("Tier 0\n", ""), "t.topo:6:1: ", "`Tier t` line before"),
        (edit("Tier 1", "Tier 0"), "t.topo:14:6: ", "the first is on line 6"),
        (edit("Radix_Down 16", "Radix_Down 15"), "t.topo:25: ", "expected 16"),
        (edit("Radix_Down 16", "Radix_Down 16\nRadix_Up 4"), "t.topo:26: ", "in the top tier"),
        (edit("Radix_Down 16", "Radix_Down 16\nRadix_Down 16"), "t.topo:26:1: ", "line 25"),
        (edit("Gbps 800\n", "Gbps 0\n"), "t.topo:8:21: ", "Downlink_speed_Gbps"),
        (format!("{FT1024_8OS}Nodes 3\n"), "t.topo:29:1: ", "before the first `Tier 0`"),
        (String::new(), "t.topo:1: ", "`Nodes`"),
    ] {
        let error = parse(&text).err().unwrap_or_else(|| panic!("accepted: {text}")).to_string();
        assert!(error.starts_with(place) && error.contains(words), "{place}{words}\n{error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_tree_or_an_error(bytes: Vec<u8>) {
        let _ = read(&bytes[..], "t");
    }

    #[test]
    fn a_mutated_file_gives_a_sound_tree_or_an_error_with_a_line(
        at in 0..FT1024_8OS.len(), byte in prop_oneof![any::<u8>(), b'0'..=b'9'], cut in 0usize..4,
    ) {
        for original in [FT1024_8OS, BUNDLED] {
            let mut text = original.as_bytes().to_vec();
            let at = at % text.len();
            let end = (at + cut).min(text.len());
            text.splice(at..end, [byte]);
            match read(&text[..], "t") {
                Ok(tree) => {
                    prop_assert_eq!(tree.check(), Ok(()));
                    prop_assert_eq!(parse(&to_text(&tree)), Ok(tree));
                }
                Err(error) => prop_assert!(error.line > 0, "{}", error),
            }
        }
    }

    #[test]
    fn trees_of_any_shape_survive_a_file(
        leaves in 1u32..9, spines in 1u32..9, hosts in 1u32..9, gbps in 1u32..900,
        queue in 1u64..1 << 40,
    ) {
        if leaves * hosts >= 2 {
            let name = format!("leaf-spine:{leaves},{spines},{hosts},{gbps}");
            let mut tree = by_name(&name).unwrap();
            tree.tier[0].queue_up = Some(Bytes(queue));
            prop_assert_eq!(parse(&to_text(&tree)), Ok(tree));
        }
    }
}

#[test]
fn speeds_that_are_no_whole_gigabits_are_read_and_written() {
    let plain = to_text(&by_name("leaf-spine:1,1,4,100").unwrap());
    let at = |speed: &str| {
        let key = "Downlink_speed_Gbps";
        parse(&plain.replace(&format!("{key} 100"), &format!("{key} {speed}")))
    };
    for (speed, mbps) in
        [("2.5", 2500_u64), ("0.01", 10), ("100.000", 100_000), ("1e6", 1_000_000_000)]
    {
        let tree = at(speed).unwrap();
        assert_eq!(u64::from(tree.tier[0].downlink_mbps), mbps, "{speed}");
        assert_eq!(tree.tier[0].link_rate(), Rate::from_bps(mbps * 1_000_000));
        assert_eq!(parse(&to_text(&tree)), Ok(tree));
    }
    assert!(to_text(&at("2.5").unwrap()).contains("Downlink_speed_Gbps 2.5\n"));
    for wrong in ["0", "0.0004", "2.5001", "1000000.001", "-1", "fast", "1e300"] {
        let error = at(wrong).unwrap_err().to_string();
        assert!(error.contains("a number in 0.001..=1000000, at most three"), "{wrong}: {error}");
    }
}

#[test]
fn two_sites_are_written_with_their_border_and_read_back() {
    let tree = by_name("two-dc:4,3,46.5us,400").unwrap();
    let text = to_text(&tree);
    assert!(text.contains("Sites 2") && text.contains("Tier 3"), "{text}");
    assert!(text.contains("Uplink_Latency_ns 46500"), "{text}");
    assert_eq!(parse(&text).unwrap(), tree);
}

#[test]
fn several_border_switches_a_site_are_written_and_read_back_and_others_are_refused() {
    let tree = by_name("two-dc-leaf:1ms,100,2,8,3").unwrap();
    let text = to_text(&tree);
    assert!(text.contains("Sites 2\nBorders 3\n"), "{text}");
    assert_eq!(parse(&text), Ok(tree));
    let error = |from: &str, to: &str| parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
    assert!(error("Borders 3", "Borders 2").contains("2 (Bundle of the border switches above"));
    assert!(error("Borders 3", "Borders 65").contains("the border switches of a site"));
    assert!(error("Radix_Up 6", "Radix_Up 7").contains("a multiple of 3 (Borders)"));
    let plain = to_text(&by_name("leaf-spine:4,4,4").unwrap());
    let said = parse(&plain.replacen("Tiers 2", "Tiers 2\nBorders 2", 1)).unwrap_err().to_string();
    assert!(said.contains("Borders 2") && said.contains("Sites 2"), "{said}");
}

#[test]
fn pods_with_cores_are_written_and_read_back_and_cores_without_a_place_are_refused() {
    for name in ["zeropod:8", "zeropod:8,8,7", "zeropod-2x:6,3,1", "zeropod:4,2,16"] {
        let tree = by_name(name).unwrap();
        assert_eq!(parse(&to_text(&tree)), Ok(tree), "{name}");
    }
    let text = to_text(&by_name("zeropod:8,8,7").unwrap());
    let error = |from: &str, to: &str| parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
    for (cores, words) in [("0", "the Core switches"), ("4", "5..=8"), ("9", "5..=8")] {
        let said = error("Cores 7", &format!("Cores {cores}"));
        assert!(said.contains(words), "{cores}: {said}");
    }
    let plain = to_text(&by_name("leaf-spine:4,4,4").unwrap());
    let said = parse(&plain.replacen("Tiers 2", "Tiers 2\nCores 3", 1)).unwrap_err().to_string();
    assert!(said.contains("Cores 3") && said.contains("three tiers"), "{said}");
}

#[test]
fn a_border_that_does_not_fit_is_refused_where_it_stands() {
    let text = to_text(&by_name("two-dc:4").unwrap());
    let error = |from: &str, to: &str| parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
    assert!(error("Sites 2", "Sites 3").contains("sites"));
    assert!(error("Uplink_speed_Gbps 100\n", "").contains("Uplink_speed_Gbps"));
    assert!(error("Radix_Down 16", "Radix_Down 12").contains("16 (top switches of a site"));
    assert!(error("Nodes 32", "Nodes 30").contains("Nodes 30"));
    // Without the second site there is no tier above the cores.
    assert!(error("Sites 2\n", "").contains("a tier"));
    let plain = to_text(&by_name("ft128-1os").unwrap());
    let uplink = plain.replacen("Bundle 1", "Bundle 1\nUplink_speed_Gbps 100", 1);
    assert!(parse(&uplink).unwrap_err().to_string().contains("only the tier above two sites"));
}
