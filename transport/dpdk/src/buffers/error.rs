//! Why packet buffers cannot be had: [`MbufError`]. Sizes are bytes, counts are mbufs.

use thiserror::Error;

use crate::eal::Errno;

/// Why there is no pool, field or attached memory.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MbufError {
    /// The numbers of a [`PoolConfig`](crate::PoolConfig) do not fit together.
    #[error(
        "a pool of {count} mbufs with room {room} and cache {cache} cannot be: count and room must \
         be above 0, room at most 65407, cache at most 512 and at most two thirds of the count"
    )]
    Config {
        /// Mbufs asked for.
        count: u32,
        /// Bytes of room asked for.
        room: u16,
        /// Cache asked for.
        cache: u32,
    },
    /// No memory for the pool.
    #[error(
        "no memory for a pool of {count} mbufs, about {mb} MiB ({errno}); give DPDK more memory, \
         or use fewer hosts or smaller buffers"
    )]
    Memory {
        /// Mbufs asked for.
        count: u32,
        /// Memory for these mbufs, 2^20 bytes, rounded up.
        mb: u64,
        /// DPDK's reason.
        errno: Errno,
    },
    /// No space in the mbuf for one more field.
    #[error("no room for a dynamic mbuf field ({0}); another library in the process took it")]
    Field(Errno),
    /// Memory that devices could not find.
    #[error(
        "memory cannot be attached to mbufs, because devices use physical addresses; start DPDK \
         with --iova-mode=va, or copy"
    )]
    NotAddressable,
}
