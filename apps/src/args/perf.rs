//! The flags of `headrace perf` and `headrace ping`.

use clap::{Args, Subcommand};
use experiments::input::number;
use std::path::PathBuf;
use transport::wire::addressing::UDP_PORT;
use transport::{Bytes, Duration, Rate};

use crate::args::{OnOff, PolicyArgs};

/// The end of a measurement of throughput that a process is.
#[derive(Debug, Subcommand)]
pub(crate) enum Perf {
    /// Waits for clients, one after the other; the same server answers `headrace ping`.
    Server(ServerArgs),
    /// Sends to a server, or receives from it, and reports the throughput.
    Client(StreamArgs),
}

/// The end of a measurement of round trips that a process is.
#[derive(Debug, Subcommand)]
pub(crate) enum Ping {
    /// Waits for clients, one after the other; the same server serves `headrace perf client`.
    Server(ServerArgs),
    /// Sends messages that the server answers, one after the other, and reports their round trips.
    Client(PingArgs),
}

/// The device and the addresses of a process.
#[derive(Debug, Args)]
pub(crate) struct DeviceArgs {
    /// A virtual device with its arguments (net_memif0,socket=/run/x.sock), a netdev (eth0), or a
    /// PCI address (0000:3b:00.0).
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: String,
    /// Own number; addresses follow from it [default: 0 for servers, 1 for clients].
    #[arg(long, value_name = "N")]
    pub(crate) host: Option<u32>,
    /// Addresses of host N instead of those that follow from its number, IPv4 or IPv6. Give those
    /// of all hosts from 0 on, the same on both sides. A MAC that is left out is asked for by ARP
    /// or neighbour discovery; the MAC of the own host is then the device's.
    #[arg(long, value_name = "N=IP[,MAC]")]
    pub(crate) at: Vec<String>,
    /// UDP port of packets, the same on both sides.
    #[arg(long, value_name = "N", default_value_t = UDP_PORT,
          value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) udp_port: u16,
    /// Whether to use hugepages; without this flag they are used when there are enough.
    #[arg(long, value_enum)]
    pub(crate) hugepages: Option<OnOff>,
    /// Frames that can be held at once.
    #[arg(long, value_name = "N", default_value_t = 2047,
          value_parser = clap::value_parser!(u32).range(16..=65_535))]
    pub(crate) buffers: u32,
    /// Frames in the device's queue, each way; a power of two.
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = ring)]
    pub(crate) ring: u16,
    /// Core to run on; without this flag any core.
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
    /// Argument for DPDK's EAL, unchanged; may be given several times.
    #[arg(long, value_name = "ARG", allow_hyphen_values = true)]
    pub(crate) eal: Vec<String>,
    /// Seals packets by the keys of a file that both sides have: psk:FILE encrypts payloads,
    /// psk-auth:FILE leaves them readable. Without this flag packets are plain.
    #[arg(long, value_name = "psk:FILE")]
    pub(crate) security: Option<String>,
    /// Appends the keys that seal and open packets of --security to a file of mode 600, for
    /// dissectors of captures. With this file captures can be read and packets can be forged.
    #[arg(long, value_name = "FILE", requires = "security")]
    pub(crate) key_log: Option<PathBuf>,
    /// Seconds of silence after which the other side is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) patience: u64,
    /// Prints the result as JSON and nothing else on standard output.
    #[arg(long)]
    pub(crate) json: bool,
    /// Shows no progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

/// How a server serves.
#[derive(Debug, Args)]
pub(crate) struct ServerArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Ends after so many sessions; without this flag the server runs until Ctrl-C.
    #[arg(long, value_name = "N")]
    pub(crate) sessions: Option<u64>,
    /// Bytes of messages that a session may hold at once.
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
    pub(crate) memory: Bytes,
}

/// A client's flags for the session.
#[derive(Debug, Args)]
pub(crate) struct ClientArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// The server's number.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) server: u32,
    /// Seconds to wait for the link, and for a server that answers and is free.
    #[arg(long, value_name = "SECONDS", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(crate) wait: u64,
    /// Policies and settings, which hold on both sides.
    #[command(flatten)]
    pub(crate) policies: PolicyArgs,
    /// Rate that flows assume for the link [default: 100Gbps over net_memif, else 40Gbps].
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub(crate) rate: Option<Rate>,
    /// Round-trip time of the idle network, at most 2s [default: by device and flows].
    #[arg(long, value_name = "TIME", value_parser = rtt)]
    pub(crate) rtt: Option<Duration>,
    /// Payload bytes of a segment, 1024 to 8960; no more than both devices carry.
    #[arg(long, value_name = "BYTES", default_value_t = 8960,
          value_parser = clap::value_parser!(u16).range(1024..=8960))]
    pub(crate) segment: u16,
    /// UDP checksums in software [default: off over net_memif, else on].
    #[arg(long, value_enum)]
    pub(crate) udp_sum: Option<OnOff>,
    /// Verifies the bytes of every message.
    #[arg(long)]
    pub(crate) verify: bool,
}

