//! The offers of a device, the requests of the caller, and the settings that follow.
//!
//! Source: `rte_eth_dev_info`. Negotiation is a plain function of info and request. It never
//! requests what is not offered and has no case for a vendor. So every future device is handled by
//! what it reports of itself. Frame lengths are bytes without FCS. This code calls nothing of DPDK;
//! `port.rs` applies the result.

use std::fmt;

use dpdk_sys as sys;

use crate::device::rules::Rung;

/// The requests of the caller for a port.
#[derive(Clone, Copy, Debug)]
pub struct PortConfig {
    /// Queues in each direction, at least 1; fewer are used where the device has fewer.
    pub queues: u16,
    /// Receive descriptors of a queue; the device rounds the number.
    pub rx_descriptors: u16,
    /// Transmit descriptors of a queue; the device rounds the number.
    pub tx_descriptors: u16,
    /// Longest frame to send and receive, bytes with the Ethernet header and without FCS.
    pub max_frame: u32,
    /// Never sends chains, whatever the device offers: for drivers known to corrupt them.
    pub gather: bool,
    /// Whether the device may compute and check checksums. Otherwise software does: this is slower,
    /// but also right where a device's checksums are wrong.
    pub checksums: bool,
    /// Whether the device may report when frames arrived, where its clock can be read.
    pub times: bool,
    /// Leaves the device's MTU as it is: it is set elsewhere.
    pub keep_mtu: bool,
}

/// How certain the device's limit for the length of frames is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameLimit {
    /// The device took the setting: frames up to this length pass.
    Set(u32),
    /// The device has no such setting: frames of the requested length are sent, and may pass.
    Unproven(u32),
}

/// Where the time of arrival of a frame comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxTimes {
    /// The device stamps frames, by a clock that can be read.
    Device,
    /// The device stamps frames, but by a clock that cannot be read: its stamps are not used.
    NoClock,
    /// The polling thread's clock: a frame counts as arrived when it is found.
    Poll,
}

/// How paced frames leave at their time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxTimes {
    /// The device holds them back, at a transmit queue of its own for each worker.
    Device,
    /// The polling thread holds them back: the device could, but its clock cannot be read.
    NoClock,
    /// The polling thread holds them back: the device could, but has too few transmit queues.
    NoQueue,
    /// The polling thread holds them back: they leave at the first poll behind their time.
    Poll,
}

/// The effective configuration of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caps {
    /// The driver, e.g. `net_ring`.
    pub driver: String,
    /// Queues in each direction.
    pub queues: u16,
    /// Receive and transmit descriptors a queue.
    pub descriptors: (u16, u16),
    /// Longest frame, bytes without FCS.
    pub max_frame: FrameLimit,
    /// Whether chains can be sent; else they are gathered in one segment first.
    pub tx_multi_segs: bool,
    /// Whether payload in memory of applications is sent from its place; else it is copied into the
    /// frame.
    pub attaches: bool,
    /// Whether long frames are received as chains.
    pub rx_scatter: bool,
    /// Whether the device completes UDP checksums; else software does. Software always completes
    /// those of IPv4 headers, whose sum a template has nearly ready.
    pub tx_checksums: bool,
    /// Whether the device checks UDP checksums.
    pub rx_checksums: bool,
    /// Where the time of arrival of a frame comes from.
    pub rx_times: RxTimes,
    /// How paced frames leave at their time.
    pub tx_times: TxTimes,
    /// How received frames come to its queues.
    pub steering: Rung,
    /// The device's NUMA node, -1 when there is none.
    pub socket: i32,
    /// Speed in Mbit/s, when the link is up and reports it.
    pub link_mbps: Option<u32>,
}

/// Settings for `rte_eth_dev_configure`, and the capabilities that they give.
#[derive(Clone, Debug)]
pub(crate) struct DeviceConfig {
    pub(crate) rx_offloads: u64,
    pub(crate) tx_offloads: u64,
    pub(crate) rss_types: u64,
    /// The MTU to set; 0 leaves the device's default.
    pub(crate) mtu: u16,
    /// Transmit queues of the workers, and of frames with a departure.
    pub(crate) tx_queues: u16,
    /// The frame length that `mtu` stands for.
    pub(crate) mtu_frame: u32,
    pub(crate) caps: Caps,
}

