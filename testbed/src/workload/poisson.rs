//! Poisson arrivals: flows of drawn sizes start at random times, so that every host sends at a
//! given load.
//!
//! Each host has a stream of its own: exponential gaps with the mean at which flows of the mean
//! size use `load` of the link, and uniform destinations. Lines are in order of time.

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
    /// Share of the link's rate that is offered, above 0 and at most 1; headers are not counted.
    pub load: f64,
    /// A host's link.
    pub link_rate: Rate,
    /// Flows start before this.
    pub duration: Duration,
}

impl Poisson {
    /// What [`Poisson::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "cdf", about: "file with the sizes' distribution (all of one size)" },
        Parameter { name: "size", about: "size of all flows without a cdf (1MiB)" },
        Parameter { name: "load", about: "share of the link's rate, above 0 up to 1 (0.5)" },
        Parameter { name: "link_rate", about: "a host's link (100Gbps)" },
        Parameter { name: "duration", about: "flows start before this (1ms)" },
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong or the file of the distribution is.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        let size = params.bytes("size", Bytes(1 << 20))?;
        Ok(Self {
            sizes: params.cdf("cdf")?.unwrap_or_else(|| Cdf::constant(size)),
            load: params.real("load", 0.5, 1e-6, 1.0)?,
            link_rate: params.rate("link_rate", Rate::from_gbps(100))?,
            duration: params.duration("duration", Duration::from_ms(1))?,
        })
    }

    /// The mean time between a host's flows, in picoseconds.
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
    fn gap_mean_ps(&self) -> f64 {
        let bits = self.sizes.mean_bytes().max(1.0) * 8.0;
        bits / (self.load * self.link_rate.as_bps() as f64) * 1e12
    }
}

impl Workload for Poisson {
    #[expect(clippy::cast_precision_loss, reason = "a forecast and a bound, not a result")]
    #[expect(clippy::cast_possible_truncation, reason = "float to integer saturates")]
    #[expect(clippy::cast_sign_loss, reason = "gaps are not negative")]
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        if nodes < 2 {
            return Err(does_not_fit(format!("{nodes} hosts"), "at least two"));
        }
        let gap_mean_ps = self.gap_mean_ps();
        let forecast = self.duration.as_ps() as f64 / gap_mean_ps * f64::from(nodes);
        // Half the limit leaves room for chance.
        if forecast > f64::from(FLOWS_MAX / 2) {
            let found = format!("about {forecast:.0} flows");
            return Err(does_not_fit(found, "at most 5 10^7; a shorter duration or a lower load"));
        }
        let mut flows = Vec::new();
        for src in 0..nodes {
            let mut rng = rng.fork("poisson", u64::from(src));
            let mut at = 0u64;
            loop {
                // 1 - u is in (0, 1], so the logarithm is finite.
                let gap = -libm::log(1.0 - rng.next_f64()) * gap_mean_ps;
                at = at.saturating_add(gap as u64);
                if at >= self.duration.as_ps() || flows.len() >= FLOWS_MAX as usize {
                    break;
                }
                let other = u32::try_from(rng.below(u64::from(nodes - 1))).unwrap_or(0);
                let dst = if other < src { other } else { other + 1 };
                let mut flow = FlowSpec::new(HostId(src), HostId(dst), self.sizes.sample(&mut rng));
                flow.start = Start::At(Duration::from_ps(at));
                flows.push((at, flow));
            }
        }
        flows.sort_by_key(|&(at, flow)| (at, flow.src));
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for (_, flow) in flows {
            matrix.push_flow(flow);
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisson() -> Poisson {
        Poisson {
            sizes: Cdf::read(&b"1000,0\n9000,1\n"[..], "c").unwrap(),
            load: 0.6,
            link_rate: Rate::from_gbps(100),
            duration: Duration::from_ms(2),
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
    fn a_run_too_long_to_hold_is_refused_at_once() {
        let endless = Poisson { duration: Duration::from_s(3600), ..poisson() };
        assert!(endless.generate(1024, &mut Rng::new(1)).is_err());
    }
}