/// The stream of a throughput measurement.
#[derive(Debug, Args)]
pub(crate) struct StreamArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Bytes of a message, at most 1GiB.
    #[arg(long, value_name = "BYTES", default_value = "128KiB", value_parser = message)]
    pub(crate) size: Bytes,
    /// Flows each way.
    #[arg(long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) flows: u16,
    /// Messages that a flow has under way.
    #[arg(long, value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u16).range(1..=512))]
    pub(crate) depth: u16,
    /// Seconds to send, at most 10000000 [default: 10, unless --bytes is given].
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) time: Option<Duration>,
    /// Bytes to send, for each side that sends.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub(crate) bytes: Option<Bytes>,
    /// The server sends instead.
    #[arg(long)]
    pub(crate) reverse: bool,
    /// Both send.
    #[arg(long, conflicts_with = "reverse")]
    pub(crate) bidir: bool,
    /// Seconds between two lines of progress, 0.1 to 3600; `--json` has these lines as `intervals`.
    /// With 0 there are none, and no round trips of segments are measured.
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = interval)]
    pub(crate) interval: Duration,
    /// The receiving application takes one message in this time, at most 1000s, to try how a slow
    /// application works.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) think: Option<Duration>,
}

/// The messages of a round-trip measurement.
#[derive(Debug, Args)]
pub(crate) struct PingArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    /// Bytes of a message, at most 1GiB.
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = message)]
    pub(crate) size: Bytes,
    /// Round trips to measure.
    #[arg(long, value_name = "N", default_value_t = 10_000,
          value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub(crate) count: u64,
    /// Time between two messages, at most 1000s [default: none].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(crate) interval: Option<Duration>,
}

fn ring(text: &str) -> Result<u16, String> {
    let frames = text.parse().ok().filter(|n: &u16| n.is_power_of_two());
    frames
        .filter(|n| (64..=16_384).contains(n))
        .ok_or_else(|| "expected a power of two in 64..=16384".to_owned())
}

fn bytes(text: &str) -> Result<Bytes, String> {
    let read = number::bytes(text).ok().filter(|bytes| bytes.0 > 0);
    read.ok_or_else(|| "expected bytes from 1 to 2^64 - 1, like 65536, 128KiB or 1.5MB".to_owned())
}

fn message(text: &str) -> Result<Bytes, String> {
    let read = number::bytes(text).ok().filter(|bytes| (1..=1 << 30).contains(&bytes.0));
    read.ok_or_else(|| "expected bytes from 1 to 1GiB, like 65536, 128KiB or 1.5MB".to_owned())
}

/// A time above zero, at most `most` seconds.
fn time_up_to(text: &str, most: u64) -> Result<Duration, String> {
    let bounds = Duration::from_ps(1)..=Duration::from_s(most);
    let read = number::duration(text).ok().filter(|time| bounds.contains(time));
    read.ok_or_else(|| format!("expected a time above zero, up to {most}s, like 10us or 1.5ms"))
}

fn rtt(text: &str) -> Result<Duration, String> {
    time_up_to(text, 2)
}

fn duration(text: &str) -> Result<Duration, String> {
    time_up_to(text, 1000)
}

fn interval(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let bounds = Duration::from_ms(100)..=Duration::from_s(3600);
    let read = seconds(text).ok().filter(|time| bounds.contains(time));
    read.ok_or_else(|| "expected 0, or seconds from 0.1 to 3600".to_owned())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let unit = if text.ends_with(|c: char| c.is_ascii_digit()) { "s" } else { "" };
    let read = time_up_to(&format!("{text}{unit}"), SECONDS_MAX);
    read.map_err(|_| format!("expected seconds above zero, up to {SECONDS_MAX}, like 10 or 0.5"))
}

/// The longest measurement, in seconds: 115 days.
const SECONDS_MAX: u64 = 10_000_000;

fn rate(text: &str) -> Result<Rate, String> {
    let read = number::rate(text).ok().filter(|rate| *rate > Rate::ZERO);
    read.ok_or_else(|| "expected a rate above zero, like 40Gbps or 800Mbps".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_range_is_refused_with_the_range() {
        let said = |text: Result<Duration, String>| text.unwrap_err();
        assert!(said(rtt("9000s")).contains("up to 2s") && said(rtt("0")).contains("above zero"));
        assert_eq!(rtt("2s"), Ok(Duration::from_s(2)));
        assert!(said(seconds("99999999")).contains("up to 10000000"));
        assert!(said(seconds("0")).contains("above zero"));
        assert_eq!(seconds("0.5"), Ok(Duration::from_ms(500)));
        assert!(said(duration("2000s")).contains("up to 1000s"));
        assert!(message("3GiB").unwrap_err().contains("1 to 1GiB"));
        assert_eq!(message("1GiB"), Ok(Bytes(1 << 30)));
        assert!(bytes("0").unwrap_err().contains("from 1 to"));
    }
}
