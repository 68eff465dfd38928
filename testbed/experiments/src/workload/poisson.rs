//! Poisson arrivals: flows of drawn sizes start at random times, so that every host sends at a
//! given load.
//!
//! Each host has a stream of its own. Gaps are exponential, with the mean at which flows of the
//! mean size use `load` of the link. Destinations are drawn evenly from all other hosts. Where
//! hosts are in pods, they are drawn from the host's own pod with a given chance, and else from the
//! other pods (\[zeropod\] V-A). Lines are in order of time.

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
    /// Which flows stay in their pod; `None` where all destinations are alike.
    pub locality: Option<Locality>,
    /// When flows start.
    pub arrivals: PoissonArrivals,
}

/// Hosts in pods, and how many flows stay inside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Locality {
    /// Hosts of a pod, from host 0 on.
    pub pod_hosts: u32,
    /// Share of the flows whose destination is in the pod of their source, 0..=1. Sizes do not
    /// depend on it, so it is their share of the load, too.
    pub intra_share: f64,
}

/// How much every host sends, and until when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoissonArrivals {
    /// Share of the link's rate that is offered, above 0 and at most 1; headers are not counted.
    pub load: f64,
    /// A host's link.
    pub link_rate: Rate,
    /// Flows start before this.
    pub duration: Duration,
    /// The most flows, of all hosts together.
    pub flows: u32,
}

impl Poisson {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "flows of drawn sizes at random times, up to a load";
    /// The parameters that [`Poisson::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "cdf", about: "sizes: a distribution's name, or a file (all the same)" },
        Parameter { name: "size", about: "size of all flows without a cdf (1MiB)" },
        Parameter { name: "pod_hosts", about: "hosts of a pod (all hosts are alike)" },
        Parameter { name: "intra_share", about: "with pod_hosts: share inside a pod (0.8)" },
        PoissonArrivals::LOAD,
        PoissonArrivals::LINK_RATE,
        PoissonArrivals::DURATION,
        PoissonArrivals::FLOWS,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong or the file of the distribution is.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        params.expect_alone("size", "cdf")?;
        let size = params.bytes("size", Bytes(1 << 20))?;
        let sizes = params.cdf("cdf")?.unwrap_or_else(|| Cdf::constant(size));
        let locality = Locality::from_params(params)?;
        Ok(Self { sizes, locality, arrivals: PoissonArrivals::from_params(params)? })
    }
}

impl Locality {
    fn from_params(params: &Params) -> Result<Option<Self>, InputError> {
        if !params.has("pod_hosts") {
            let stray = params.text("intra_share").map(|value| {
                let found = format!("intra_share = `{value}` without pod_hosts");
                params.error("intra_share", &found, "pod_hosts beside it, as pod_hosts = 16")
            });
            return stray.map_or(Ok(None), Err);
        }
        Ok(Some(Self {
            pod_hosts: params.integer("pod_hosts", 1, 1, u32::MAX)?,
            //= zeropod#V-A
            intra_share: params.real("intra_share", 0.8, 0.0, 1.0)?,
        }))
    }

    /// Several pods of the same size; pods of one host send nothing inside.
    fn check(&self, nodes: u32) -> Result<(), InputError> {
        let pods = nodes / self.pod_hosts;
        if pods < 2 || !nodes.is_multiple_of(self.pod_hosts) {
            let found = format!("{nodes} hosts in pods of {}", self.pod_hosts);
            return Err(does_not_fit(found, "two or more pods, all of pod_hosts hosts"));
        }
        if self.pod_hosts == 1 && self.intra_share > 0.0 {
            let found = format!("intra_share = {} in pods of one host", self.intra_share);
            return Err(does_not_fit(found, "intra_share = 0, or larger pods"));
        }
        Ok(())
    }

    fn draw(&self, nodes: u32, src: u32, rng: &mut Rng) -> u32 {
        let first = src / self.pod_hosts * self.pod_hosts;
        if rng.next_f64() < self.intra_share {
            first + other(src - first, self.pod_hosts, rng)
        } else {
            let far = below(nodes - self.pod_hosts, rng);
            if far < first { far } else { far + self.pod_hosts }
        }
    }
}

