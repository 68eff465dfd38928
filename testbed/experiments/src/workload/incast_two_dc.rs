//! Incast from two datacentres: some senders beside the receiver, some across.
//!
//! Source: \[uno\] sec. 5.2.1, fairness between near and far flows. Senders are drawn and start at
//! time zero. Near ones come first in the matrix, so that a figure can show some of each. Senders
//! that start late, flows that leave early and short flows among the long ones are ours.

use transport::{Bytes, Duration, HostId, Rng};

use super::matrix::{FlowSpec, Matrix, Start};
use super::params::{Parameter, Params};
use super::permutation::shuffle;
use super::two_dc::Division;
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of an incast from two datacentres.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IncastTwoDc {
    /// Senders in the receiver's datacentre; four, or as many as there are, when `None`.
    pub intra: Option<u32>,
    /// Senders in the other; four, or as many as there are, when `None`.
    pub inter: Option<u32>,
    /// The host that all senders send to; the last when `None`.
    pub receiver: Option<u32>,
    /// Bytes of each flow, at least 1.
    pub size: Bytes,
    /// Each sender starts at a drawn time below this one; all at zero when it is zero.
    pub stagger: Duration,
    /// Every second sender sends an eighth of `size`, and leaves the others its share.
    pub leave: bool,
    /// Short flows to the receiver, each from a drawn host.
    pub mice: u32,
    /// Bytes of a short flow, at least 1.
    pub mice_size: Bytes,
    /// Each short flow starts at a drawn time below this one.
    pub mice_span: Duration,
    /// The division of hosts between the datacentres.
    pub division: Division,
}

impl IncastTwoDc {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "an incast from the receiver's datacentre and another";
    /// The parameters that [`IncastTwoDc::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "intra", about: "senders in the receiver's datacentre (up to 4)" },
        Parameter { name: "inter", about: "senders in the other (up to 4)" },
        Parameter { name: "receiver", about: "the host they send to (the last)" },
        Parameter { name: "size", about: "bytes of each flow (1MiB)" },
        Parameter { name: "stagger", about: "senders start within this time (0s)" },
        Parameter { name: "leave", about: "every second sender has an eighth of size (off)" },
        Parameter { name: "mice", about: "short flows to the receiver from drawn hosts (0)" },
        Parameter { name: "mice_size", about: "bytes of a short flow (16KiB)" },
        Parameter { name: "mice_span", about: "short flows start within this time (1ms)" },
        Division::DC0_HOSTS,
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        let given = |name| {
            let value = params.integer(name, 0, 0, u32::MAX)?;
            Ok(Some(value).filter(|_| params.has(name)))
        };
        Ok(Self {
            intra: given("intra")?,
            inter: given("inter")?,
            receiver: given("receiver")?,
            size: params.bytes("size", Bytes(1 << 20))?,
            stagger: params.duration("stagger", Duration::ZERO)?,
            leave: params.boolean("leave", false)?,
            mice: params.integer("mice", 0, 0, MICE_MAX)?,
            mice_size: params.bytes("mice_size", Bytes(16 << 10))?,
            mice_span: params.duration("mice_span", Duration::from_ms(1))?,
            division: Division::from_params(params)?,
        })
    }
}

impl Workload for IncastTwoDc {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        let hosts = self.division.divide(nodes)?;
        let receiver = self.receiver.unwrap_or(nodes - 1);
        if receiver >= nodes {
            let found = format!("receiver {receiver} of {nodes} hosts");
            return Err(does_not_fit(found, "a host that exists"));
        }
        let own = hosts.dc_of(receiver);
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for (wanted, dc) in [(self.intra, own), (self.inter, 1 - own)] {
            let mut there: Vec<u32> = hosts.hosts(dc).filter(|&host| host != receiver).collect();
            let count = wanted.map_or(there.len().min(SENDERS), |wanted| wanted as usize);
            if count > there.len() {
                let found = format!("{count} senders of {} hosts", there.len());
                let place = if dc == own { "the receiver's" } else { "the other" };
                return Err(does_not_fit(found, &format!("fewer from {place} datacentre")));
            }
            shuffle(&mut there, rng);
            for (at, &src) in there[..count].iter().enumerate() {
                let leaves = self.leave && at % 2 == 1;
                let size = if leaves { Bytes((self.size.0 / 8).max(1)) } else { self.size };
                let flow = FlowSpec::new(HostId(src), HostId(receiver), size);
                matrix.push_flow(FlowSpec { start: within(self.stagger, rng), ..flow });
            }
        }
        if matrix.flows.is_empty() {
            return Err(does_not_fit("no sender".to_owned(), "at least one"));
        }
        for _ in 0..self.mice {
            let drawn = u32::try_from(rng.below(u64::from(nodes - 1))).unwrap_or(0);
            let src = if drawn < receiver { drawn } else { drawn + 1 };
            let flow = FlowSpec::new(HostId(src), HostId(receiver), self.mice_size);
            matrix.push_flow(FlowSpec { start: within(self.mice_span, rng), ..flow });
        }
        Ok(matrix)
    }
}

