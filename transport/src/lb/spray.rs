//! Oblivious packet spraying: every segment takes a path drawn uniformly, whatever became of the
//! others. Source: \[rps\] as \[smartt\] sec. III-A compares it. No state but the number of paths.

use super::{LbParams, LoadBalancer, PathFeedback, draw};
use crate::rng::Rng;
use crate::time::Instant;
use crate::units::EntropyValue;

/// Draws a path per segment.
#[derive(Clone, Debug)]
pub struct Spray {
    paths: u16,
}

impl Spray {
    /// Sprays over `params.paths`.
    #[must_use]
    pub const fn new(params: &LbParams) -> Self {
        Self { paths: params.paths }
    }
}

impl LoadBalancer for Spray {
    fn next_ev(&mut self, _now: Instant, rng: &mut Rng) -> EntropyValue {
        draw(self.paths, rng)
    }
    fn on_feedback(&mut self, _ev: EntropyValue, _what: PathFeedback, _now: Instant) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spraying_reaches_every_path_about_equally() {
        let mut rng = Rng::new(3);
        let mut spray = Spray::new(&LbParams { paths: 16, ..LbParams::default() });
        let mut counts = [0_u32; 16];
        for _ in 0..16_000 {
            let ev = spray.next_ev(Instant::ZERO, &mut rng);
            counts[usize::from(ev.0 - 49_152)] += 1;
        }
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
