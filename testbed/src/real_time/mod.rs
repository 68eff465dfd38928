//! The `vdev` world.

mod lateness;
mod mbuf_slab;
mod soft_switch;
mod time_scale;
