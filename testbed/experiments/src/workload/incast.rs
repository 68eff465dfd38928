//! Incast: several hosts send to one at the same time.
//!
//! Senders are either those farthest from the receiver by number, from half the network away
//! onwards, as the field's generator with `prefer_remote` has them, drawn at random, or named. They
//! start at time zero, or one after the other.

use std::collections::BTreeSet;

use transport::{Bytes, Duration, HostId, Rng};

use super::matrix::{FlowSpec, Matrix, Start};
use super::params::{Parameter, Params, first_size};
use super::{Workload, does_not_fit};
use crate::input::{InputError, number};

/// The parameters of an incast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Incast {
    /// Number of senders; `None` for all other hosts.
    pub degree: Option<u32>,
    /// The host that all senders send to.
    pub receiver: u32,
    /// Bytes of each flow, at least 1.
    pub size: Bytes,
    /// The first sender is half the network away from the receiver, and the others follow; else
    /// senders are drawn.
    pub remote: bool,
    /// The sending hosts; `degree` and `remote` do not count where there are any.
    pub senders: Vec<u32>,
    /// Bytes of the first flow, when it differs.
    pub first_size: Option<Bytes>,
    /// Time from the start of one flow to that of the next.
    pub stagger: Duration,
}

/// Parameters of every incast, also of one with other flows beside it.
pub(super) const DEGREE: Parameter =
    Parameter { name: "degree", about: "number of senders (all other hosts)" };
pub(super) const RECEIVER: Parameter =
    Parameter { name: "receiver", about: "the host that all senders send to (0)" };
pub(super) const SIZE: Parameter =
    Parameter { name: "size", about: "bytes of each flow of a sender (1MiB)" };
pub(super) const SENDERS: Parameter =
    Parameter { name: "senders", about: "the sending hosts, like 1,64, instead of a degree" };

impl Incast {
    /// The sentence that `headrace list` prints beside the name.
    pub const ABOUT: &'static str = "many senders, one receiver";
    /// The parameters that [`Incast::from_params`] reads.
    pub const PARAMETERS: &'static [Parameter] = &[
        DEGREE,
        RECEIVER,
        SIZE,
        Parameter { name: "remote", about: "the first sender is half the network away (true)" },
        SENDERS,
        Parameter { name: "first_size", about: "bytes of the first flow (size)" },
        Parameter { name: "stagger", about: "time between the starts of two flows (0us)" },
    ];

    /// Reads the parameters.
    ///
    /// # Errors
    /// When a value is wrong.
    pub fn from_params(params: &Params) -> Result<Self, InputError> {
        params.expect_alone("degree", "senders")?;
        params.expect_alone("remote", "senders")?;
        let degree = params.integer("degree", u32::MAX, 1, u32::MAX)?;
        Ok(Self {
            degree: Some(degree).filter(|_| params.has("degree")),
            receiver: params.integer("receiver", 0, 0, u32::MAX)?,
            size: params.bytes("size", Bytes(1 << 20))?,
            remote: params.boolean("remote", true)?,
            senders: senders(params)?,
            first_size: first_size(params)?,
            stagger: params.duration("stagger", Duration::ZERO)?,
        })
    }

    /// The senders of an incast among `nodes` hosts.
    fn among(&self, nodes: u32, rng: &mut Rng) -> Result<Vec<u32>, InputError> {
        if !self.senders.is_empty() {
            let wrong = self.senders.iter().find(|&&host| host >= nodes || host == self.receiver);
            return match wrong {
                None => Ok(self.senders.clone()),
                Some(host) => {
                    let found = format!("sender {host} of {nodes} hosts");
                    Err(does_not_fit(found, "a host that exists and is not the receiver"))
                }
            };
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
        senders.truncate(degree as usize);
        Ok(senders)
    }
}