/// A drawn start below `span`, whole nanoseconds; zero, and nothing drawn, for no span.
fn within(span: Duration, rng: &mut Rng) -> Start {
    let ns = span.as_ps() / 1000;
    Start::At(if ns == 0 { Duration::ZERO } else { Duration::from_ns(rng.below(ns)) })
}

/// The most short flows of one incast.
const MICE_MAX: u32 = 1_000_000;

/// Senders of each kind in the paper's mixed incast.
//= uno#3.1
const SENDERS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn incast(pairs: &[(&str, &str)], seed: u64) -> Result<Matrix, InputError> {
        let params = Params::from_pairs(pairs.iter().copied());
        IncastTwoDc::from_params(&params).unwrap().generate(256, &mut Rng::new(seed))
    }

    #[test]
    fn so_many_come_from_each_side_near_ones_first() {
        for (intra, inter) in [("4", "4"), ("8", "0"), ("0", "8"), ("127", "128")] {
            for receiver in ["240", "3"] {
                let pairs = [("intra", intra), ("inter", inter), ("receiver", receiver)];
                let matrix = incast(&pairs, 1).unwrap();
                let near = |flow: &FlowSpec| (flow.src.0 < 128) == (flow.dst.0 < 128);
                let count: usize = intra.parse().unwrap();
                assert!(matrix.flows[..count].iter().all(near));
                assert!(!matrix.flows[count..].iter().any(near));
                let mut senders: Vec<u32> = matrix.flows.iter().map(|flow| flow.src.0).collect();
                senders.sort_unstable();
                senders.dedup();
                assert_eq!(senders.len(), count + inter.parse::<usize>().unwrap());
                assert!(!senders.contains(&receiver.parse().unwrap()));
            }
        }
    }

    #[test]
    fn another_seed_draws_other_senders() {
        assert_eq!(incast(&[], 1), incast(&[], 1));
        assert_ne!(incast(&[], 1), incast(&[], 2));
    }

    #[test]
    fn late_starts_early_ends_and_short_flows_come_on_top_of_the_same_senders() {
        let plain = incast(&[("size", "8MB")], 1).unwrap();
        let leaving = incast(&[("size", "8MB"), ("leave", "on")], 1).unwrap();
        let sizes: Vec<u64> = leaving.flows.iter().map(|flow| flow.size.0).collect();
        assert_eq!(sizes[..4], [8_000_000, 1_000_000, 8_000_000, 1_000_000]);
        let senders = |matrix: &Matrix| matrix.flows.iter().map(|f| f.src).collect::<Vec<_>>();
        assert_eq!(senders(&plain), senders(&leaving));

        let pairs = [("stagger", "2ms"), ("mice", "100"), ("receiver", "7"), ("mice_span", "1us")];
        let matrix = incast(&pairs, 1).unwrap();
        let start = |flow: &FlowSpec| match flow.start {
            Start::At(at) => at,
            Start::On(_) => unreachable!("no triggers"),
        };
        let (long, short) = matrix.flows.split_at(8);
        assert!(long.iter().all(|flow| start(flow) < Duration::from_ms(2)));
        assert!(long.iter().any(|flow| start(flow) > Duration::from_us(100)));
        assert!(short.iter().all(|flow| start(flow) < Duration::from_us(1)));
        assert_eq!(short.len(), 100);
        assert!(matrix.flows.iter().all(|flow| flow.dst == HostId(7) && flow.src != HostId(7)));
    }

    #[test]
    fn more_senders_than_hosts_and_none_are_refused() {
        for pairs in [
            [("intra", "128"), ("inter", "0")],
            [("intra", "0"), ("inter", "129")],
            [("intra", "0"), ("inter", "0")],
            [("intra", "1"), ("receiver", "256")],
        ] {
            assert!(incast(&pairs, 1).is_err(), "{pairs:?}");
        }
    }
}
