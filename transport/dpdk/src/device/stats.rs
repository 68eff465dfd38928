//! Counters of a device. Source: `rte_eth_stats`. `port.rs` reads them; nothing here does.

/// Counters of a device since its start. Fields that a driver does not count stay 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct DeviceStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets lost because no descriptor was free.
    pub rx_missed: u64,
    /// Packets received with an error.
    pub rx_errors: u64,
    /// Packets that were not sent.
    pub tx_errors: u64,
    /// Packets lost because the pool was empty.
    pub rx_no_mbuf: u64,
}
