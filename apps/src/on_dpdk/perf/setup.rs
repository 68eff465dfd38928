//! From flags to a process's set-up and a session's terms.

use std::collections::BTreeSet;
use std::net::IpAddr;

use experiments::input::InputError;
use experiments::plan::RunError;
use live::peers::{
    ClientOptions, Job, MemoryMode, PeerError, ProcessSetup, SessionTerms, SharedKeys, Side,
};
use transport::wire::addressing::{AddressTable, Addressing, HostAddr, IpVersion};
use transport::{Duration, HostId, Rate};

use crate::args::OnOff;
use crate::args::perf::{ClientArgs, DeviceArgs, PingArgs, StreamArgs};
use crate::failure::Failure;
use crate::on_dpdk::device;

/// The rate that flows assume for a link when no flag gives it.
const RATE_MEMIF: u64 = 100;
const RATE_KERNEL: u64 = 40;
/// Round-trip times of idle links whose ends share cores with others; see docs/PERFORMANCE.md.
const RTT_MEMIF: Duration = Duration::from_us(60);
const RTT_KERNEL: Duration = Duration::from_us(200);

/// Through the kernel an acknowledgement costs as much as a segment without the copies of its
/// payload, so fewer are sent.
const ACK_EVERY: (&str, &str) = ("ack_every", "4");

/// The process of these flags.
pub(super) fn host(args: &DeviceArgs, side: Side) -> Result<ProcessSetup, Failure> {
    let device = device::resolved("--device", &args.device)?;
    let default = if side == Side::Listens { 0 } else { 1 };
    let keys = args.security.as_deref().map(|text| {
        let keys = SharedKeys::read(text)?;
        args.key_log.as_deref().map_or(Ok(keys.clone()), |path| keys.logged(path))
    });
    let keys = keys.transpose().map_err(|error| Failure::CommandLine(format!("error: {error}")))?;
    let (addressing, unresolved) = addressing(args, args.host.unwrap_or(default))?;
    Ok(ProcessSetup {
        device,
        side,
        host: HostId(args.host.unwrap_or(default)),
        addressing: addressing.with_udp_port(args.udp_port),
        unresolved,
        memory: match args.hugepages {
            None => MemoryMode::Auto,
            Some(OnOff::On) => MemoryMode::Hugepages,
            Some(OnOff::Off) => MemoryMode::NoHuge,
        },
        buffers: args.buffers,
        depth: args.ring,
        eal_arguments: args.eal.clone(),
        core: args.core,
        keys,
    })
}

/// The terms of a measurement of throughput.
pub(super) fn stream(args: &StreamArgs) -> Result<(SessionTerms, ClientOptions), Failure> {
    // Shorter times than the units of a session are one of these, and not nothing.
    let ms = |time: Duration| time.as_ps().div_ceil(1_000_000_000);
    let duration = match (args.time, args.bytes) {
        (None, None) => Some(Duration::from_s(10)),
        (time, _) => time,
    };
    let job = Job::Perf {
        up: !args.reverse,
        down: args.reverse || args.bidir,
        duration_ms: duration.map(ms),
        bytes: args.bytes.map(|bytes| bytes.0),
    };
    let message_bytes = u32::try_from(args.size.0).unwrap_or(u32::MAX);
    let think_us = args.think.map_or(0, |time| time.as_ps().div_ceil(1_000_000));
    let (depth, interval_ms) = (args.depth, ms(args.interval));
    let terms = SessionTerms {
        job,
        message_bytes,
        depth,
        think_us,
        interval_ms,
        ..SessionTerms::default()
    };
    let terms = with_client(terms, &args.client, args.flows)?;
    Ok((terms, options(&args.client, 0, None)))
}

/// The terms of a measurement of round trips.
pub(super) fn ping(args: &PingArgs) -> Result<(SessionTerms, ClientOptions), Failure> {
    let message_bytes = u32::try_from(args.size.0).unwrap_or(u32::MAX);
    let terms = SessionTerms { job: Job::Ping, message_bytes, ..SessionTerms::default() };
    let terms = with_client(terms, &args.client, 1)?;
    Ok((terms, options(&args.client, args.count, args.interval)))
}

fn options(args: &ClientArgs, pings: u64, interval: Option<Duration>) -> ClientOptions {
    ClientOptions {
        server: HostId(args.server),
        wait: Duration::from_s(args.wait),
        patience: Duration::from_s(args.device.patience),
        pings,
        interval: interval.unwrap_or(Duration::ZERO),
    }
}