fn senders(params: &Params) -> Result<Vec<u32>, InputError> {
    let Some(text) = params.text("senders") else { return Ok(Vec::new()) };
    let host = |word: &str| number::integer(word.trim().as_bytes()).ok()?.try_into().ok();
    let hosts: Option<Vec<u32>> = text.split(',').map(host).collect();
    let hosts = hosts.ok_or_else(|| {
        params.error("senders", &format!("senders = `{text}`"), "numbers of hosts, like 1,64")
    })?;
    let mut seen = BTreeSet::new();
    if let Some(again) = hosts.iter().find(|host| !seen.insert(**host)) {
        let found = format!("a second {again} among the senders");
        return Err(params.error("senders", &found, "each host once, with one flow"));
    }
    Ok(hosts)
}

impl Workload for Incast {
    fn generate(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        if self.receiver >= nodes {
            let found = format!("receiver {} of {nodes} hosts", self.receiver);
            return Err(does_not_fit(found, "a host below the number of hosts"));
        }
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for (at, sender) in (0..).zip(self.among(nodes, rng)?) {
            let size = self.first_size.filter(|_| at == 0).unwrap_or(self.size);
            let mut flow = FlowSpec::new(HostId(sender), HostId(self.receiver), size);
            flow.start = Start::At(self.stagger * at);
            matrix.push_flow(flow);
        }
        Ok(matrix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::cm_write::to_text;

    fn incast(params: &[(&str, &str)]) -> Incast {
        Incast::from_params(&Params::from_pairs(params.iter().copied())).unwrap()
    }

    #[test]
    fn named_senders_start_one_after_the_other_and_the_first_may_send_more() {
        let incast = incast(&[
            ("senders", "1, 64"),
            ("size", "4KiB"),
            ("first_size", "8KiB"),
            ("stagger", "2.5us"),
        ]);
        assert_eq!(
            to_text(&incast.generate(128, &mut Rng::new(1)).unwrap()),
            "Nodes 128\nConnections 2\n1->0 id 1 start 0 size 8192\n\
             64->0 id 2 start 2.5 size 4096\n"
        );
        assert!(incast.generate(64, &mut Rng::new(1)).is_err(), "no host 64");
        let wrong = Params::from_pairs([("senders", "1;2")]);
        assert!(Incast::from_params(&wrong).unwrap_err().expected.contains("like 1,64"));
    }

    #[test]
    fn senders_replace_a_degree_and_come_once() {
        for (other, flag, words) in [
            (("degree", "3"), "--degree", "degree beside senders"),
            (("remote", "false"), "--remote", "remote beside senders"),
            (("senders", "1,2,1"), "--senders", "a second 1"),
        ] {
            let params = Params::from_pairs([("senders", "1,2"), other]);
            let said = Incast::from_params(&params).unwrap_err().to_string();
            assert!(said.starts_with(flag) && said.contains(words), "{said}");
        }
    }

    #[test]
    fn the_papers_incast_comes_out_as_the_fields_generator_writes_it() {
        let incast = incast(&[("degree", "3"), ("size", "64KiB")]);
        assert_eq!(
            to_text(&incast.generate(128, &mut Rng::new(1)).unwrap()),
            "Nodes 128\nConnections 3\n64->0 id 1 start 0 size 65536\n\
             65->0 id 2 start 0 size 65536\n66->0 id 3 start 0 size 65536\n"
        );
    }

    #[test]
    fn a_full_incast_has_every_other_host_once() {
        for remote in [true, false] {
            let remote = if remote { "true" } else { "false" };
            let incast = incast(&[("receiver", "5"), ("remote", remote)]);
            let matrix = incast.generate(17, &mut Rng::new(1)).unwrap();
            let mut senders: Vec<u32> = matrix.flows.iter().map(|flow| flow.src.0).collect();
            senders.sort_unstable();
            assert_eq!(senders, (0..17).filter(|&host| host != 5).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let incast = incast(&[("degree", "16"), ("remote", "false")]);
        assert!(incast.generate(16, &mut Rng::new(1)).is_err());
        assert!(Incast { receiver: 16, ..incast }.generate(16, &mut Rng::new(1)).is_err());
    }
}
