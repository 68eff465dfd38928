//! An incast of long flows, and short ones from other hosts to the same receiver.
//!
//! Source: \[uno\] sec. 3.2, on what a queue of long flows costs the short flows behind it. The
//! paper's sizes are Google's RPCs; the simulator behind its figure draws 4 to 16 KB evenly, which
//! is the default here. Long flows come first in the matrix.

use transport::{Bytes, Duration, HostId, Rng};

use super::Workload;
use super::incast::{self, Incast};
use super::matrix::{FlowSpec, Matrix, Start};
use super::params::{ParamPlace, Parameter, Params};
use crate::input::InputError;

/// The parameters of an incast with short flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncastMice {
    /// The long flows.
    pub incast: Incast,
    /// How many short flows there are.
    pub mice: u32,
    /// Bytes of the shortest and the longest of them, at least 1; drawn evenly between.
    pub mouse: (Bytes, Bytes),
    /// How many hosts send the short flows in turn: those that follow the receiver by number.
    pub mouse_hosts: u32,
    /// The place where they are counted; `None` for the default, which fewer hosts may replace.
    counted: Option<ParamPlace>,
    /// The earliest start of the first short flow, which starts up to a gap later.
    pub mice_from: Duration,
    /// Mean time from one short flow to the next; each is up to one gap late, drawn evenly.
    pub mice_gap: Duration,
}

impl IncastMice {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "an incast, and short flows to the same receiver";
    /// The parameters that [`IncastMice::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        incast::DEGREE,
        incast::RECEIVER,
        incast::SIZE,
        incast::SENDERS,
        Parameter { name: "mice", about: "number of short flows (1000)" },
        Parameter { name: "mouse_min", about: "bytes of the shortest (4KiB)" },
        Parameter { name: "mouse_max", about: "bytes of the longest (16KiB)" },
        Parameter { name: "mouse_hosts", about: "hosts after the receiver that send them (3)" },
        Parameter { name: "mice_from", about: "when the first short flow starts (0us)" },
        Parameter { name: "mice_gap", about: "mean time between two of them (25us)" },
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        let least = params.bytes("mouse_min", Bytes(4 << 10))?;
        let most = params.bytes("mouse_max", Bytes(16 << 10).max(least))?;
        if most < least {
            let found = format!("mouse_max = {} bytes", most.0);
            let expected = format!("at least mouse_min, {} bytes", least.0);
            return Err(params.error("mouse_max", &found, &expected));
        }
        Ok(Self {
            incast: Incast::from_params(params)?,
            mice: params.integer("mice", 1000, 0, 1_000_000)?,
            mouse: (least, most),
            mouse_hosts: params.integer("mouse_hosts", 3, 1, u32::MAX)?,
            counted: params.has("mouse_hosts").then(|| params.place("mouse_hosts")),
            mice_from: params.duration("mice_from", Duration::ZERO)?,
            mice_gap: params.duration("mice_gap", Duration::from_us(25))?,
        })
    }
}

impl Workload for IncastMice {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        let mut matrix = self.incast.generate(nodes, rng)?;
        let receiver = self.incast.receiver;
        // The incast has a sender: one at least.
        let others = nodes - 1;
        if let Some(counted) = self.counted.as_ref().filter(|_| self.mouse_hosts > others) {
            let found = format!("mouse_hosts = {} of {nodes} hosts", self.mouse_hosts);
            let expected = format!("at most {others}, the hosts beside the receiver");
            return Err(counted.error(&found, &expected));
        }
        for mouse in 0..self.mice {
            let step = u64::from(1 + mouse % self.mouse_hosts.min(others));
            let host = (u64::from(receiver) + step) % u64::from(nodes);
            let (least, most) = (self.mouse.0.0, self.mouse.1.0);
            let size = Bytes(least + rng.below(most - least + 1));
            let src = HostId(u32::try_from(host).unwrap_or(0));
            let mut flow = FlowSpec::new(src, HostId(receiver), size);
            // Whole nanoseconds: a matrix as text has no finer times.
            let late = Duration::from_ns(rng.below(self.mice_gap.as_ps() / 1000));
            let due = self.mice_from + self.mice_gap * u64::from(mouse) + late;
            flow.start = Start::At(due);
            matrix.push_flow(flow);
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(params: &[(&str, &str)]) -> Result<IncastMice, InputError> {
        IncastMice::from_params(&Params::from_pairs(params.iter().copied()))
    }

    #[test]
    fn short_flows_come_from_as_many_hosts_as_there_are() {
        let of = |hosts: &str, nodes| {
            let made = workload(&[("mouse_hosts", hosts)]).unwrap();
            made.generate(nodes, &mut Rng::new(1)).map_err(|error| error.to_string())
        };
        let said = of("9", 5).unwrap_err();
        assert!(said.starts_with("--mouse-hosts") && said.contains("at most 4"), "{said}");
        assert!(of("4", 5).is_ok());
        // The default is for networks of any size.
        assert!(workload(&[]).unwrap().generate(3, &mut Rng::new(1)).is_ok());
    }

    #[test]
    fn short_flows_follow_the_long_ones_from_the_receivers_neighbours() {
        let params =
            [("senders", "1,2"), ("receiver", "240"), ("mice", "300"), ("mice_gap", "9us")];
        let matrix = workload(&params).unwrap().generate(256, &mut Rng::new(1)).unwrap();
        let (long, short) = matrix.flows.split_at(2);
        assert!(long.iter().all(|flow| flow.size == Bytes(1 << 20)));
        assert_eq!(short.len(), 300);
        for (at, flow) in (0..).zip(short) {
            assert_eq!((flow.src.0, flow.dst.0), (241 + at % 3, 240));
            assert!((4096..=16_384).contains(&flow.size.0));
            let Start::At(start) = flow.start else { panic!("not by trigger") };
            assert_eq!(start / 9_000_000, Duration::from_ps(u64::from(at)));
        }
    }

    #[test]
    fn sizes_that_contradict_each_other_are_refused() {
        assert!(workload(&[("mouse_min", "64KiB")]).is_ok());
        let error = workload(&[("mouse_max", "1KiB")]).unwrap_err();
        assert!(error.to_string().contains("at least mouse_min"), "{error}");
    }
}
