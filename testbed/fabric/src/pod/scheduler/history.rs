//! The decisions of the last epochs, kept for answers and for comparison with receipts.

use crate::pod::demands::To;
use crate::pod::ports::Grant;
use crate::pod::shape::Shape;

use super::links::Links;

/// The worth of a grant: the cells of each of its epochs, their number, the total of its demand
/// with them, whether mice alone may go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Worth {
    pub(super) cells: u16,
    pub(super) epochs: u16,
    pub(super) total: u32,
    pub(super) mice_only: bool,
}

/// One decision.
#[derive(Clone, Debug)]
struct Decision {
    /// The epoch in which the decision is carried out; meaningless while there are no grants.
    epoch: u64,
    /// The first epoch in which its answers may leave.
    leaves: u64,
    grants: Vec<Grant>,
    worths: Vec<Worth>,
    /// How many grants, the first ones, are of runs whose answers have been given.
    ongoing: usize,
    /// For each receiver, hosts and then Cores: its grant, or [`NONE`].
    by_receiver: Vec<u16>,
    /// For each receiver: whether cells arrived, where it has reported so or their sender misses
    /// that.
    receipts: Vec<Option<bool>>,
}

const NONE: u16 = u16::MAX;

/// A ring of decisions by the epoch in which they are carried out.
#[derive(Clone, Debug)]
pub(super) struct History {
    hosts: usize,
    /// As many as a power of two, so that their places take no division.
    ring: Vec<Decision>,
    /// Decisions that are kept, at most those of the ring.
    kept: u64,
    /// The next epoch whose answers leave, and how many of them have left.
    next: (u64, usize),
    /// The epoch after the last one decided.
    end: u64,
    /// The next epoch whose receipts are judged.
    judged: u64,
}

