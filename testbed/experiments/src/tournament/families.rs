//! The families of mixes. Each has one function, which draws what its sentence says; all else is
//! two sites of 128 hosts at 100 Gb/s, 1.8 ms apart, as in \[uno\] sec. 5.1, and a queue of a
//! quarter to 4 MB.

use super::draw::Draw;

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
        draw.with("stagger", format!("{us:.0}us"));
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
    "workload", tuning, "flows of drawn sizes inside and across at 20 to 60 % load" => |draw| {
        workload(draw, 400, &["ali-storage"], &["websearch"]);
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
    "dead-link", checking, "pairs across while one of eight links between the sites is dead" =>
        |draw| {
            let count = draw.whole(1, 32);
            pairs(draw, count);
            any_queue(draw);
            draw.set("switch.detection", "never");
            let (link, from) = (draw.whole(1, 8) - 1, draw.whole(1, 3000));
            draw.fault(&[
                ("kind", "down".to_owned()),
                ("link", format!("border:0:up:{link}")),
                ("from_us", from.to_string()),
            ]);
        };
    "permutation", checking, "every host of both sites sends to one and receives from one" =>
        |draw| {
            draw.kind("permutation");
            draw.size("size", 256);
            any_queue(draw);
        };
    "other-sizes", checking, "sizes of other services inside and across at 20 to 60 % load" =>
        |draw| workload(draw, 200, &["hadoop", "google-rpc", "websearch"], &["websearch"]);
}

/// An incast with a drawn queue.
fn incast(draw: &mut Draw, near: u32, far: u32) {
    senders(draw, near, far);
    any_queue(draw);
}

/// So many senders to one host.
fn senders(draw: &mut Draw, near: u32, far: u32) {
    draw.kind("incast-two-dc");
    draw.with("intra", near);
    draw.with("inter", far);
    draw.with("receiver", 240);
    draw.size("size", near + far);
}

/// 20 to 200 short flows over the time that the long ones take at least.
fn mice(draw: &mut Draw) {
    let (count, kib) = (draw.whole(20, 200), draw.whole(4, 128));
    draw.with("mice", count);
    draw.with("mice_size", format!("{kib}KiB"));
    let ms = draw.whole(4, 16);
    draw.with("mice_span", format!("{ms}ms"));
}

/// So many flows across.
fn pairs(draw: &mut Draw, count: u32) {
    draw.kind("pairs-two-dc");
    draw.with("count", count);
    // Eight links join the sites, so twice the bytes of one port take a quarter of its time.
    draw.size("size", count.div_ceil(2));
}

/// So many flows of these distributions inside and across.
fn workload(draw: &mut Draw, flows: u32, inside: &[&str], across: &[&str]) {
    draw.kind("poisson-two-dc");
    let (intra, inter) = (draw.one(inside).to_owned(), draw.one(across).to_owned());
    draw.with("intra_cdf", intra);
    draw.with("inter_cdf", inter);
    let flows = draw.scaled(flows);
    draw.with("flows", flows);
    let load = draw.real(0.2, 0.6);
    draw.with("load", format!("{load:.3}"));
    any_queue(draw);
}

/// A queue of a quarter to 4 MB.
fn any_queue(draw: &mut Draw) {
    let bytes = draw.real(250e3, 4e6);
    draw.queue(bytes);
}
