//! The flags of `headrace dci`.

use std::path::PathBuf;

use clap::Args;
use experiments::input::number;
use transport::wire::int::Hop;
use transport::{Bytes, Duration, Rate};

use super::OnOff;

/// The devices, the distance, and the hosts of both sides.
#[derive(Debug, Args)]
pub(crate) struct DciArgs {
    /// Device into the site: a virtual device with its arguments, a netdev or a PCI address.
    /// Several devices are one site; a memif that is to connect has role=client.
    #[arg(long, value_name = "DEVICE", required = true)]
    pub(crate) lan: Vec<String>,
    /// Device to the other sites; a site has one border switch here, with one link.
    #[arg(long, value_name = "DEVICE", required = true)]
    pub(crate) wan: Vec<String>,
    /// The hosts of all sites, each with its `site`.
    #[arg(long, value_name = "HOSTS.toml")]
    pub(crate) hosts: PathBuf,
    /// The site of this switch.
    #[arg(long, value_name = "NAME")]
    pub(crate) site: String,
    /// Distance to emulate outwards, one way, up to 900ms; that of the device is added.
    #[arg(long, value_name = "TIME", default_value = "0us", value_parser = duration)]
    pub(crate) wan_delay: Duration,
    /// Rate towards other sites.
    #[arg(long, value_name = "RATE", default_value = "100Gbps", value_parser = rate)]
    pub(crate) wan_rate: Rate,
    /// Rate towards one host of the site.
    #[arg(long, value_name = "RATE", default_value = "25Gbps", value_parser = rate)]
    pub(crate) lan_rate: Rate,
    /// Backlogs of a port by which it marks data by ECN, like 100KB,400KB: none up to KMIN, all
    /// above KMAX. What waits in the queues of MLCC's flows does not count [default: no marks].
    #[arg(long, value_name = "KMIN,KMAX", value_parser = marks)]
    pub(crate) ecn: Option<(Bytes, Bytes)>,
    /// MTU of the hosts [default: the largest of the devices].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..=9202))]
    pub(crate) mtu: Option<u16>,
    /// Changes a setting of the switch, switch.dci.KEY or its second name; may be given several
    /// times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Frames that can be held at once, on the emulated link too.
    #[arg(long, value_name = "N", default_value_t = 16_383,
          value_parser = clap::value_parser!(u32).range(4096..=4_194_303))]
    pub(crate) buffers: u32,
    /// Whether to use hugepages; without this flag they are used when there are enough.
    #[arg(long, value_enum)]
    pub(crate) hugepages: Option<OnOff>,
    /// Core to run on; without this flag any core.
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// Argument for DPDK's EAL, unchanged; may be given several times.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,
    /// Seconds to wait for the process behind a device that connects.
    #[arg(long, value_name = "SECONDS", default_value_t = 30,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) wait: u64,
    /// Prints what has passed as JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// The longest distance: base RTTs end at 2 s, and the switch of the other site emulates it, too.
const DELAY_MAX: Duration = Duration::from_ms(900);
/// The highest rate: that of a setting of the switch.
const RATE_MAX: Rate = Rate::from_gbps(10_000);

fn duration(text: &str) -> Result<Duration, String> {
    let read = number::duration(text).ok().filter(|delay| *delay <= DELAY_MAX);
    read.ok_or_else(|| "expected a time from 0us to 900ms, like 500us or 3ms".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    // Telemetry says no rate below that: a controller would take a slower link for faster than it
    // is, and fill it.
    let read = number::rate(text).ok().filter(|rate| (Hop::RATE_LEAST..=RATE_MAX).contains(rate));
    read.ok_or_else(|| "expected a rate from 100Mbps to 10000Gbps, like 40Gbps".to_owned())
}

fn marks(text: &str) -> Result<(Bytes, Bytes), String> {
    let read = || {
        let (kmin, kmax) = text.split_once(',')?;
        let (kmin, kmax) = (number::bytes(kmin.trim()).ok()?, number::bytes(kmax.trim()).ok()?);
        (kmin <= kmax).then_some((kmin, kmax))
    };
    let expected = "expected two sizes, the smaller one first, like 100KB,400KB";
    read().ok_or_else(|| expected.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_that_telemetry_cannot_say_are_refused() {
        for text in ["0Gbps", "99Mbps", "10001Gbps", "fast"] {
            assert!(rate(text).unwrap_err().contains("from 100Mbps to 10000Gbps"), "{text}");
        }
        assert_eq!(rate("100Mbps"), Ok(Rate::from_bps(100_000_000)));
        assert_eq!(rate("10000Gbps"), Ok(RATE_MAX));
    }

    #[test]
    fn backlogs_for_marks_come_in_order() {
        for text in ["100KB", "400KB,100KB", "1,2,3", "little,much", ""] {
            assert!(marks(text).unwrap_err().contains("the smaller one first"), "{text}");
        }
        assert_eq!(marks("100KB, 400KiB"), Ok((Bytes(100_000), Bytes(400 << 10))));
    }

    #[test]
    fn distances_that_no_link_has_are_refused() {
        for text in ["100s", "901ms", "far"] {
            assert!(duration(text).unwrap_err().contains("from 0us to 900ms"), "{text}");
        }
        assert_eq!([duration("0us"), duration("900ms")], [Ok(Duration::ZERO), Ok(DELAY_MAX)]);
    }
}
