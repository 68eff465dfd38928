//! Counters of a worker and its device, by name: one name a counter, in every report.
//!
//! | Name | Counts |
//! |---|---|
//! | `completions_waited` | turns that ended with something an application's ring had no room for |
//! | `starved` | polls that could not send because the pool was empty |
//! | `device_full` | bursts that the device did not take as a whole |
//! | `no_buffer`, `device_stuck`, ... | drops, by the names of `DropReason` |
//! | `restored` | segments restored from parity |
//! | `ec_auto_coded`, `ec_auto_uncoded` | blocks that `ec=auto` coded, or not at losses of links |
//! | `parity_recomputed` | blocks whose parity was computed from the memory of their messages |
//! | `parity_refused` | parity dropped because there was no memory to keep it; among `no_buffer` |
//! | `unrestored` | acknowledged blocks that their packets, at odds, do not restore |
//! | `unsendable`, `refused` | segments without bytes; frames that the device cannot send |
//! | `int_refused`, `advice_refused` | telemetry and advice that controllers of hosts refuse |
//! | `probes` | segments sent again to probe silences |
//! | `timed` | frames handed over ahead of their departure, whose time the device was given |
//! | `stamped` | frames whose time of arrival is the device's |
//! | `stamps_refused` | such times that could not be true |
//! | `clock_jumps`, `clock_lost` | times that this clock jumped; 1 when it was given up |
//! | `ring_full` | frames dropped because another worker's ring was full |
//! | `device_*` | what the device has counted of errors |
//!
//! A count of 0 is left out. Nothing here is on the packet path.

use experiments::measure::own::OfHosts;
use experiments::measure::{Counters, join};
use transport::Instant;
use transport_dpdk::{AppMemory, Clock, DeviceClock, PortIo, Worker};
use transport_dpdk::{PacketIo, Upkeep as _};

use super::hosts::Polled;

/// The counters of a worker; without its device, which may outlive it.
pub(crate) fn of_worker<C: Clock>(worker: &Worker<PortIo, AppMemory, C>) -> Counters {
    let (counts, stats) = (worker.counts(), worker.stats());
    let named = [
        ("data_new", stats.data_new),
        ("data_placed", stats.data_placed),
        ("retransmitted", stats.retransmitted),
        ("duplicates", stats.duplicates),
        ("trimmed", stats.trimmed),
        ("lost_by_sack", stats.lost_by_sack),
        ("lost_by_timeout", stats.lost_by_timeout),
        ("acks_discarded", stats.acks_discarded),
        ("answers_withheld", stats.answers_withheld),
        ("switch_notes", stats.switch_notes),
        ("int_refused", stats.int_refused),
        ("advice_refused", stats.advice_refused),
        ("probes", stats.probes),
        ("ec_auto_coded", stats.ec_auto_coded),
        ("ec_auto_uncoded", stats.ec_auto_uncoded),
        ("attached", counts.attached),
        ("restored", stats.restored),
        ("parity_recomputed", counts.parity_recomputed),
        ("parity_refused", counts.parity_refused),
        ("unrestored", counts.unrestored),
        ("unsendable", counts.unsendable),
        ("completions_waited", counts.completions_waited),
    ];
    let drops = stats.drops.iter().map(|(reason, count)| (reason.name(), count));
    collect(named.into_iter().chain(drops))
}

/// What was counted since `before`; a count of 0 is left out.
pub(crate) fn since(mut now: Counters, before: &Counters) -> Counters {
    for (name, count) in &mut now {
        *count = count.saturating_sub(before.get(name).copied().unwrap_or(0));
    }
    now.retain(|_, count| *count > 0);
    now
}

/// The counters of a device since it was opened.
pub(crate) fn of_device(io: &PortIo) -> Counters {
    let queue = io.queue();
    let stats = queue.stats();
    let clock = io.device_clock().map(DeviceClock::counts).unwrap_or_default();
    collect([
        ("starved", io.starved()),
        ("device_full", io.full()),
        ("ring_full", io.hand_over().ring_full),
        ("refused", io.counts().refused),
        ("timed", io.counts().timed),
        ("stamped", clock.stamped),
        ("stamps_refused", clock.refused),
        ("clock_jumps", clock.jumps),
        ("clock_lost", clock.lost),
        ("device_rx_missed", stats.rx_missed),
        ("device_rx_errors", stats.rx_errors),
        ("device_rx_no_mbuf", stats.rx_no_mbuf),
        ("device_tx_errors", stats.tx_errors),
    ])
}

fn collect(named: impl IntoIterator<Item = (&'static str, u64)>) -> Counters {
    let counted = named.into_iter().filter(|(_, count)| *count > 0);
    counted.map(|(name, count)| (name.to_owned(), count)).collect()
}

/// Sums over workers. Packets.
#[derive(Default)]
pub(crate) struct Workers {
    /// What endpoints and their schedulers counted; the counters of workers and their devices are
    /// among its counters.
    pub(crate) hosts: OfHosts,
    /// Segments taken from endpoints.
    pub(crate) taken: u64,
    /// Segments taken and lost before the link.
    pub(crate) lost: u64,
    /// Segments lost because the device took nothing.
    pub(crate) stuck: u64,
    /// Segments lost without bytes or address.
    pub(crate) unsendable: u64,
    /// Given to workers.
    pub(crate) received: u64,
    /// Found on links after the end.
    pub(crate) left: u64,
}

/// Descriptors of the longest receive queue: DPDK counts them in 16 bits.
const DESCRIPTORS_MAX: u64 = 1 << 16;

/// The sum of the counters of all threads' workers, whose devices are emptied at `now`, a time that
/// the workers' clock has reached: a device's stamps are compared with it.
pub(crate) fn sum(polled: &mut [Polled], now: Instant) -> Workers {
    let mut sum = Workers::default();
    for host in polled.iter_mut().flat_map(|polled| &mut polled.hosts) {
        let counts = *host.counts();
        sum.hosts.add(host.endpoint());
        join(&mut sum.hosts.counters, &of_worker(host));
        join(&mut sum.hosts.counters, &of_device(host.io()));
        sum.taken += counts.filled + counts.unsendable;
        sum.stuck += counts.stuck;
        sum.unsendable += counts.unsendable;
        sum.received += counts.received;
        let io = host.io();
        let kept = io.kept() as u64;
        sum.lost += counts.unsendable + counts.stuck + kept + io.counts().refused;
        sum.left += emptied(io, now);
    }
    sum
}

/// Frees the frames that a device holds, and returns how many they were. Over a real network others
/// may go on sending, so it ends when a whole queue has been freed.
fn emptied(io: &mut impl PacketIo, now: Instant) -> u64 {
    let mut freed = 0;
    while freed < DESCRIPTORS_MAX {
        let found = io.rx_burst(now) as u64;
        io.rx_release();
        freed += found;
        if found == 0 {
            break;
        }
    }
    freed
}
