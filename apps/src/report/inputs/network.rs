//! A network as its tiers, hosts at the foot: a box for each switch, or for switches beside each
//! other where there are many, and a line between two boxes with links.

use std::collections::BTreeMap;

use experiments::input::InputError;
use experiments::topology::{FatTree, FatTreeSpec, topo_file};
use plotters::prelude::*;
use plotters::style::text_anchor::HPos;
use serde::{Deserialize, Serialize};

use super::super::legend::{Area, Drawn};
use super::write;

/// A network in boxes and lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NetworkPicture {
    /// The tiers, the hosts first.
    tiers: Vec<Tier>,
    links: Vec<BoxLink>,
    /// What is not drawn, in words; may be empty.
    aside: String,
}

/// A tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Tier {
    /// What the tier consists of, in words.
    about: String,
    /// The boxes from the left: the numbers of what they hold.
    boxes: Vec<String>,
}

/// The links between two boxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct BoxLink {
    /// The tier of the lower box, or of both.
    tier: usize,
    below: u32,
    above: u32,
    /// Whether both are in the same tier.
    level: bool,
    /// How many there are.
    count: u64,
}

/// The most boxes of a tier.
const BOXES: u32 = 24;
/// Pixels of a tier down, of a box, and left of the first one.
const TIER: i32 = 104;
const BOX: (i32, i32) = (36, 22);
const LEFT: i32 = 20;
/// Pixels across the boxes.
const ACROSS: i32 = 960;
/// Pixels above the first tier.
const TOP: u32 = 36;

/// The hosts of a network that is written as a `.topo` file.
pub(super) fn hosts(text: &str) -> Result<u32, InputError> {
    Ok(topo_file::read(text.as_bytes(), "network of manifest.json")?.nodes)
}

impl NetworkPicture {
    /// The picture of the network of a `.topo` file.
    pub(super) fn read(text: &str) -> Result<Self, InputError> {
        let name = "network of manifest.json";
        let spec = topo_file::read(text.as_bytes(), name)?;
        let tree = FatTree::new(spec)
            .map_err(|error| InputError::new(error.to_string(), "a network").at(name, 0, 0))?;
        Ok(Self::of(&tree))
    }

    fn of(tree: &FatTree) -> Self {
        let spec = tree.spec();
        // Hosts of a ToR stay together.
        let groups: Vec<u32> = (0..spec.levels()).map(|tier| in_a_box(spec, tier)).collect();
        let radix = spec.tier[0].radix_down.max(1);
        let hosts = if spec.nodes <= BOXES { 1 } else { radix * groups[0] };
        let mut tiers =
            vec![Tier { about: format!("{} hosts", spec.nodes), boxes: boxes(spec.nodes, hosts) }];
        for (tier, group) in (0..).zip(&groups) {
            tiers
                .push(Tier { about: about(spec, tier), boxes: boxes(spec.switches(tier), *group) });
        }
        // Tier, lower box, upper box.
        let mut links: BTreeMap<(usize, u32, u32), u64> = BTreeMap::new();
        for host in 0..spec.nodes {
            *links.entry((0, host / hosts, host / radix / groups[0])).or_default() += 1;
        }
        for link in tree.uplinks() {
            let tier = usize::from(link.tier);
            let above = groups.get(tier + 1).unwrap_or(&groups[tier]);
            let key = (tier + 1, link.below / groups[tier], link.above / above);
            *links.entry(key).or_default() += 1;
        }
        let level = |tier: usize| tier == usize::from(spec.levels());
        let link = |((tier, below, above), count)| BoxLink {
            tier,
            below,
            above,
            level: level(tier),
            count,
        };
        let aside = match spec.schedulers {
            0 => String::new(),
            1 => "each pod has a scheduler with a link to every ToR and aggregation switch"
                .to_owned(),
            _ => "each pod has a scheduler and a backup of it, with a link to every ToR and \
                  aggregation switch"
                .to_owned(),
        };
        Self { tiers, links: links.into_iter().map(link).collect(), aside }
    }

    /// Pixels down.
    pub(super) fn height(&self) -> u32 {
        let tiers = i32::try_from(self.tiers.len()).unwrap_or(1);
        TOP + u32::try_from(tiers * TIER).unwrap_or(0) + if self.aside.is_empty() { 8 } else { 28 }
    }

    /// The middle of a box.
    fn place(&self, tier: usize, at: u32) -> (i32, i32) {
        let count = i32::try_from(self.tiers[tier].boxes.len()).unwrap_or(1).max(1);
        let at = i32::try_from(at).unwrap_or(0);
        let from_top = i32::try_from(self.tiers.len() - 1 - tier).unwrap_or(0);
        let x = LEFT + ACROSS * (2 * at + 1) / (2 * count);
        (x, i32::try_from(TOP).unwrap_or(0) + from_top * TIER + 40)
    }

