//! One mix under construction: numbers that its family draws, and the variant that they make.

use std::fmt::Write as _;

use transport::Rng;

/// Bytes of a mix at scale 1: 16 ms of a 100 Gb/s port.
const BYTES: f64 = 200e6;

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

    /// The generator of the traffic.
    pub(super) fn kind(&mut self, kind: &'static str) {
        self.kind = kind;
    }

    /// A parameter of the generator.
    pub(super) fn with(&mut self, key: &'static str, value: impl ToString) {
        self.workload.push((key, value.to_string()));
    }

    /// Bytes of each of `flows` flows, a fourth to all of what the mix has for them.
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