fn with_client(
    terms: SessionTerms,
    args: &ClientArgs,
    flows: u16,
) -> Result<SessionTerms, Failure> {
    if args.device.host.unwrap_or(1) == args.server {
        let found = format!("host {}, which is the server", args.server);
        let error = InputError::new(found, "another number").at("--host", 0, 0);
        return Err(error
            .help("give the server's number with --server, this host's with --host")
            .into());
    }
    let device = device::named("--device", &args.device.device)?;
    let is_memif = device.meets();
    let gbps = if is_memif { RATE_MEMIF } else { RATE_KERNEL };
    let rate = args.rate.unwrap_or_else(|| Rate::from_gbps(gbps));
    // Half of the receiver's queue, so that windows never fill it; its places are frames.
    let segment = args.segment.min(device.frame_max());
    let queue = u64::from(args.device.ring) * u64::from(segment) / 2;
    let most = if is_memif { RTT_MEMIF } else { RTT_KERNEL };
    let rtt = args.rtt.unwrap_or_else(|| SessionTerms::rtt_for(queue, rate, flows, most));
    let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let mut set: Vec<_> = args.policies.settings()?.into_iter().map(owned).collect();
    if device.interface().is_some() && set.iter().all(|(key, _)| key != ACK_EVERY.0) {
        set.push((ACK_EVERY.0.to_owned(), ACK_EVERY.1.to_owned()));
    }
    Ok(SessionTerms {
        transport: args.policies.transport.clone(),
        cc: args.policies.cc.clone(),
        lb: args.policies.lb.clone(),
        set,
        rate_bps: rate.as_bps(),
        base_rtt_ns: rtt.as_ps() / 1000,
        payload_bytes: args.segment,
        flows,
        udp_sums: args.udp_sum.map_or(!is_memif, |sum| sum == OnOff::On),
        verify: args.verify,
        ..terms
    })
}

/// The first host below those in `at` that has no address there.
fn gap(at: &[String]) -> String {
    let given: BTreeSet<usize> = at.iter().filter_map(|text| Some(address(text)?.0)).collect();
    let missing = (0..).find(|number| !given.contains(number)).unwrap_or(0);
    format!("hosts are numbered from 0, and host {missing} has no --at")
}

/// Addresses by number, or those that were given.
fn addressing(args: &DeviceArgs, own: u32) -> Result<(Addressing, Vec<HostId>), Failure> {
    if args.at.is_empty() {
        return Ok((Addressing::emulated(IpVersion::V4), Vec::new()));
    }
    let wrong = |text: &str, why: String| {
        let help = "like --at 0=192.0.2.1 --at 1=192.0.2.2,02:00:00:00:00:02";
        let error = InputError::new(format!("`{text}` ({why})"), "N=IP[,MAC]").at("--at", 0, 0);
        Failure::from(error.help(help))
    };
    let mut hosts: Vec<Option<HostAddr>> = vec![None; args.at.len()];
    let mut unresolved = Vec::new();
    for text in &args.at {
        let read = address(text).ok_or_else(|| wrong(text, "unreadable".to_owned()))?;
        let (number, ip, mac) = read;
        let addr = HostAddr { mac: mac.unwrap_or(UNUSED_MAC), ip };
        if mac.is_none() {
            unresolved.extend(u32::try_from(number).map(HostId));
        }
        let place = hosts.get_mut(number);
        let place = place.ok_or_else(|| wrong(text, gap(&args.at)))?;
        if place.replace(addr).is_some() {
            return Err(wrong(text, "this host has an address already".to_owned()));
        }
    }
    let hosts: Vec<HostAddr> = hosts.into_iter().flatten().collect();
    let known = hosts.len();
    let table = AddressTable::new(hosts);
    let table = table.map_err(|error| wrong(&args.at.join(" "), error.to_string()))?;
    if own as usize >= known {
        return Err(wrong(&args.at.join(" "), format!("host {own}, this one, is missing")));
    }
    Ok((Addressing::table(table), unresolved))
}

/// Stands for a MAC that is not known yet: locally administered, of no host.
const UNUSED_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0];

/// `N=IP` or `N=IP,MAC`.
fn address(text: &str) -> Option<(usize, IpAddr, Option<[u8; 6]>)> {
    let (number, rest) = text.split_once('=')?;
    let number = number.trim().parse().ok()?;
    let Some((ip, mac)) = rest.split_once(',') else {
        return Some((number, rest.trim().parse().ok()?, None));
    };
    let ip: IpAddr = ip.trim().parse().ok()?;
    let octets: Vec<u8> = mac
        .trim()
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16).ok().filter(|_| octet.len() == 2))
        .collect::<Option<_>>()?;
    Some((number, ip, Some(octets.try_into().ok()?)))
}

