//! The families of mixes. Each has one function, which draws what its sentence says. All else is
//! alike: two sites of 128 hosts at 100 Gb/s, a round trip of 1.8 ms between them, as in \[uno\]
//! sec. 5.1, and a queue of a quarter to 4 MB. All-to-alls have a network of one site instead, of
//! 100 to 800 Gb/s, at 1:1 to 8:1. Counts of bytes and times are those of scale 1, and follow the
//! scale.

use super::draw::{Draw, SMALL_HOSTS};
use crate::workload::distributions;

/// A family of mixes.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// The name on the command line and in results.
    pub name: &'static str,
    /// The mixes, as one phrase.
    pub about: &'static str,
    /// Whether the family is set aside for checking.
    pub aside: bool,
    pub(super) draw: fn(&mut Draw),
}

macro_rules! families {
    ($($name:literal, $aside:ident, $about:literal => $draw:expr;)+) => {
        /// Every family, those of tuning first.
        pub const FAMILIES: &[Family] = &[$(Family {
            name: $name,
            about: $about,
            aside: families!(@ $aside),
            draw: $draw,
        }),+];
    };
    (@ tuning) => { false };
    (@ checking) => { true };
}

families! {
    "near-incast", tuning, "2 to 64 senders of the receiver's site" => |draw| {
        let near = draw.whole(2, 64);
        incast(draw, near, 0);
    };
    "far-incast", tuning, "2 to 64 senders of the other site" => |draw| {
        let far = draw.whole(2, 64);
        incast(draw, 0, far);
    };
    "mixed-incast", tuning, "1 to 32 senders of each site" => |draw| {
        let (near, far) = (draw.whole(1, 32), draw.whole(1, 32));
        incast(draw, near, far);
    };
    "staggered", tuning, "1 to 16 senders of each site that start within 1 to 20 ms" => |draw| {
        let (near, far) = (draw.whole(1, 16), draw.whole(1, 16));
        incast(draw, near, far);
        let us = draw.real(1000.0, 20_000.0);
        draw.time("stagger", us);
    };
    "mice", tuning, "short flows beside 1 to 8 long ones of each site" => |draw| {
        let (near, far) = (draw.whole(1, 8), draw.whole(1, 8));
        incast(draw, near, far);
        mice(draw);
    };
    "pairs", tuning, "4 to 64 flows across, each with hosts of its own" => |draw| {
        let count = draw.whole(4, 64);
        pairs(draw, count);
        any_queue(draw);
    };
    "workload", tuning, "flows of drawn sizes inside and across sites of 16 hosts for 2 to 4 ms" =>
        |draw| workload(draw, &["ali-storage"], &["websearch"]);
    "all-to-all", tuning, "128 hosts at 1:1, 4:1 or 8:1 to all others, 2 to 32 flows at a time" =>
        |draw| {
            let site = draw.one(&["ft128-1os", "ft128-4os", "ft128-8os"]);
            draw.site(site);
            draw.kind("all-to-all");
            let window = draw.whole(2, 32);
            draw.with("window", window);
            draw.size("size", 128);
            any_queue(draw);
        };
    "lopsided", checking, "1 sender of a site against 2 to 48 of the other" => |draw| {
        let others = draw.whole(2, 48);
        let (near, far) = draw.one(&[(1, others), (others, 1)]);
        incast(draw, near, far);
    };
    "distance", checking, "a mixed incast over sites 2 to 512 times as far apart as hosts inside" =>
        |draw| {
            let (near, far) = (draw.whole(1, 16), draw.whole(1, 16));
            incast(draw, near, far);
            let ratio = draw.real(2.0, 512.0);
            draw.network(ratio, 100);
        };
    "queues", checking, "a mixed incast over queues of 0.1 to 4 BDP of a flow inside or across" =>
        |draw| {
            let (near, far) = (draw.whole(1, 16), draw.whole(1, 16));
            senders(draw, near, far);
            let (bdps, bdp) = (draw.real(0.1, 4.0), draw.one(&[175e3, 175e3, 22.4e6]));
            draw.queue(bdps * bdp);
        };
    "rates", checking, "a mixed incast over lines of 25 to 400 Gb/s" => |draw| {
        let (near, far) = (draw.whole(1, 16), draw.whole(1, 16));
        incast(draw, near, far);
        let gbps = draw.one(&[25, 50, 200, 400]);
        draw.network(128.0, gbps);
    };
    "leaving", checking, "a mixed incast in which every second flow ends early" => |draw| {
        let (near, far) = (draw.whole(2, 24), draw.whole(2, 24));
        incast(draw, near, far);
        draw.with("leave", "on");
    };
    "losses", checking, "pairs across links that lose 1 of 100,000 to 1 of 500 packets" => |draw| {
        let count = draw.whole(1, 32);
        pairs(draw, count);
        any_queue(draw);
        let rate = format!("{:.6}", draw.real(1e-5, 2e-3));
        match draw.one(&[false, true]) {
            false => draw.fault(&[
                ("kind", "loss".to_owned()),
                ("rate", rate),
                ("link", "border".to_owned()),
            ]),
            true => draw.fault(&[
                ("kind", "burst-loss".to_owned()),
                ("rate", rate),
                ("burst", "8".to_owned()),
                ("link", "border".to_owned()),
            ]),
        }
    };
    "dead-link", checking, "pairs across while one of eight links is dead in their direction" =>
        |draw| {
            let count = draw.whole(1, 32);
            pairs(draw, count);
            any_queue(draw);
            draw.set("switch.detection", "never");
            let (link, us) = (draw.one(&[0, 1, 2, 3, 4, 5, 6, 7]), draw.real(1.0, 3000.0));
            let from = draw.scaled_us(us);
            draw.fault(&[
                ("kind", "down".to_owned()),
                ("link", format!("border:0:up:{link}")),
                ("from_us", format!("{from:.3}")),
            ]);
        };
    "permutation", checking, "every host of both sites sends to one and receives from one" =>
        |draw| {
            draw.kind("permutation");
            draw.size("size", 256);
            any_queue(draw);
        };
    "uneven-all-to-all", checking, "32 or 64 hosts at 4:1 or 8:1 to all others, sizes drawn" =>
        |draw| {
            let sites = ["leaf-spine:4,1,8,400", "leaf-spine:8,2,8,200", "leaf-spine:4,4,8,100"];
            let site = draw.one(&sites);
            draw.site(site);
            draw.kind("all-to-all-v");
            let window = draw.whole(2, 16);
            draw.with("window", window);
            draw.with("size_min", 1);
            draw.size("size_max", 64);
            any_queue(draw);
        };
    "other-sizes", checking, "sizes of other services inside and across for 2 to 4 ms" => |draw| {
        let across = ["hadoop-abm", "hadoop", "ali-storage"];
        workload(draw, &["hadoop", "google-rpc"], &across);
    };
}

