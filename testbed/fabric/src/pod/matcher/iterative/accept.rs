//! Grant 2 and Accept: each sender keeps one request, then each receiver.

use super::{NONE, Scratch};
use crate::pod::chance::Chance;
use crate::pod::demands::To;
use crate::pod::ladder::CLOSED;
use crate::pod::ports::{Grant, IdlePorts};

/// The best request of a sender or a receiver so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeptRequest {
    /// The request's number among those granted, or [`NONE`].
    at: u16,
    /// Requests of this class so far.
    equals: u16,
    /// The request's class; that of no request is worse than any.
    class: u8,
}

impl KeptRequest {
    pub(super) const NONE: Self = Self { at: NONE, equals: 0, class: CLOSED };

    /// Keeps request number `at` if its class is better. Among requests of one class each is kept
    /// with the same probability.
    #[inline(always)]
    fn or(&mut self, at: u16, class: u8, chance: &mut Chance) {
        if class < self.class {
            *self = Self { at, equals: 1, class };
        } else if class == self.class {
            self.equals += 1;
            if chance.below(self.equals.into()) == 0 {
                self.at = at;
            }
        }
    }
}

impl Scratch {
    /// Grant 2 and Accept: the best request of each sender, then of each receiver.
    #[expect(clippy::cast_possible_truncation, reason = "requests are below 2^16")]
    pub(super) fn accept(
        &mut self,
        ports: &mut IdlePorts,
        chance: &mut Chance,
        grants: &mut Vec<Grant>,
    ) {
        let Self { shape, granted, kept: [senders, receivers], .. } = self;
        senders.fill(KeptRequest::NONE);
        receivers.fill(KeptRequest::NONE);
        for (at, request) in granted.iter().enumerate() {
            let kept = &mut senders[usize::from(request.grant.sender)];
            kept.or(at as u16, request.class, chance);
        }
        for kept in senders.iter().filter(|kept| kept.at != NONE) {
            if let To::Host(host) = granted[usize::from(kept.at)].grant.to {
                receivers[usize::from(host)].or(kept.at, kept.class, chance);
            }
        }
        for kept in senders.iter().filter(|kept| kept.at != NONE) {
            let grant = granted[usize::from(kept.at)].grant;
            let accepted = match grant.to {
                To::Host(host) => receivers[usize::from(host)].at == kept.at,
                To::Pod(_) => true,
            };
            if accepted {
                let fits = ports.occupy(shape, &grant);
                debug_assert!(fits, "Grant 1 keeps ports apart");
                grants.push(grant);
            }
        }
    }
}
