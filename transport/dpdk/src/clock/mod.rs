//! Network time: the calibrated TSC, and clocks of devices related to it.

pub mod device_clock;
pub mod fit;
pub mod poll_clock;
pub mod tsc;

pub use tsc::incarnation;
