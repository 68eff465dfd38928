//! What decides in a pod (`fabric::pod`), from outside: matchers and the scheduler over epochs.
#![allow(missing_docs, reason = "a test")]
#![allow(clippy::unwrap_used, reason = "a test")]
#![allow(clippy::cast_precision_loss, reason = "counts are small")]

mod iterative;
mod kept;
mod matchers;
mod plain;
mod runs;
mod scheduler;
mod starvation;
