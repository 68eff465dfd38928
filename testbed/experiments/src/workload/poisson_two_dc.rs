//! Poisson arrivals inside and between two datacentres: each flow stays with a given chance, and
//! sizes inside and across have distributions of their own.
//!
//! Source: \[uno\] sec. 5.1, realistic workload: web search inside, Alibaba's WAN across, four
//! flows of five inside. A host's rate is its share of the link over the mean size of the mix, so
//! the ratio is one of flows, not of bytes; destinations are uniform in the own or the other
//! datacentre. Hosts, streams and lines as in `poisson.rs`. A host alone in its datacentre sends
//! across only.

use transport::Rng;

use super::Workload;
use super::cdf::Cdf;
use super::matrix::Matrix;
use super::params::{Parameter, Params};
use super::poisson::Arrivals;
use super::two_dc::Border;
use crate::input::InputError;

/// The parameters of Poisson traffic in two datacentres.
#[derive(Clone, Debug, PartialEq)]
pub struct PoissonTwoDc {
    /// Sizes of flows inside a datacentre.
    pub intra: Cdf,
    /// Sizes of flows across.
    pub inter: Cdf,
    /// Share of the flows that stay inside, 0..=1.
    pub intra_share: f64,
    /// The border between the datacentres.
    pub border: Border,
    /// When flows start.
    pub arrivals: Arrivals,
}

impl PoissonTwoDc {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str =
        "flows of drawn sizes at random times inside and between two datacentres";
    /// The parameters that [`PoissonTwoDc::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "intra_cdf", about: "sizes inside: a name or a file (websearch)" },
        Parameter { name: "inter_cdf", about: "sizes across: a name or a file (alibaba-wan)" },
        Parameter { name: "intra_share", about: "share of the flows inside, 0..1 (0.8)" },
        Border::DC0_HOSTS,
        Arrivals::LOAD,
        Arrivals::LINK_RATE,
        Arrivals::DURATION,
        Arrivals::FLOWS,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong or the file of a distribution is.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        Ok(Self {
            intra: params.cdf_or("intra_cdf", "websearch")?,
            inter: params.cdf_or("inter_cdf", "alibaba-wan")?,
            //= uno#5.1
            intra_share: params.real("intra_share", 0.8, 0.0, 1.0)?,
            border: Border::from_params(params)?,
            arrivals: Arrivals::from_params(params)?,
        })
    }

    /// The mean size of the mix.
    fn mean_bytes(&self) -> f64 {
        let inter_share = 1.0 - self.intra_share;
        self.intra_share * self.intra.mean_bytes() + inter_share * self.inter.mean_bytes()
    }
}

impl Workload for PoissonTwoDc {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        let hosts = self.border.divide(nodes)?;
        self.arrivals.matrix(nodes, self.mean_bytes(), rng, |src, rng| {
            let stays = rng.next_f64() < self.intra_share;
            match hosts.draw_near(src, rng).filter(|_| stays) {
                Some(near) => (near, self.intra.sample(rng)),
                None => (hosts.draw_far(src, rng), self.inter.sample(rng)),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use transport::{Bytes, Duration, Rate};

    use crate::workload::matrix::{FlowSpec, Start};

    use super::*;

    /// The mix whose results the paper publishes: storage inside, web search across.
    fn published(load: f64) -> PoissonTwoDc {
        let load = load.to_string();
        let pairs = [
            ("intra-cdf", "ali-storage"),
            ("inter-cdf", "websearch"),
            ("load", load.as_str()),
            ("dc0-hosts", "96"),
            ("duration", "20ms"),
        ];
        PoissonTwoDc::from_params(&Params::from_pairs(pairs)).unwrap()
    }

    #[test]
    fn ratio_sizes_and_load_are_as_asked_for() {
        for (load, seed) in [(0.2, 1), (0.4, 2), (0.6, 3)] {
            let workload = published(load);
            let matrix = workload.generate(256, &mut Rng::new(seed)).unwrap();
            let hosts = workload.border.divide(256).unwrap();
            let (inter, intra): (Vec<&FlowSpec>, Vec<&FlowSpec>) = matrix
                .flows
                .iter()
                .partition(|flow| hosts.dc_of(flow.src.0) != hosts.dc_of(flow.dst.0));
            let all = matrix.flows.len() as f64;
            let share = intra.len() as f64 / all;
            // Three standard deviations of a binomial share.
            assert!((share - 0.8).abs() < 3.0 * (0.16 / all).sqrt(), "{share} of {all}");
            for (flows, cdf) in [(&intra, &workload.intra), (&inter, &workload.inter)] {
                let sizes: Vec<Bytes> = flows.iter().map(|flow| flow.size).collect();
                let least = 1.63 / (sizes.len() as f64).sqrt();
                let distance = cdf.distance(sizes);
                assert!(distance < least, "load {load}: {distance} against {least}");
            }
            let capacity = Rate::from_gbps(100).bytes_in(Duration::from_ms(20)).0 * 256;
            let offered = matrix.total_bytes().0 as f64 / capacity as f64;
            assert!((offered / load - 1.0).abs() < 0.05, "{offered} of {load}");
        }
    }

    #[test]
    fn every_host_of_the_right_datacentre_is_a_destination() {
        let workload = published(0.4);
        let matrix = workload.generate(256, &mut Rng::new(7)).unwrap();
        let mut received = [[0u32; 256]; 2];
        for flow in &matrix.flows {
            received[workload.border.divide(256).unwrap().dc_of(flow.src.0)]
                [flow.dst.0 as usize] += 1;
        }
        // Chi squared against uniform within each of the four pairs of datacentres: mean n - 1,
        // standard deviation sqrt(2 n).
        for row in received {
            for range in [0..96, 96..256] {
                let counts = &row[range];
                let n = counts.len() as f64;
                let mean = counts.iter().sum::<u32>() as f64 / n;
                let chi: f64 = counts.iter().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
                assert!((chi - n).abs() < 4.0 * (2.0 * n).sqrt(), "{chi} of {n}");
            }
        }
    }

    #[test]
    fn the_published_run_starts_within_a_millisecond_and_a_half() {
        let mut workload = published(0.4);
        (workload.arrivals.flows, workload.arrivals.duration) = (5000, Duration::MAX);
        let matrix = workload.generate(256, &mut Rng::new(1)).unwrap();
        assert_eq!(matrix.flows.len(), 5000);
        let last = match matrix.flows[4999].start {
            Start::At(at) => at.as_us_f64(),
            Start::On(_) => 0.0,
        };
        assert!((1350.0..1600.0).contains(&last), "{last}");
    }

    #[test]
    fn all_or_nothing_may_stay() {
        for (share, crosses) in [(1.0, false), (0.0, true)] {
            let workload = PoissonTwoDc { intra_share: share, ..published(0.4) };
            let matrix = workload.generate(256, &mut Rng::new(1)).unwrap();
            let across = |flow: &FlowSpec| (flow.src.0 < 96) != (flow.dst.0 < 96);
            assert!(matrix.flows.iter().all(|flow| across(flow) == crosses));
        }
    }
}
