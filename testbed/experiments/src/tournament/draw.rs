//! One mix under construction: numbers that its family draws, and the variant that they make.

use std::fmt::Write as _;

use transport::Rng;

/// Most bytes that a mix has for one port at scale 1: 16 ms of a line of 100 Gb/s.
const BYTES: f64 = 200e6;

/// Hosts of both sites of [`Draw::small_network`].
pub(super) const SMALL_HOSTS: f64 = 32.0;

/// A mix that is being drawn.
pub(super) struct Draw {
    rng: Rng,
    scale: f64,
    topology: String,
    kind: &'static str,
    workload: Vec<(&'static str, String)>,
    set: Vec<(&'static str, String)>,
    faults: Vec<Vec<(&'static str, String)>>,
}

impl Draw {
    pub(super) fn new(rng: Rng, scale: f64) -> Self {
        let mut draw = Self {
            rng,
            scale,
            topology: String::new(),
            kind: "",
            workload: Vec::new(),
            set: Vec::new(),
            faults: Vec::new(),
        };
        draw.network(128.0, 100);
        draw
    }

    /// A real number in `least..=most`, as likely in each of two octaves.
    pub(super) fn real(&mut self, least: f64, most: f64) -> f64 {
        least * libm::pow(most / least, self.rng.next_f64())
    }

    /// A whole number in `least..=most`, as likely in each of two octaves.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    pub(super) fn whole(&mut self, least: u32, most: u32) -> u32 {
        let drawn = self.real(f64::from(least), f64::from(most) + 1.0);
        (drawn as u32).clamp(least, most)
    }

    /// One of `choices`, which are not empty.
    pub(super) fn one<T: Copy>(&mut self, choices: &[T]) -> T {
        let at = self.rng.below(choices.len() as u64);
        choices[usize::try_from(at).unwrap_or(0)]
    }

    /// Two sites of 128 hosts with lines of `gbps`, whose RTT is `ratio` times that inside.
    pub(super) fn network(&mut self, ratio: f64, gbps: u32) {
        // 14 us is the RTT inside; 19 us of the one across are not spent on the cable.
        self.topology = format!("two-dc:8,8,{:.1}us,{gbps}", 7.0 * ratio - 9.5);
    }

    /// Two sites of 16 hosts with lines of 100 Gb/s, as far apart as those of 128 hosts. A load of
    /// all hosts takes an eighth of the bytes there. The eight links between the sites carry what
    /// the hosts send.
    pub(super) fn small_network(&mut self) {
        self.network(128.0, 100);
        self.topology = self.topology.replacen("two-dc:8", "two-dc:4", 1);
    }

    /// A network of one site, by its name.
    pub(super) fn site(&mut self, name: &str) {
        name.clone_into(&mut self.topology);
    }

    /// The generator of the traffic.
    pub(super) fn kind(&mut self, kind: &'static str) {
        self.kind = kind;
    }

    /// A parameter of the generator.
    pub(super) fn with(&mut self, key: &'static str, value: impl ToString) {
        self.workload.push((key, value.to_string()));
    }

    /// A parameter of the generator that is a time, `us` at scale 1: it follows the bytes, so that
    /// mixes of any scale look alike.
    pub(super) fn time(&mut self, key: &'static str, us: f64) {
        let us = self.scaled_us(us);
        self.with(key, format!("{us:.3}us"));
    }

    /// A time that grows with the scale of the mix, microseconds.
    pub(super) fn scaled_us(&self, us: f64) -> f64 {
        us * self.scale
    }

    /// Bytes of each of `flows` flows that share a port, a fourth to all of what the mix has for
    /// it.
    pub(super) fn size(&mut self, key: &'static str, flows: u32) {
        let share = self.real(0.25, 1.0) * BYTES * self.scale / f64::from(flows.max(1));
        self.with(key, format!("{:.0}", share.max(1.0)));
    }

    /// A count that grows with the scale of the mix, at least 8.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
    pub(super) fn scaled(&self, count: u32) -> u32 {
        ((f64::from(count) * self.scale) as u32).max(8)
    }

    /// Bytes that a port buffers.
    pub(super) fn queue(&mut self, bytes: f64) {
        self.set.push(("switch.queue", format!("{bytes:.0}")));
    }

    /// Any other setting.
    pub(super) fn set(&mut self, key: &'static str, value: &str) {
        self.set.push((key, value.to_owned()));
    }

    /// A fault by its keys.
    pub(super) fn fault(&mut self, keys: &[(&'static str, String)]) {
        self.faults.push(keys.to_vec());
    }

    /// The settings that have been drawn.
    pub(super) fn drawn(&self) -> Vec<&'static str> {
        self.set.iter().map(|(key, _)| *key).collect()
    }

    /// The variant of this name.
    pub(super) fn variant(&mut self, name: &str) -> String {
        let seed = self.rng.next_u64() >> 33;
        let mut text = format!(
            "[[variant]]\nname = \"{name}\"\ntopology = \"{}\"\nseed = {seed}\n\
             [variant.workload]\nkind = \"{}\"\n",
            self.topology, self.kind
        );
        let lines = |text: &mut String, pairs: &[(&'static str, String)]| {
            for (key, value) in pairs {
                // Writing to a String does not fail.
                let _ = writeln!(text, "{key} = \"{value}\"");
            }
        };
        lines(&mut text, &self.workload);
        text.push_str("[variant.set]\n");
        lines(&mut text, &self.set);
        for fault in &self.faults {
            text.push_str("[[variant.fault]]\n");
            lines(&mut text, fault);
        }
        text
    }
}
