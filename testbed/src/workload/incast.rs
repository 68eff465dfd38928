//! Incast: several hosts send to one at the same time.
//!
//! Senders are either those farthest from the receiver by number, from half the network away
//! onwards, as the field's generator with `prefer_remote` has them, or drawn at random. All start
//! at time zero.

use transport::{Bytes, HostId, Rng};

use super::matrix::{FlowSpec, Matrix};
use super::params::{Parameter, Params};
use super::{Workload, does_not_fit};
use crate::input::InputError;

/// The parameters of an incast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incast {
    /// Number of senders; `None` for all other hosts.
    pub degree: Option<u32>,
    /// The host they send to.
    pub receiver: u32,
    /// Bytes of each flow, at least 1.
    pub size: Bytes,
    /// Senders from half the network away onwards, else drawn.
    pub remote: bool,
}

impl Incast {
    /// What [`Incast::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        Parameter { name: "degree", about: "number of senders (all other hosts)" },
        Parameter { name: "receiver", about: "the host they send to (0)" },
        Parameter { name: "size", about: "bytes of each flow (1MiB)" },
        Parameter { name: "remote", about: "senders from half the network away onwards (true)" },
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        let degree = params.integer("degree", u32::MAX, 1, u32::MAX)?;
        Ok(Self {
            degree: Some(degree).filter(|_| params.has("degree")),
            receiver: params.integer("receiver", 0, 0, u32::MAX)?,
            size: params.bytes("size", Bytes(1 << 20))?,
            remote: params.boolean("remote", true)?,
        })
    }
}

impl Workload for Incast {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        if self.receiver >= nodes {
            let found = format!("receiver {} of {nodes} hosts", self.receiver);
            return Err(does_not_fit(found, "a host below the number of hosts"));
        }
        let degree = self.degree.unwrap_or(nodes - 1);
        if degree == 0 || degree >= nodes {
            let found = format!("{degree} senders among {nodes} hosts");
            return Err(does_not_fit(found, "at least one, and fewer than there are hosts"));
        }
        let away = |by: u32| {
            let host = (u64::from(self.receiver) + u64::from(by)) % u64::from(nodes);
            u32::try_from(host).unwrap_or(0)
        };
        let mut senders: Vec<u32> = if self.remote {
            // Half the network away to its end, then the near half, without the receiver.
            (nodes / 2..nodes).chain(1..nodes / 2).filter(|&by| by != 0).map(away).collect()
        } else {
            (0..nodes).filter(|&host| host != self.receiver).collect()
        };
        if !self.remote {
            super::permutation::shuffle(&mut senders, rng);
        }
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for sender in senders.into_iter().take(degree as usize) {
            matrix.push_flow(FlowSpec::new(HostId(sender), HostId(self.receiver), self.size));
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::cm_write::to_text;

    #[test]
    fn the_papers_incast_comes_out_as_the_fields_generator_writes_it() {
        let incast = Incast { degree: Some(3), receiver: 0, size: Bytes(65_536), remote: true };
        assert_eq!(
            to_text(&incast.generate(128, &mut Rng::new(1)).unwrap()),
            "Nodes 128\nConnections 3\n64->0 id 1 start 0 size 65536\n\
             65->0 id 2 start 0 size 65536\n66->0 id 3 start 0 size 65536\n"
        );
    }

    #[test]
    fn a_full_incast_has_every_other_host_once() {
        for remote in [true, false] {
            let incast = Incast { degree: None, receiver: 5, size: Bytes(1), remote };
            let matrix = incast.generate(17, &mut Rng::new(1)).unwrap();
            let mut senders: Vec<u32> = matrix.flows.iter().map(|flow| flow.src.0).collect();
            senders.sort_unstable();
            assert_eq!(senders, (0..17).filter(|&host| host != 5).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let incast = Incast { degree: Some(16), receiver: 0, size: Bytes(1), remote: false };
        assert!(incast.generate(16, &mut Rng::new(1)).is_err());
        assert!(Incast { receiver: 16, ..incast }.generate(16, &mut Rng::new(1)).is_err());
    }
}