/// An incast with a drawn queue.
fn incast(draw: &mut Draw, near: u32, far: u32) {
    senders(draw, near, far);
    any_queue(draw);
}

/// `near` and `far` senders to one host.
fn senders(draw: &mut Draw, near: u32, far: u32) {
    draw.kind("incast-two-dc");
    draw.with("intra", near);
    draw.with("inter", far);
    draw.with("receiver", 240);
    draw.size("size", near + far);
}

/// 20 to 200 short flows over the time that the long ones take at least. None is longer than what
/// results count as short (100,000 bytes), so that they have a measure of their own.
fn mice(draw: &mut Draw) {
    let (count, kib) = (draw.whole(20, 200), draw.whole(4, 96));
    let count = draw.scaled(count);
    draw.with("mice", count);
    draw.with("mice_size", format!("{kib}KiB"));
    let us = draw.real(4000.0, 16_000.0);
    draw.time("mice_span", us);
}

/// `count` flows across, each between two hosts of its own.
fn pairs(draw: &mut Draw, count: u32) {
    draw.kind("pairs-two-dc");
    draw.with("count", count);
    // Eight links join the sites: twice the bytes of one port, in all, take a quarter of its time.
    draw.size("size", count.div_ceil(2));
}

/// Flows of these distributions inside and across, that arrive for 2 to 4 ms at 20 to 60 % of what
/// the hosts' lines carry.
fn workload(draw: &mut Draw, inside: &[&'static str], across: &[&'static str]) {
    draw.kind("poisson-two-dc");
    draw.small_network();
    let (intra, inter) = (draw.one(inside), draw.one(across));
    draw.with("intra_cdf", intra);
    draw.with("inter_cdf", inter);
    let (load, us) = (draw.real(0.2, 0.6), draw.real(2000.0, 4000.0));
    draw.with("load", format!("{load:.3}"));
    // Four flows of five stay inside (uno#5.1). At small scales the time is what some flows take.
    let mean_bytes = 0.8 * mean_of(intra) + 0.2 * mean_of(inter);
    let flows_a_us = SMALL_HOSTS * load * LINE_BYTES_A_US / mean_bytes;
    let us = draw.scaled_us(us).max(FLOWS_LEAST / flows_a_us);
    draw.with("duration", format!("{us:.3}us"));
    any_queue(draw);
}

/// Bytes that a line of 100 Gb/s carries in a microsecond.
const LINE_BYTES_A_US: f64 = 12_500.0;

/// The least expected number of flows of a workload: with so many, the chance of no flow at all is
/// one in ten million.
const FLOWS_LEAST: f64 = 16.0;

/// The mean size of a distribution that comes with the program, bytes; a test checks that families
/// name only such distributions.
fn mean_of(name: &str) -> f64 {
    let cdf = distributions::by_name(name).and_then(|known| known.cdf().ok());
    cdf.map_or(1e6, |cdf| cdf.mean_bytes())
}

/// A queue of a quarter to 4 MB.
fn any_queue(draw: &mut Draw) {
    let bytes = draw.real(250e3, 4e6);
    draw.queue(bytes);
}