const RSS_TYPES: u64 = sys::RDPDK_RSS_IPV4_UDP | sys::RDPDK_RSS_IPV6_UDP;

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            queues: 1,
            rx_descriptors: 512,
            tx_descriptors: 512,
            max_frame: 1514,
            gather: false,
            checksums: true,
            times: true,
            keep_mtu: false,
        }
    }
}

/// Chooses settings for a device of `info`. `room` is what one receive buffer holds,
/// bytes.
pub(crate) fn negotiate(
    info: &sys::rdpdk_port_info,
    wish: &PortConfig,
    driver: String,
    room: u16,
) -> DeviceConfig {
    let all = |offered: u64, wanted: u64| if offered & wanted == wanted { wanted } else { 0 };
    let sums = |offload: u64| if wish.checksums { offload } else { 0 };
    let rx_sums = all(info.rx_offloads, sums(sys::RDPDK_RX_OFFLOAD_UDP_CKSUM));
    let tx_sums = all(info.tx_offloads, sums(sys::RDPDK_TX_OFFLOAD_UDP_CKSUM));
    let scatter = all(info.rx_offloads, sys::RDPDK_RX_OFFLOAD_SCATTER);
    let segments = if wish.gather { 0 } else { sys::RDPDK_TX_OFFLOAD_MULTI_SEGS };
    let segments = all(info.tx_offloads, segments);
    // Stamps cost some drivers their fast paths, so they are asked for only where they are read.
    let wanted = if wish.times { sys::RDPDK_RX_OFFLOAD_TIMESTAMP } else { 0 };
    let offered = all(info.rx_offloads, wanted);
    let stamps = if info.has_clock != 0 { offered } else { 0 };
    let departures = if wish.times { sys::RDPDK_TX_OFFLOAD_SEND_ON_TIMESTAMP } else { 0 };
    let departures = all(info.tx_offloads, departures);
    let queues = wish.queues.min(info.rx_queues_max).min(info.tx_queues_max).max(1);
    let tx_times = match (departures, stamps) {
        (0, _) => TxTimes::Poll,
        (_, 0) => TxTimes::NoClock,
        _ if queues > info.tx_queues_max / 2 => TxTimes::NoQueue,
        _ => TxTimes::Device,
    };
    let timed = tx_times == TxTimes::Device;
    let rss_types = if queues > 1 { info.rss_types & RSS_TYPES } else { 0 };
    // Scatter costs a slower receive function in some drivers, so it is asked for only when needed.
    let needs_scatter = wish.max_frame + RECEIVED_EXTRA > u32::from(room);
    let mtu = mtu_for(info, wish.max_frame);
    let mtu_frame = u32::from(mtu) + u32::from(ETHERNET_HEADER);
    let caps = Caps {
        driver,
        queues,
        descriptors: (wish.rx_descriptors, wish.tx_descriptors),
        max_frame: if wish.keep_mtu {
            FrameLimit::Set(wish.max_frame)
        } else {
            FrameLimit::Unproven(wish.max_frame)
        },
        tx_multi_segs: segments != 0,
        attaches: false,
        rx_scatter: needs_scatter && scatter != 0,
        tx_checksums: tx_sums != 0,
        rx_checksums: rx_sums != 0,
        rx_times: match (stamps, offered) {
            (0, 0) => RxTimes::Poll,
            (0, _) => RxTimes::NoClock,
            _ => RxTimes::Device,
        },
        tx_times,
        steering: match (queues, rss_types) {
            (1, _) => Rung::Single,
            (_, 0) => Rung::Software,
            _ => Rung::Spread,
        },
        socket: info.socket,
        link_mbps: None,
    };
    DeviceConfig {
        rx_offloads: rx_sums | stamps | if needs_scatter { scatter } else { 0 },
        tx_offloads: tx_sums | segments | if timed { departures } else { 0 },
        tx_queues: if timed { 2 * queues } else { queues },
        rss_types,
        mtu,
        mtu_frame,
        caps,
    }
}

