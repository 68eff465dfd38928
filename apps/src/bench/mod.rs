//! `headrace bench scheduler` measures decisions of the pod scheduler, see `scheduler.rs`, without
//! DPDK. `on_dpdk/bench` has the other measurements. `shown.rs` prints the rows of all.

pub(crate) mod scheduler;
pub(crate) mod shown;
