//! What a request of a host or of a Core asks for.

use transport::wire::pod::{CoreRts, Delivered, Rts};

/// What a member asks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) rts: Rts,
    /// From a Core: the pods for which it takes no more cells.
    pub(super) paused: u32,
    /// From a Core: a host, and cells of it that have been delivered.
    pub(super) delivered: Option<(u16, Delivered)>,
}

impl Asked {
    pub(super) const fn of_host(rts: Rts) -> Self {
        Self { rts, paused: 0, delivered: None }
    }

    pub(super) const fn of_core(rts: &CoreRts) -> Self {
        let CoreRts { term, epoch, update, paused, delivered, lost } = *rts;
        let (mice, mice_len) = ([Rts::NO_MOUSE; _], 0);
        let rts = Rts { term, epoch, update, arrived: 0, lost, mice, mice_len, clock: None };
        Self { rts, paused, delivered }
    }
}
