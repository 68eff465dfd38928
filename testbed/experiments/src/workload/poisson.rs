//! Poisson arrivals: flows of drawn sizes start at random times, so that every host sends at a
//! given load.
//!
//! Each host has a stream of its own: exponential gaps with the mean at which flows of the mean
//! size use `load` of the link, and uniform destinations. Lines are in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use transport::{Bytes, Duration, HostId, Rate, Rng};

use super::cdf::Cdf;
use super::matrix::{FLOWS_MAX, FlowSpec, Matrix, Start};
use super::params::{Parameter, Params};
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of Poisson traffic.
#[derive(Clone, Debug, PartialEq)]
pub struct Poisson {
    /// Sizes of flows.
    pub sizes: Cdf,
    /// When they start.
    pub arrivals: Arrivals,
}

/// How much every host sends, and until when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Arrivals {
    /// Share of the link's rate that is offered, above 0 and at most 1; headers are not counted.
    pub load: f64,
    /// A host's link.
    pub link_rate: Rate,
    /// Flows start before this.
    pub duration: Duration,
    /// The first so many of them, of all hosts together.
    pub flows: u32,
}

impl Poisson {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "flows of drawn sizes at random times, up to a load";
    /// The parameters that [`Poisson::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "cdf", about: "sizes: a distribution's name, or a file (all the same)" },
        Parameter { name: "size", about: "size of all flows without a cdf (1MiB)" },
        Arrivals::LOAD,
        Arrivals::LINK_RATE,
        Arrivals::DURATION,
        Arrivals::FLOWS,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong or the file of the distribution is.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        let size = params.bytes("size", Bytes(1 << 20))?;
        let sizes = params.cdf("cdf")?.unwrap_or_else(|| Cdf::constant(size));
        Ok(Self { sizes, arrivals: Arrivals::from_params(params)? })
    }
}

impl Workload for Poisson {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        if nodes < 2 {
            return Err(does_not_fit(format!("{nodes} hosts"), "at least two"));
        }
        self.arrivals.matrix(nodes, self.sizes.mean_bytes(), rng, |src, rng| {
            let other = u32::try_from(rng.below(u64::from(nodes - 1))).unwrap_or(0);
            let dst = if other < src { other } else { other + 1 };
            (HostId(dst), self.sizes.sample(rng))
        })
    }
}

impl Arrivals {
    pub(super) const LOAD: Parameter =
        Parameter { name: "load", about: "share of the link's rate, above 0 up to 1 (0.5)" };
    pub(super) const LINK_RATE: Parameter =
        Parameter { name: "link_rate", about: "a host's link (100Gbps)" };
    pub(super) const DURATION: Parameter =
        Parameter { name: "duration", about: "flows start before this (1ms; any with `flows`)" };
    pub(super) const FLOWS: Parameter =
        Parameter { name: "flows", about: "only the first so many flows (all)" };

    /// Reads the four.
    pub(super) fn from_params(params: &Params) -> Result<Self, InputError> {
        let endless = params.has("flows");
        let duration = if endless { Duration::MAX } else { Duration::from_ms(1) };
        Ok(Self {
            load: params.real("load", 0.5, 1e-6, 1.0)?,
            link_rate: params.rate("link_rate", Rate::from_gbps(100))?,
            duration: params.duration("duration", duration)?,
            flows: params.integer("flows", FLOWS_MAX, 1, FLOWS_MAX)?,
        })
    }

    /// Flows of `mean_bytes` in the mean whose destination and size come from `draw`, which is
    /// given the source and its stream of chance.
    #[expect(clippy::cast_possible_truncation, reason = "float to integer saturates")]
    #[expect(clippy::cast_sign_loss, reason = "gaps are not negative")]
    pub(super) fn matrix(
        &self,
        nodes: u32,
        mean_bytes: f64,
        rng: &Rng,
        mut draw: impl FnMut(u32, &mut Rng) -> (HostId, Bytes),
    ) -> Result<Matrix, InputError> {
        let gap_mean_ps = self.gap_mean_ps(mean_bytes);
        self.check_count(nodes, gap_mean_ps)?;
        // 1 - u is in (0, 1], so the logarithm is finite.
        let gap = |rng: &mut Rng| (-libm::log(1.0 - rng.next_f64()) * gap_mean_ps) as u64;
        let mut streams: Vec<Rng> =
            (0..nodes).map(|src| rng.fork("poisson", u64::from(src))).collect();
        let mut next: BinaryHeap<Reverse<(u64, u32)>> =
            (0..nodes).zip(&mut streams).map(|(src, rng)| Reverse((gap(rng), src))).collect();
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        while let Some(Reverse((at, src))) = next.pop() {
            if at >= self.duration.as_ps() || matrix.flows.len() >= self.flows as usize {
                break;
            }
            let rng = &mut streams[src as usize];
            let (dst, size) = draw(src, rng);
            let start = Start::At(Duration::from_ps(at));
            matrix.push_flow(FlowSpec { start, ..FlowSpec::new(HostId(src), dst, size) });
            next.push(Reverse((at.saturating_add(gap(rng)), src)));
        }
        Ok(matrix)
    }