const ETHERNET_HEADER: u16 = 14;

/// Octets that drivers count to a received frame beyond its bytes: FCS, two VLAN tags, virtio's
/// header.
const RECEIVED_EXTRA: u32 = 4 + 2 * 4 + 12;

/// The MTU to ask for: that of the requested frame, within what ethdev would let pass.
fn mtu_for(info: &sys::rdpdk_port_info, max_frame: u32) -> u16 {
    let wanted = max_frame.saturating_sub(u32::from(ETHERNET_HEADER));
    let by_length = info.max_rx_pktlen.saturating_sub(u32::from(info.frame_overhead));
    let bound = wanted.min(u32::from(info.max_mtu)).min(by_length);
    u16::try_from(bound.max(u32::from(info.min_mtu))).unwrap_or(u16::MAX)
}

/// A request that a device does not fulfil. Software does it, or it is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// UDP checksums of sent frames.
    TxChecksums,
    /// UDP checksums of received frames.
    RxChecksums,
    /// Sending chains.
    MultiSegs,
    /// Reading memory of applications.
    Attaching,
    /// Times of arrival.
    RxTimes,
    /// Times of arrival that could be converted.
    RxClock,
    /// Sending at a given time.
    TxTimes,
    /// Sending at a time that could be given.
    TxClock,
    /// Transmit queues for sending at a given time.
    TxQueue,
    /// Steering between several queues.
    Steering,
    /// Fewer queues than requested.
    Queues {
        /// Asked for.
        wanted: u16,
        /// Given.
        got: u16,
    },
    /// Shorter frames than requested, bytes without FCS.
    Frames {
        /// Asked for.
        wanted: u32,
        /// The longest that pass.
        most: u32,
    },
    /// The device does not report whether frames of this many bytes pass.
    FramesUnproven(u32),
}

impl Caps {
    /// The parts of `wish` that are missing, a line each for the log.
    #[must_use]
    pub fn lost(&self, wish: &PortConfig) -> Vec<Lost> {
        let most = self.max_frame.bytes();
        let frames = match self.max_frame {
            FrameLimit::Set(_) => Lost::Frames { wanted: wish.max_frame, most },
            FrameLimit::Unproven(_) => Lost::FramesUnproven(most),
        };
        let unproven = matches!(self.max_frame, FrameLimit::Unproven(_));
        let all = [
            (wish.checksums && !self.tx_checksums, Lost::TxChecksums),
            (wish.checksums && !self.rx_checksums, Lost::RxChecksums),
            (!self.tx_multi_segs, Lost::MultiSegs),
            (self.tx_multi_segs && !self.attaches, Lost::Attaching),
            (wish.times && self.rx_times == RxTimes::Poll, Lost::RxTimes),
            (self.rx_times == RxTimes::NoClock, Lost::RxClock),
            (wish.times && self.tx_times == TxTimes::Poll, Lost::TxTimes),
            (self.tx_times == TxTimes::NoClock, Lost::TxClock),
            (self.tx_times == TxTimes::NoQueue, Lost::TxQueue),
            (self.steering == Rung::Software, Lost::Steering),
            (self.queues < wish.queues, Lost::Queues { wanted: wish.queues, got: self.queues }),
            (most < wish.max_frame || unproven, frames),
        ];
        all.into_iter().filter_map(|(missing, lost)| missing.then_some(lost)).collect()
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TxChecksums => write!(
                f,
                "no UDP checksums by the device: software sums what is sent, 70 ns a kilobyte"
            ),
            Self::RxChecksums => write!(
                f,
                "no UDP checks by the device: software sums what is received, 70 ns a kilobyte"
            ),
            Self::MultiSegs => {
                write!(f, "no chains sent: payload is copied into the frame instead of attached")
            }
            Self::Attaching => write!(
                f,
                "memory of applications is not the device's to read (physical addresses, a driver \
                 without mapping for DMA, a device that passes frames on, or one that sends at a \
                 time): payload is copied into the frame instead of attached"
            ),
            Self::RxTimes => {
                write!(f, "no receive timestamps: round trips contain the wait for the poll")
            }
            Self::RxClock => write!(
                f,
                "receive timestamps by a clock that its driver does not read: they are not used, \
                 and round trips contain the wait for the poll"
            ),
            Self::TxTimes => {
                write!(f, "no sending at a time: paced segments and all of DCsim leave at a poll")
            }
            Self::TxClock => write!(
                f,
                "sending at a time by a clock that cannot be read: paced segments leave at a poll"
            ),
            Self::TxQueue => write!(
                f,
                "no sending at a time: it takes two transmit queues a worker; paced segments leave \
                 at a poll"
            ),
            Self::Steering => {
                write!(f, "no spreading over queues: one worker receives for all and hands over")
            }
            Self::Queues { wanted, got } => write!(
                f,
                "{got} of the {wanted} queues that were asked for: use as many workers as queues"
            ),
            Self::Frames { wanted, most } => {
                write!(f, "frames of {most} bytes instead of {wanted}: lower the MTU on all hosts")
            }
            Self::FramesUnproven(bytes) => write!(
                f,
                "the device does not say whether frames of {bytes} bytes pass: try it on this path"
            ),
        }
    }
}