impl History {
    /// Keeps `epochs` decisions.
    pub(super) fn new(shape: &Shape, epochs: usize) -> Self {
        let senders = shape.senders();
        let empty = Decision {
            epoch: 0,
            leaves: 0,
            grants: Vec::new(),
            worths: Vec::new(),
            ongoing: 0,
            by_receiver: vec![NONE; senders],
            receipts: vec![None; senders],
        };
        let mut ring = vec![empty; epochs.next_power_of_two()];
        for decision in &mut ring {
            decision.grants.reserve_exact(senders);
            decision.worths.reserve_exact(senders);
        }
        let kept = epochs as u64;
        Self { hosts: shape.hosts(), ring, kept, next: (0, 0), end: 0, judged: 0 }
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits count")]
    fn at(&self, epoch: u64) -> usize {
        epoch as usize & (self.ring.len() - 1)
    }

    /// Decisions about epochs before this one are not kept.
    #[inline]
    pub(super) fn kept_from(&self) -> u64 {
        self.end.saturating_sub(self.kept)
    }

    /// Puts a decision about `epoch`, whose answers may leave in epoch `leaves`, in the place of an
    /// older one. `worth` returns the worth of each grant by its number. The first `ongoing` ones
    /// get no answers.
    pub(super) fn store(
        &mut self,
        (epoch, leaves): (u64, u64),
        grants: &[Grant],
        ongoing: usize,
        mut worth: impl FnMut(usize, &Grant) -> Worth,
    ) {
        let (hosts, at) = (self.hosts, self.at(epoch));
        let decision = &mut self.ring[at];
        (decision.epoch, decision.leaves, decision.ongoing) = (epoch, leaves, ongoing);
        decision.grants.clear();
        decision.grants.extend_from_slice(grants);
        decision.worths.clear();
        let worths = grants.iter().enumerate().map(|(number, grant)| worth(number, grant));
        decision.worths.extend(worths);
        decision.by_receiver.fill(NONE);
        decision.receipts.fill(None);
        for (number, grant) in grants.iter().enumerate() {
            #[expect(clippy::cast_possible_truncation, reason = "at most a grant a sender")]
            let number = number as u16;
            decision.by_receiver[receiver(hosts, grant)] = number;
        }
        if self.next.0 < epoch && self.next.0 == self.end {
            self.next = (epoch, 0);
        }
        self.end = epoch + 1;
    }

    /// The next answer that may leave by `now`: its epoch, grant and worth.
    #[inline]
    pub(super) fn next(&mut self, now: u64) -> Option<(u64, Grant, Worth)> {
        // Decisions before these are not kept: after a long silence there is nothing to look for.
        let kept = self.kept_from();
        if self.next.0 < kept {
            self.next = (kept, 0);
        }
        while self.next.0 < self.end {
            let (epoch, number) = self.next;
            let decision = &self.ring[self.at(epoch)];
            if decision.epoch == epoch {
                if decision.leaves > now {
                    return None;
                }
                let number = decision.ongoing + number;
                if let Some(grant) = decision.grants.get(number) {
                    self.next.1 += 1;
                    return Some((epoch, *grant, decision.worths[number]));
                }
            }
            self.next = (epoch + 1, 0);
        }
        None
    }

    /// Notes that cells of `epoch` arrived; their sender, or `None` where none were granted to the
    /// receiver.
    #[inline]
    pub(super) fn note_arrived(&mut self, receiver: usize, epoch: u64) -> Option<u16> {
        let sender = self.sender_to(receiver, epoch)?;
        let at = self.at(epoch);
        self.ring[at].receipts[receiver] = Some(true);
        Some(sender)
    }

    /// Notes that no receipt has come for the cells that a sender sent in `epoch`. Returns false
    /// when it had no grant for that epoch, or only for cells that no host of the pod gets. If
    /// their receiver has reported the cells, the report counts, since a receipt may be lost on its
    /// way to the sender.
    pub(super) fn note_lost(&mut self, sender: usize, epoch: u64) -> bool {
        let (hosts, at) = (self.hosts, self.at(epoch));
        let decision = &mut self.ring[at];
        let is_its = |grant: &&Grant| usize::from(grant.sender) == sender;
        let grant = decision.grants.iter().find(is_its).filter(|_| decision.epoch == epoch);
        let Some(grant) = grant.filter(|grant| matches!(grant.to, To::Host(_))) else {
            return false;
        };
        decision.receipts[receiver(hosts, grant)].get_or_insert(false);
        true
    }

    /// The sender from which a receiver gets cells in `epoch`.
    #[inline]
    pub(super) fn sender_to(&self, receiver: usize, epoch: u64) -> Option<u16> {
        let decision = &self.ring[self.at(epoch)];
        let number = *decision.by_receiver.get(receiver)?;
        let grant = decision.grants.get(usize::from(number))?;
        (decision.epoch == epoch).then_some(grant.sender)
    }

    /// Judges links by all epochs before `end`, whose receipts should be there in `epoch`. Some are
    /// from before the last decision where none has been made for a while. Returns how many links
    /// this accuses.
    pub(super) fn judge(&mut self, end: u64, epoch: u64, links: &mut Links) -> u64 {
        if !links.accuses() {
            return 0;
        }
        let mut accused = 0;
        // Bounded by the decisions kept.
        for judged in self.judged.max(self.kept_from())..end.min(self.end) {
            self.report(judged, links);
            accused += links.judge(epoch);
        }
        self.judged = self.judged.max(end);
        accused
    }

    /// Passes the receipts of an epoch on to `links`.
    fn report(&self, epoch: u64, links: &mut Links) {
        let decision = &self.ring[self.at(epoch)];
        if decision.epoch != epoch {
            return;
        }
        for (receiver, receipt) in decision.receipts.iter().enumerate() {
            let number = usize::from(decision.by_receiver[receiver]);
            if let (Some(arrived), Some(grant)) = (receipt, decision.grants.get(number)) {
                links.note(grant, *arrived);
            }
        }
    }

    /// Forgets every decision.
    pub(super) fn clear(&mut self) {
        for decision in &mut self.ring {
            decision.grants.clear();
            decision.worths.clear();
            decision.by_receiver.fill(NONE);
            decision.receipts.fill(None);
        }
        self.next = (self.end, 0);
    }
}

/// The number of a grant's receiver: a host, or a Core behind the hosts.
#[inline]
fn receiver(hosts: usize, grant: &Grant) -> usize {
    match (grant.to, grant.core) {
        (To::Host(host), _) => usize::from(host),
        (To::Pod(_), core) => hosts + usize::from(core.unwrap_or(0)),
    }
}