    /// Draws the network, with what distinguishes its `runs` above.
    pub(super) fn draw(&self, area: &Area<'_>, runs: &str) -> Drawn {
        let of = if runs.is_empty() { String::new() } else { format!(" ({runs})") };
        let middle = LEFT + ACROSS / 2;
        write(area, &format!("Network{of}"), (middle, 12), (15, HPos::Center))?;
        for link in &self.links {
            let upper = link.tier + usize::from(!link.level);
            let ends = [self.place(link.tier, link.below), self.place(upper, link.above)];
            let width = if link.count > 1 { 2 } else { 1 };
            let style = RGBColor(0, 114, 178).mix(0.35).stroke_width(width);
            area.draw(&PathElement::new(ends, style))?;
        }
        for (number, tier) in self.tiers.iter().enumerate() {
            for (at, text) in (0..).zip(&tier.boxes) {
                let (x, y) = self.place(number, at);
                let half = (BOX.0 / 2, BOX.1 / 2);
                let corners = [(x - half.0, y - half.1), (x + half.0, y + half.1)];
                let fill =
                    if number == 0 { RGBColor(255, 244, 220) } else { RGBColor(230, 240, 250) };
                area.draw(&Rectangle::new(corners, fill.filled()))?;
                area.draw(&Rectangle::new(corners, BLACK.mix(0.6).stroke_width(1)))?;
                let letter = if text.chars().count() > 6 { 8 } else { 11 };
                write(area, text, (x, y), (letter, HPos::Center))?;
            }
            let (_, y) = self.place(number, 0);
            let letters = i32::try_from(tier.about.chars().count()).unwrap_or(0);
            let behind = [(LEFT - 2, y - 30), (LEFT + letters * 13 / 2, y - 14)];
            area.draw(&Rectangle::new(behind, WHITE.mix(0.85).filled()))?;
            write(area, &tier.about, (LEFT, y - 22), (12, HPos::Left))?;
        }
        let (_, y) = self.place(0, 0);
        write(area, &self.aside, (LEFT, y + 34), (12, HPos::Left))
    }
}

/// How many switches of a tier share a box: parts of a pod, or of what else a tier is divided in,
/// or several of those.
fn in_a_box(spec: &FatTreeSpec, tier: u8) -> u32 {
    let count = spec.switches(tier).max(1);
    let part = match tier {
        0 => spec.tors_per_pod(),
        1 => spec.aggs_per_pod(),
        _ => count,
    };
    let part = part.max(1);
    let sizes = (1..=part).filter(|size| part.is_multiple_of(*size));
    let whole = count / part;
    let more = (1..=whole).filter(|size| whole.is_multiple_of(*size)).map(|size| part * size);
    sizes.chain(more).find(|size| count.div_ceil(*size) <= BOXES).unwrap_or(count)
}

/// The texts of boxes that hold `group` of `count` things each.
fn boxes(count: u32, group: u32) -> Vec<String> {
    let numbers = (0..count).step_by(usize::try_from(group.max(1)).unwrap_or(1));
    let text = |first: u32| match (first + group).min(count) - 1 {
        last if last == first => first.to_string(),
        last => format!("{first}-{last}"),
    };
    numbers.map(text).collect()
}

/// A tier of switches in words.
fn about(spec: &FatTreeSpec, tier: u8) -> String {
    let numbers = &spec.tier[usize::from(tier)];
    let count = spec.switches(tier);
    let is_border = tier == spec.tiers;
    let name = match tier {
        _ if is_border => "border",
        0 => "ToR",
        1 if spec.tiers == 2 => "spine",
        1 => "aggregation",
        _ => "core",
    };
    let pods = match tier {
        0 | 1 if spec.pods() > 1 => format!(" in {} pods", spec.pods()),
        _ => String::new(),
    };
    let mut text = format!(
        "{count} {name} switches{pods}, {} ports down of {} Gb/s and {} ns",
        numbers.radix_down,
        numbers.downlink_gbps(),
        numbers.downlink_latency_ns
    );
    if tier + 1 < spec.levels() {
        text += &format!(", {} up", numbers.radix_up);
    }
    if spec.oversubscription(tier) > 1 {
        text += &format!(", oversubscribed {}:1", spec.oversubscription(tier));
    }
    match &spec.wan {
        Some(wan) if is_border => format!(
            "{text}; {} links of {} Gb/s and {} us between the sites",
            numbers.radix_up * wan.borders,
            wan.gbps,
            f64::from(wan.latency_ns) / 1e3
        ),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use experiments::topology::by_name;

    use super::*;

    fn named(name: &str) -> NetworkPicture {
        NetworkPicture::read(&topo_file::to_text(&by_name(name).unwrap())).unwrap()
    }

    #[test]
    fn a_small_network_has_a_box_for_each_host_and_switch() {
        let network = named("leaf-spine:4,4,4");
        let boxes: Vec<usize> = network.tiers.iter().map(|tier| tier.boxes.len()).collect();
        assert_eq!(boxes, [16, 4, 4]);
        assert_eq!(network.links.iter().map(|link| link.count).sum::<u64>(), 16 + 16);
        assert_eq!(hosts(&topo_file::to_text(&by_name("leaf-spine:4,4,4").unwrap())).unwrap(), 16);
    }

    #[test]
    fn every_link_of_a_large_network_is_in_a_line_between_two_boxes() {
        for name in ["ft1024-8os", "two-dc", "zeropod:8,2,3"] {
            let tree = FatTree::new(by_name(name).unwrap()).unwrap();
            let network = NetworkPicture::of(&tree);
            let count = |of: &Tier| of.boxes.len();
            assert!(network.tiers.iter().all(|tier| count(tier) <= BOXES as usize), "{name}");
            let drawn: u64 = network.links.iter().map(|link| link.count).sum();
            let all = u64::from(tree.spec().nodes) + tree.uplinks().count() as u64;
            assert_eq!(drawn, all, "{name}");
            for link in &network.links {
                let upper = link.tier + usize::from(!link.level);
                assert!(
                    (link.below as usize) < count(&network.tiers[link.tier]),
                    "{name}: {link:?}"
                );
                assert!((link.above as usize) < count(&network.tiers[upper]), "{name}: {link:?}");
            }
            let draw = |area: &Area<'_>| network.draw(area, "");
            let picture =
                super::super::picture((super::super::WIDTH, network.height()), draw).unwrap();
            for tier in &network.tiers {
                assert!(picture.contains(&tier.about), "{name}: no {}", tier.about);
            }
        }
    }
}