impl From<PeerError> for Failure {
    fn from(error: PeerError) -> Self {
        match error {
            PeerError::Input(error) => Self::Input(error),
            PeerError::Plan(RunError::Input(error)) => Self::Input(error),
            PeerError::Plan(error) => Self::Plan(error),
            PeerError::Refused(_) => Self::CommandLine(format!("error: {error}")),
            PeerError::Dpdk(_) => Self::Unfit(error.to_string()),
            PeerError::Interrupted => Self::Interrupted(error.to_string()),
            PeerError::Address(_) => Self::CommandLine(format!("error: {error}")),
            PeerError::LinkDown { .. }
            | PeerError::NoMac { .. }
            | PeerError::NoServer { .. }
            | PeerError::Busy(_)
            | PeerError::Stopped(_)
            | PeerError::Undelivered(_)
            | PeerError::Silent { .. } => Self::Peer(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::perf::Perf;
    use crate::cli::{Cli, Command};
    use clap::Parser as _;

    fn client(more: &[&str]) -> StreamArgs {
        let device: &[&str] =
            if more.contains(&"--device") { &[] } else { &["--device", "net_memif0"] };
        let all = [&["headrace", "perf", "client"], device, more].concat();
        let cli = Cli::try_parse_from(all).unwrap();
        match cli.command {
            Command::Perf { what: Perf::Client(args) } => args,
            other => panic!("{other:?}"),
        }
    }

    fn addresses(at: &[&str]) -> Result<(Addressing, Vec<HostId>), String> {
        let flags: Vec<&str> = at.iter().flat_map(|text| ["--at", text]).collect();
        let args = client(&flags).client.device;
        addressing(&args, 1).map_err(|failure| {
            let mut text = Vec::new();
            failure.write(&mut text).unwrap();
            String::from_utf8(text).unwrap()
        })
    }

    #[test]
    fn addresses_are_derived_or_given_for_all_hosts() {
        assert_eq!(addresses(&[]), Ok((Addressing::emulated(IpVersion::V4), Vec::new())));
        let both = ["1=192.0.2.2,02:00:00:00:00:02", "0=192.0.2.1,02:00:00:00:00:01"];
        let (table, unresolved) = addresses(&both).unwrap();
        assert_eq!(unresolved, []);
        let first = table.addr(HostId(0)).unwrap();
        assert_eq!(first.ip.to_string(), "192.0.2.1");
        for (at, why) in [
            (vec!["0=192.0.2.1,02:00:00:00:00:01"], "host 1, this one, is missing"),
            (vec!["7=192.0.2.1,02:00:00:00:00:01"], "numbered from 0, and host 0 has no --at"),
            (vec!["0=192.0.2.1", "2=192.0.2.3"], "host 1 has no --at"),
            (vec!["0=192.0.2.1,"], "unreadable"),
            (vec!["0=192.0.2.1", "1=fd00::1"], "IP version"),
            (vec!["0=192.0.2.1,01:00:00:00:00:01", both[0]], "unicast"),
        ] {
            let text = addresses(&at).unwrap_err();
            assert!(text.contains(why) && text.contains("--at"), "{text}");
        }
        let asked = ["0=fd00::1", "1=fd00::2,02:00:00:00:00:02"];
        let (table, unresolved) = addresses(&asked).unwrap();
        assert_eq!(unresolved, [HostId(0)]);
        assert_eq!(table.version(), IpVersion::V6);
    }

    #[test]
    fn a_job_ends_by_time_unless_bytes_are_given_and_directions_are_as_asked() {
        let job = |more: &[&str]| stream(&client(more)).unwrap().0.job;
        let perf = |up, down, duration_ms, bytes| Job::Perf { up, down, duration_ms, bytes };
        assert_eq!(job(&[]), perf(true, false, Some(10_000), None));
        assert_eq!(job(&["--bytes", "1MiB", "--reverse"]), perf(false, true, None, Some(1 << 20)));
        let both = job(&["--time", "0.5", "--bytes", "1k", "--bidir"]);
        assert_eq!(both, perf(true, true, Some(500), Some(1000)));
    }

    #[test]
    fn windows_of_all_flows_fit_half_the_receivers_queue() {
        let terms = stream(&client(&["--flows", "16"])).unwrap().0;
        let windows = terms.rate_bps / 8 * terms.base_rtt_ns / 1_000_000_000 * 16 * 3 / 2;
        assert!(windows <= 512 * 8960 / 2, "{windows}");
        // Over an interface of unknown MTU, frames are those of MTU 1500.
        let short = client(&["--device", "net_af_xdp0,iface=nosuch"]);
        let terms = stream(&short).unwrap().0;
        assert!(terms.rate_bps / 8 * terms.base_rtt_ns / 1_000_000_000 * 3 / 2 <= 512 * 1514 / 2);
    }

    #[test]
    fn fewer_acknowledgements_are_sent_through_the_kernel_unless_a_setting_says() {
        let set = |more: &[&str]| stream(&client(more)).unwrap().0.set;
        assert_eq!(set(&[]), []);
        let kernel = ["--device", "net_af_packet0,iface=lo"];
        assert_eq!(set(&kernel), [("ack_every".to_owned(), "4".to_owned())]);
        let said = [&kernel[..], &["--set", "ack_every=1"]].concat();
        assert_eq!(set(&said), [("ack_every".to_owned(), "1".to_owned())]);
    }
}