    /// The mean time between a host's flows, in picoseconds.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
    fn gap_mean_ps(&self, mean_bytes: f64) -> f64 {
        mean_bytes.max(1.0) * 8.0 / (self.load * self.link_rate.as_bps() as f64) * 1e12
    }

    #[expect(clippy::cast_precision_loss, reason = "a forecast")]
    fn check_count(&self, nodes: u32, gap_mean_ps: f64) -> Result<(), InputError> {
        let forecast = self.duration.as_ps() as f64 / gap_mean_ps * f64::from(nodes);
        let forecast = forecast.min(f64::from(self.flows));
        // Half the limit leaves room for chance.
        if forecast > f64::from(FLOWS_MAX / 2) {
            let found = format!("about {forecast:.0} flows");
            return Err(does_not_fit(found, "at most 5 10^7; a shorter duration or a lower load"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisson() -> Poisson {
        Poisson {
            sizes: Cdf::read(&b"1000,0\n9000,1\n"[..], "c").unwrap(),
            arrivals: Arrivals {
                load: 0.6,
                link_rate: Rate::from_gbps(100),
                duration: Duration::from_ms(2),
                flows: FLOWS_MAX,
            },
        }
    }

    #[test]
    fn the_load_is_offered_evenly() {
        let matrix = poisson().generate(16, &mut Rng::new(5)).unwrap();
        let capacity = Rate::from_gbps(100).bytes_in(Duration::from_ms(2)).0 * 16;
        let load = matrix.total_bytes().0 as f64 / capacity as f64;
        assert!((0.57..0.63).contains(&load), "{load}");
        let starts = matrix.flows.windows(2).all(|pair| match (pair[0].start, pair[1].start) {
            (Start::At(a), Start::At(b)) => a <= b && b < Duration::from_ms(2),
            _ => false,
        });
        assert!(starts);
    }

    #[test]
    fn another_host_does_not_change_the_arrivals_of_the_first() {
        let starts = |nodes| -> Vec<Start> {
            let matrix = poisson().generate(nodes, &mut Rng::new(5)).unwrap();
            matrix.flows.iter().filter(|f| f.src == HostId(0)).map(|f| f.start).collect()
        };
        assert_eq!(starts(4), starts(5));
    }

    #[test]
    fn gaps_are_exponential_and_no_host_waits_for_another() {
        let matrix = poisson().generate(16, &mut Rng::new(5)).unwrap();
        let mean = poisson().arrivals.gap_mean_ps(poisson().sizes.mean_bytes());
        let mut gaps = Vec::new();
        for src in 0..16 {
            let own = matrix.flows.iter().filter(|flow| flow.src == HostId(src));
            let mut before = 0;
            for flow in own {
                let Start::At(at) = flow.start else { panic!("a trigger") };
                gaps.push((at.as_ps() - before) as f64 / mean);
                before = at.as_ps();
            }
        }
        gaps.sort_by(f64::total_cmp);
        let n = gaps.len() as f64;
        // Kolmogorov-Smirnov against 1 - exp(-x), at one seed in a hundred.
        let distance = gaps.iter().enumerate().fold(0.0f64, |worst, (at, gap)| {
            let expected = 1.0 - libm::exp(-gap);
            worst.max((expected - at as f64 / n).abs()).max((at as f64 + 1.0) / n - expected)
        });
        assert!(distance < 1.63 / n.sqrt(), "{distance} of {n}");
    }

    #[test]
    fn the_first_flows_are_those_of_a_longer_run() {
        let mut short = poisson();
        let all = short.generate(16, &mut Rng::new(5)).unwrap();
        (short.arrivals.flows, short.arrivals.duration) = (100, Duration::MAX);
        let first = short.generate(16, &mut Rng::new(5)).unwrap();
        assert_eq!(first.flows, all.flows[..100]);
    }

    #[test]
    fn a_run_too_long_to_hold_is_refused_at_once() {
        let mut endless = poisson();
        endless.arrivals.duration = Duration::from_s(3600);
        assert!(endless.generate(1024, &mut Rng::new(1)).is_err());
    }
}