impl FrameLimit {
    /// The length, sure or not.
    #[inline]
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Set(bytes) | Self::Unproven(bytes) => bytes,
        }
    }
}

impl fmt::Display for FrameLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(bytes) => write!(f, "{bytes} B"),
            Self::Unproven(bytes) => write!(f, "{bytes} B (not confirmed by the device)"),
        }
    }
}

impl fmt::Display for RxTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::NoClock => "software (the device's clock cannot be read)",
            Self::Poll => "software",
        })
    }
}

impl fmt::Display for TxTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Device => "device",
            Self::NoClock => "software (the device's clock cannot be read)",
            Self::NoQueue => "software (too few transmit queues for the device to do it)",
            Self::Poll => "software",
        })
    }
}

impl fmt::Display for Caps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let by = |hardware: bool| if hardware { "device" } else { "software" };
        write!(
            f,
            "{}: {} queue(s) of {}/{} descriptors, frames to {}, chains {}, payload {}, \
             checksums tx {} rx {}, timestamps {}, pacing {}, steering by {}",
            self.driver,
            self.queues,
            self.descriptors.0,
            self.descriptors.1,
            self.max_frame,
            if self.tx_multi_segs { "sent" } else { "gathered" },
            if self.attaches { "attached" } else { "copied" },
            by(self.tx_checksums),
            by(self.rx_checksums),
            self.rx_times,
            self.tx_times,
            self.steering,
        )?;
        match self.link_mbps {
            Some(mbps) => write!(f, ", {mbps} Mbit/s"),
            None => write!(f, ", speed unknown"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info() -> sys::rdpdk_port_info {
        sys::rdpdk_port_info {
            max_mtu: u16::MAX,
            max_rx_pktlen: u32::MAX,
            frame_overhead: 18,
            rx_queues_max: 16,
            tx_queues_max: 8,
            ..Default::default()
        }
    }

    fn plan(info: &sys::rdpdk_port_info, queues: u16, max_frame: u32) -> DeviceConfig {
        let wish = PortConfig { queues, max_frame, ..PortConfig::default() };
        negotiate(info, &wish, "net_test".into(), 2048)
    }

    #[test]
    fn a_device_that_offers_nothing_is_asked_for_nothing() {
        let plan = plan(&info(), 4, 9014);
        assert_eq!((plan.rx_offloads, plan.tx_offloads, plan.rss_types), (0, 0, 0));
        assert!(!plan.caps.tx_multi_segs && !plan.caps.rx_scatter);
    }

    #[test]
    fn an_mtu_that_is_set_elsewhere_is_no_doubt() {
        let wish = PortConfig { keep_mtu: true, ..PortConfig::default() };
        let caps = negotiate(&info(), &wish, "net_x".to_owned(), 2048).caps;
        assert_eq!(caps.max_frame, FrameLimit::Set(wish.max_frame));
        assert!(!caps.lost(&wish).iter().any(|lost| matches!(lost, Lost::FramesUnproven(_))));
    }

    #[test]
    fn udp_checksums_are_taken_where_offered_and_not_when_unwanted() {
        // virtio offers those of UDP and no others.
        let udp = sys::rdpdk_port_info {
            rx_offloads: sys::RDPDK_RX_OFFLOAD_UDP_CKSUM,
            tx_offloads: sys::RDPDK_TX_OFFLOAD_UDP_CKSUM,
            ..info()
        };
        let caps = plan(&udp, 1, 1514).caps;
        assert!(caps.tx_checksums && caps.rx_checksums);
        let wish = PortConfig { checksums: false, ..PortConfig::default() };
        let unwanted = negotiate(&udp, &wish, "net_test".into(), 2048);
        assert_eq!((unwanted.rx_offloads, unwanted.tx_offloads), (0, 0));
        assert!(!unwanted.caps.tx_checksums && !unwanted.caps.rx_checksums);
        let ip = sys::RDPDK_TX_OFFLOAD_IPV4_CKSUM;
        let ip = sys::rdpdk_port_info { tx_offloads: ip, ..info() };
        assert_eq!(plan(&ip, 1, 1514).tx_offloads, 0);
    }

    #[test]
    fn each_capability_that_is_missing_is_named_once_with_what_it_costs() {
        let caps = plan(&info(), 2, 9014).caps;
        let wish = PortConfig { queues: 4, max_frame: 9014, ..PortConfig::default() };
        let found: Vec<String> = caps.lost(&wish).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 8, "{found:#?}");
        let fewer = "2 of the 4 queues that were asked for";
        assert!(found.iter().any(|line| line.starts_with(fewer)), "{found:#?}");
        let all = Caps {
            tx_multi_segs: true,
            attaches: true,
            tx_checksums: true,
            rx_checksums: true,
            rx_times: RxTimes::Device,
            tx_times: TxTimes::Device,
            steering: Rung::Addresses,
            max_frame: FrameLimit::Set(9014),
            ..caps
        };
        assert_eq!(all.lost(&PortConfig { queues: 2, ..wish }), []);
        let short = Caps { max_frame: FrameLimit::Set(1514), ..all };
        let frames = Lost::Frames { wanted: 9014, most: 1514 };
        assert_eq!(short.lost(&PortConfig { queues: 2, ..wish }), [frames]);
        let copies = Caps { attaches: false, max_frame: FrameLimit::Set(9014), ..short };
        assert_eq!(copies.lost(&PortConfig { queues: 2, ..wish }), [Lost::Attaching]);
    }

    #[test]
    fn chains_that_a_driver_is_known_to_corrupt_are_not_asked_for() {
        let chains =
            sys::rdpdk_port_info { tx_offloads: sys::RDPDK_TX_OFFLOAD_MULTI_SEGS, ..info() };
        let wish = PortConfig { gather: true, ..PortConfig::default() };
        let plan = negotiate(&chains, &wish, "net_test".into(), 2048);
        assert_eq!((plan.tx_offloads, plan.caps.tx_multi_segs), (0, false));
        let plan = negotiate(&chains, &PortConfig::default(), "net_test".into(), 2048);
        assert!(plan.caps.tx_multi_segs);
    }

    #[test]
    fn stamps_are_asked_for_where_they_are_wanted_and_their_clock_is_read() {
        let stamps = sys::RDPDK_RX_OFFLOAD_TIMESTAMP;
        let clock = sys::rdpdk_port_info { rx_offloads: stamps, has_clock: 1, ..info() };
        let asked = |info: &sys::rdpdk_port_info, times| {
            let wish = PortConfig { times, ..PortConfig::default() };
            let plan = negotiate(info, &wish, "net_test".into(), 2048);
            (plan.rx_offloads, plan.caps.rx_times)
        };
        assert_eq!(asked(&clock, true), (stamps, RxTimes::Device));
        assert_eq!(asked(&clock, false), (0, RxTimes::Poll));
        let blind = sys::rdpdk_port_info { has_clock: 0, ..clock };
        assert_eq!(asked(&blind, true), (0, RxTimes::NoClock));
        assert_eq!(asked(&sys::rdpdk_port_info { rx_offloads: 0, ..clock }, true).0, 0);
        let found = plan(&blind, 1, 1514).caps;
        assert!(found.to_string().contains("timestamps software (the device's clock"), "{found}");
        let lost = found.lost(&PortConfig::default());
        assert!(lost.contains(&Lost::RxClock) && !lost.contains(&Lost::RxTimes), "{lost:?}");
    }

    #[test]
    fn a_device_that_sends_at_a_time_gets_a_second_queue_for_each_worker() {
        let tx_offloads = sys::RDPDK_TX_OFFLOAD_SEND_ON_TIMESTAMP;
        let rx_offloads = sys::RDPDK_RX_OFFLOAD_TIMESTAMP;
        let all = sys::rdpdk_port_info { tx_offloads, rx_offloads, has_clock: 1, ..info() };
        let asked = |info: &sys::rdpdk_port_info, queues| {
            let plan = plan(info, queues, 1514);
            (plan.caps.tx_times, plan.tx_queues, plan.tx_offloads)
        };
        assert_eq!(asked(&all, 4), (TxTimes::Device, 8, tx_offloads));
        assert_eq!(asked(&all, 5), (TxTimes::NoQueue, 5, 0));
        let blind = sys::rdpdk_port_info { has_clock: 0, ..all };
        assert_eq!(asked(&blind, 1), (TxTimes::NoClock, 1, 0));
        assert_eq!(asked(&sys::rdpdk_port_info { tx_offloads: 0, ..all }, 1).0, TxTimes::Poll);
        let wish = PortConfig { times: false, ..PortConfig::default() };
        assert_eq!(negotiate(&all, &wish, "net_test".into(), 2048).tx_offloads, 0);
        let found = plan(&all, 5, 1514).caps;
        assert!(found.to_string().contains("pacing software (too few transmit queues"), "{found}");
        assert!(found.lost(&PortConfig::default()).contains(&Lost::TxQueue));
    }

    #[test]
    fn queues_are_bounded_by_the_poorer_direction_and_never_zero() {
        assert_eq!(plan(&info(), 12, 1514).caps.queues, 8);
        let none = sys::rdpdk_port_info { rx_queues_max: 0, ..info() };
        assert_eq!(plan(&none, 12, 1514).caps.queues, 1);
    }

    #[test]
    fn scatter_is_asked_for_only_when_a_frame_exceeds_a_buffer() {
        let scatter = sys::rdpdk_port_info { rx_offloads: sys::RDPDK_RX_OFFLOAD_SCATTER, ..info() };
        assert_eq!(plan(&scatter, 1, 1514).rx_offloads, 0);
        assert!(plan(&scatter, 1, 9014).caps.rx_scatter);
        // virtio refuses a buffer that has no room for its own header beside the frame.
        assert!(plan(&scatter, 1, 2048).caps.rx_scatter);
    }

    #[test]
    fn the_mtu_stays_within_what_the_device_says_of_itself() {
        // The TAP driver of 22.11: 1522 bytes, no other word.
        let tap = sys::rdpdk_port_info { max_rx_pktlen: 1522, ..info() };
        assert_eq!(plan(&tap, 1, 9014).mtu, 1504);
        let limited = sys::rdpdk_port_info { max_mtu: 3498, ..info() };
        assert_eq!(plan(&limited, 1, 9014).mtu, 3498);
        assert_eq!(plan(&info(), 1, 9014).mtu, 9000);
    }

    #[test]
    fn the_effective_configuration_is_one_line_that_names_what_software_does() {
        let line = plan(&info(), 1, 1514).caps.to_string();
        assert!(line.starts_with("net_test: 1 queue(s) of 512/512 descriptors"), "{line}");
        assert!(
            line.contains("checksums tx software rx software") && !line.contains('\n'),
            "{line}"
        );
    }
}