fn below(count: u32, rng: &mut Rng) -> u32 {
    u32::try_from(rng.below(u64::from(count))).unwrap_or(0)
}

/// One of the numbers below `count` that is not `own`, all alike.
fn other(own: u32, count: u32, rng: &mut Rng) -> u32 {
    let other = below(count - 1, rng);
    if other < own { other } else { other + 1 }
}

impl Workload for Poisson {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        if nodes < 2 {
            return Err(does_not_fit(format!("{nodes} hosts"), "at least two"));
        }
        self.locality.map_or(Ok(()), |locality| locality.check(nodes))?;
        let gap_mean_ps = self.arrivals.gap_mean_ps(self.sizes.mean_bytes());
        let draw = |src: u32, rng: &mut Rng| {
            let dst = match &self.locality {
                None => other(src, nodes, rng),
                Some(locality) => locality.draw(nodes, src, rng),
            };
            (HostId(dst), self.sizes.sample(rng))
        };
        self.arrivals.matrix(nodes, |_| gap_mean_ps, rng, draw)
    }
}

/// What to do about a load that hosts' links do not hold.
const MEND: &str = "a load is a share of link_rate: lower it, or raise link_rate where hosts have \
                    faster links";

impl PoissonArrivals {
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
            load: params.share("load", 0.5, 1e-6, MEND)?,
            link_rate: params.rate("link_rate", Rate::from_gbps(100))?,
            duration: params.time_above_zero("duration", duration)?,
            flows: params.integer("flows", FLOWS_MAX, 1, FLOWS_MAX)?,
        })
    }

    /// Flows that start `gap_mean_ps` apart in the mean at each source, above 0, and whose
    /// destination and size come from `draw`, which is given the source and its stream of chance.
    #[expect(clippy::cast_possible_truncation, reason = "float to integer saturates")]
    #[expect(clippy::cast_sign_loss, reason = "gaps are not negative")]
    pub(super) fn matrix(
        &self,
        nodes: u32,
        gap_mean_ps: impl Fn(u32) -> f64,
        rng: &Rng,
        mut draw: impl FnMut(u32, &mut Rng) -> (HostId, Bytes),
    ) -> Result<Matrix, InputError> {
        self.check_count((0..nodes).map(|src| 1.0 / gap_mean_ps(src)).sum())?;
        // 1 - u is in (0, 1], so the logarithm is finite.
        let gap = |src, rng: &mut Rng| (-libm::log(1.0 - rng.next_f64()) * gap_mean_ps(src)) as u64;
        let mut streams: Vec<Rng> =
            (0..nodes).map(|src| rng.fork("poisson", u64::from(src))).collect();
        let mut next: BinaryHeap<Reverse<(u64, u32)>> =
            (0..nodes).zip(&mut streams).map(|(src, rng)| Reverse((gap(src, rng), src))).collect();
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        while let Some(Reverse((at, src))) = next.pop() {
            if at >= self.duration.as_ps() || matrix.flows.len() >= self.flows as usize {
                break;
            }
            let rng = &mut streams[src as usize];
            let (dst, size) = draw(src, rng);
            let start = Start::At(Duration::from_ps(at));
            matrix.push_flow(FlowSpec { start, ..FlowSpec::new(HostId(src), dst, size) });
            next.push(Reverse((at.saturating_add(gap(src, rng)), src)));
        }
        Ok(matrix)
    }

    /// The mean time between a host's flows, in picoseconds.
    pub(super) fn gap_mean_ps(&self, mean_bytes: f64) -> f64 {
        mean_bytes.max(1.0) * 8.0 / (self.load * bps(self.link_rate)) * 1e12
    }

    #[expect(clippy::cast_precision_loss, reason = "a forecast")]
    fn check_count(&self, flows_a_ps: f64) -> Result<(), InputError> {
        let forecast = self.duration.as_ps() as f64 * flows_a_ps;
        let forecast = forecast.min(f64::from(self.flows));
        // Half the limit leaves room for chance.
        if forecast > f64::from(FLOWS_MAX / 2) {
            let found = format!("about {forecast:.0} flows");
            return Err(does_not_fit(found, "at most 5 10^7; a shorter duration or a lower load"));
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a rate needs no more than 53 bits")]
pub(super) fn bps(rate: Rate) -> f64 {
    rate.as_bps() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_replaces_the_size_of_all_flows() {
        let params = Params::from_pairs([("size", "3"), ("cdf", "websearch")]);
        let said = Poisson::from_params(&params).unwrap_err().to_string();
        assert!(said.starts_with("--size: found size beside cdf"), "{said}");
    }

    fn poisson() -> Poisson {
        Poisson {
            sizes: Cdf::read(&b"1000,0\n9000,1\n"[..], "c").unwrap(),
            locality: None,
            arrivals: PoissonArrivals {
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
    fn so_many_flows_stay_in_their_pod_and_all_destinations_of_a_kind_are_alike() {
        for intra_share in [0.8, 0.0, 1.0] {
            let mut local = poisson();
            local.locality = Some(Locality { pod_hosts: 4, intra_share });
            let matrix = local.generate(16, &mut Rng::new(5)).unwrap();
            let mut seen = [[0u32; 16]; 4];
            for flow in &matrix.flows {
                assert_ne!(flow.src, flow.dst);
                seen[flow.src.0 as usize / 4][flow.dst.0 as usize] += 1;
            }
            let all = matrix.flows.len() as f64;
            let inside = |pod: usize| seen[pod][4 * pod..][..4].iter().sum::<u32>();
            let share = f64::from((0..4).map(inside).sum::<u32>()) / all;
            let sigma = (intra_share * (1.0 - intra_share) / all).sqrt();
            assert!((share - intra_share).abs() <= 3.0 * sigma, "{share} of {all}");
            for (pod, counts) in seen.iter().enumerate() {
                let inside = inside(pod);
                let across = counts.iter().sum::<u32>() - inside;
                for (dst, count) in counts.iter().enumerate() {
                    let (total, ways) = if dst / 4 == pod { (inside, 4) } else { (across, 12) };
                    let mean = f64::from(total) / f64::from(ways);
                    let off = (f64::from(*count) - mean).abs();
                    assert!(off <= 4.5 * mean.sqrt(), "{pod} to {dst}: {count} of {mean}");
                }
            }
        }
    }

    #[test]
    fn pods_and_loads_that_do_not_fit_are_refused() {
        let said = |pairs: &[(&str, &str)], nodes| {
            let made = Poisson::from_params(&Params::from_pairs(pairs.iter().copied()));
            let made = made.and_then(|made| made.generate(nodes, &mut Rng::new(1)));
            made.map_or_else(|error| error.to_string(), |_| String::new())
        };
        assert_eq!(said(&[("pod_hosts", "4"), ("intra_share", "1")], 16), "");
        for (pairs, nodes, words) in [
            (&[("intra_share", "0.5")][..], 16, "pod_hosts beside it"),
            (&[("pod_hosts", "4"), ("intra_share", "1.1")], 16, "a number in 0..=1"),
            (&[("load", "1.5")], 16, "load = `1.5`"),
            (&[("load", "1.5")], 16, "lower it, or raise link_rate"),
            (&[("pod_hosts", "0")], 16, "an integer in 1..="),
            (&[("pod_hosts", "16")], 16, "two or more pods"),
            (&[("pod_hosts", "5")], 16, "16 hosts in pods of 5"),
            (&[("pod_hosts", "1")], 16, "intra_share = 0"),
        ] {
            let said = said(pairs, nodes);
            assert!(said.contains(words), "{pairs:?}: no `{words}` in `{said}`");
        }
        for load in ["0", "-0.1", "abc"] {
            let said = said(&[("load", load)], 16);
            assert!(said.contains(&format!("load = `{load}`")), "{said}");
            assert!(!said.contains("lower it"), "{said}");
        }
    }

    #[test]
    fn a_run_too_long_to_hold_is_refused_at_once() {
        let mut endless = poisson();
        endless.arrivals.duration = Duration::from_s(3600);
        assert!(endless.generate(1024, &mut Rng::new(1)).is_err());
    }
}
