//! Grants of several epochs at once.
//!
//! DEVIATION(zeropod#IV-A3): in the paper a grant is for one epoch. Epochs are numbered off in
//! superepochs here. A demand that fills all that is left of its superepoch is granted that at
//! once, by one answer, and its ports are busy until the superepoch ends. Smaller demands are
//! granted epoch by epoch between these runs. All ports are idle again when a superepoch begins.

use crate::pod::demands::{Demands, To};
use crate::pod::ports::{Grant, IdlePorts};
use crate::pod::shape::{Shape, Words};

use super::Settings;
use super::history::Worth;

/// The runs of one superepoch.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// Epochs of a superepoch.
    length: u16,
    /// The number of the superepoch.
    superepoch: u64,
    grants: Vec<Grant>,
    worths: Vec<Worth>,
    /// Ports of these grants, a word a ToR: senders, receivers, links up and links down.
    held: [Words; 4],
}

impl Runs {
    pub(super) fn new(shape: &Shape, length: u16) -> Self {
        let most = if length > 1 { shape.hosts() } else { 0 };
        let (grants, worths) = (Vec::with_capacity(most), Vec::with_capacity(most));
        Self { length, superepoch: 0, grants, worths, held: [Words::ZERO; 4] }
    }

    /// Epochs from `about` to the end of its superepoch.
    #[inline]
    pub(super) fn rest(&self, about: u64) -> u16 {
        let within = about % u64::from(self.length);
        self.length - u16::try_from(within).unwrap_or(0)
    }

    /// The superepoch of `about` begins, or goes on: its runs so far.
    #[inline]
    pub(super) fn begin(&mut self, about: u64) -> &[Grant] {
        let superepoch = about / u64::from(self.length);
        if superepoch != self.superepoch {
            self.superepoch = superepoch;
            self.clear();
        }
        &self.grants
    }

    pub(super) fn clear(&mut self) {
        if !self.grants.is_empty() {
            self.grants.clear();
            self.worths.clear();
            self.held = [Words::ZERO; 4];
        }
    }

    /// Whether some run goes on in epoch `about`.
    #[inline]
    pub(super) const fn go_on(&self, about: u64) -> bool {
        !self.grants.is_empty() && about / self.length as u64 == self.superepoch
    }

    /// The worth of run `number`.
    #[inline]
    pub(super) fn worth(&self, number: usize) -> Option<Worth> {
        self.worths.get(number).copied()
    }

    /// Takes the ports of all runs.
    #[inline]
    pub(super) fn hold(&self, ports: &mut IdlePorts) {
        if self.grants.is_empty() {
            return;
        }
        let IdlePorts { send, recv, up, down, .. } = ports;
        for (idle, held) in [send, recv, up, down].into_iter().zip(&self.held) {
            for (idle, held) in idle.0.iter_mut().zip(&held.0) {
                *idle &= !held;
            }
        }
    }

    /// A grant inside the pod lasts until the superepoch ends.
    #[inline]
    pub(super) fn add(&mut self, shape: &Shape, grant: Grant, worth: Worth) {
        let To::Host(to) = grant.to else { return };
        let (tor, bit) = shape.place(grant.sender.into());
        let (to_tor, to_bit) = shape.place(to.into());
        let [send, recv, up, down] = &mut self.held;
        send.0[tor] |= 1 << bit;
        recv.0[to_tor] |= 1 << to_bit;
        up.0[tor] |= 1 << grant.agg;
        down.0[to_tor] |= 1 << grant.agg;
        self.grants.push(grant);
        self.worths.push(worth);
    }
}

/// Takes the bytes of a grant off its demand; returns these bytes, and the worth of the grant. It
/// is for `rest` epochs where it stays in the pod and its demand fills them, and else for one.
#[inline]
pub(super) fn settle(
    (settings, rest): (&Settings, u16),
    shape: &Shape,
    demands: &mut Demands,
    grant: &Grant,
) -> (u32, Worth) {
    let sender = usize::from(grant.sender);
    let first_mice = shape.cores() - shape.mice_cores();
    let mice_only = grant.core.is_some_and(|core| usize::from(core) >= first_mice);
    let epoch = settings.epoch_bytes();
    let run = epoch * u32::from(rest);
    let stays = matches!(grant.to, To::Host(_)) && sender < shape.hosts();
    if rest > 1 && stays && demands.backlog(sender, grant.to) >= run {
        let bytes = demands.grant(sender, grant.to, run);
        let total = demands.granted(sender, grant.to);
        return (bytes, Worth { cells: settings.cells, epochs: rest, total, mice_only });
    }
    let most = if mice_only { epoch.min(demands.mouse(sender, grant.to)) } else { epoch };
    let bytes = demands.grant(sender, grant.to, most);
    let cells = u16::try_from(bytes.div_ceil(settings.cell)).unwrap_or(settings.cells);
    (bytes, Worth { cells, epochs: 1, total: demands.granted(sender, grant.to), mice_only })
}
