//! Exit codes: part of the contract with scripts.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0: done; of a run: all flows finished and the audit holds.
    Finished,
    /// 1: the run ended, but flows are unfinished, the audit failed, or the run is invalid.
    Unfinished,
    /// 2: bad input or configuration.
    BadInput,
    /// 3: the environment is not fit.
    Unfit,
    /// 130: interrupted before there was a result.
    Interrupted,
    /// 141: the reader of the output ended before all was written, as `head` does. A shell reports
    /// this code for a program that SIGPIPE ends.
    Unread,
}

impl Exit {
    /// The number a process ends with.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::Unfinished => 1,
            Self::BadInput => 2,
            Self::Unfit => 3,
            Self::Interrupted => 130,
            Self::Unread => 141,
        }
    }
}
