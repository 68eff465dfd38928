//! A controller that keeps the telemetry which its acknowledgements echo, and never moves.

use std::sync::{Arc, Mutex, PoisonError};

use experiments::plan::Draft;
use transport::Bytes;
use transport::cc::{AckSample, CcKind, CongestionControl, Custom, LossSample, Path, Window};
use transport::wire::int::Hop;
use transport::wire::{ExtRefusal, Extensions};

/// The hops of the acknowledgements of all flows of a run, and whether some were missing.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<Seen>>>);

/// The telemetry of one acknowledgement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// What ports on the path wrote, in its order.
    pub hops: Vec<Hop>,
    /// More ports were on the path.
    pub is_cut: bool,
}

#[derive(Clone, Debug)]
struct Watcher {
    cwnd: Bytes,
    log: Log,
}

impl Log {
    /// Gives every flow of `draft` a fixed window of one BDP, and keeps its telemetry.
    pub fn watch(&self, draft: &mut Draft) {
        let log = self.clone();
        draft.settings.cc = CcKind::Custom;
        draft.settings.cc_params.custom =
            Custom::built_by(1.0, move |path| Watcher { cwnd: path.bdp(), log: log.clone() })
                .with_int();
    }

    /// What was seen, in no order that means anything.
    #[must_use]
    pub fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl CongestionControl for Watcher {
    fn window(&self) -> Window {
        Window { cwnd: self.cwnd, pacing: None, wake_at: None }
    }
    fn on_ack(&mut self, _ack: &AckSample, _path: &Path) {}
    fn on_ack_with(
        &mut self,
        _ack: &AckSample,
        extensions: Extensions<'_>,
        _path: &Path,
    ) -> Option<ExtRefusal> {
        if let Some(int) = extensions.int() {
            let seen = Seen { hops: int.hops().to_vec(), is_cut: int.is_cut() };
            self.log.0.lock().unwrap_or_else(PoisonError::into_inner).push(seen);
        }
        None
    }
    fn on_nack(&mut self, _loss: &LossSample, _path: &Path) {}
    fn on_timeout(&mut self, _loss: &LossSample, _path: &Path) {}
}
