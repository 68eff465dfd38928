//! One finding of the doctor: what was looked at, how it stands, why it matters, and the command
//! that mends it.
//!
//! Findings are data; `report.rs` prints them. The identifiers are stable: scripts may rely on
//! them.

use serde::Serialize;

/// How a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The state is as it should be.
    Ok,
    /// Works, but slower or with less choice than it could.
    Warn,
    /// Keeps the worlds in [`Finding::blocks`] from running.
    Fail,
    /// The state is neither good nor bad.
    Info,
}

/// A world in which a matrix runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FitWorld {
    /// Virtual devices of this machine.
    Vdev,
    /// Network cards.
    Nic,
}

/// The result of one probe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Stable name, words joined by dots and underscores.
    pub id: String,
    /// Whether the finding is good, a warning or a failure.
    pub status: Status,
    /// The state that was found.
    pub what: String,
    /// Why that matters to a run.
    pub why: String,
    /// A command to type that mends it; `None` when there is nothing to mend.
    pub mend: Option<String>,
    /// The worlds that cannot run because of it; empty unless something is missing.
    pub blocks: Vec<FitWorld>,
}

impl Finding {
    /// A finding that needs no mending.
    pub(crate) fn ok(id: &str, what: impl Into<String>, why: &str) -> Self {
        Self {
            id: id.to_owned(),
            status: Status::Ok,
            what: what.into(),
            why: why.to_owned(),
            mend: None,
            blocks: Vec::new(),
        }
    }

    /// A fact without judgement.
    pub(crate) fn info(id: &str, what: impl Into<String>, why: &str) -> Self {
        Self { status: Status::Info, ..Self::ok(id, what, why) }
    }

    /// Something that could be better.
    pub(crate) fn warn(
        id: &str,
        what: impl Into<String>,
        why: &str,
        mend: impl Into<String>,
    ) -> Self {
        Self { status: Status::Warn, mend: Some(mend.into()), ..Self::ok(id, what, why) }
    }

    /// Something without which `vdev` and `nic` cannot run.
    pub(crate) fn fail(
        id: &str,
        what: impl Into<String>,
        why: &str,
        mend: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Fail,
            blocks: vec![FitWorld::Vdev, FitWorld::Nic],
            ..Self::warn(id, what, why, mend)
        }
    }

    /// This finding, which keeps `nic` from running.
    pub(crate) fn blocks_nic(mut self) -> Self {
        self.blocks = vec![FitWorld::Nic];
        self
    }
}
