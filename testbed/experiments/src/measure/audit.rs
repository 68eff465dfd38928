//! Conservation: every packet and byte was delivered, was dropped for a reason, or is still under
//! way.

use fabric::Network;
use serde::Serialize;
use transport::{DropReason, Stats};

use super::scheduler::pods;
use super::total;
use crate::conductor::Conductor;

/// The verdict at the end of a run, and every imbalance found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Audit {
    /// Whether nothing was found.
    pub ok: bool,
    /// One sentence an imbalance.
    pub findings: Vec<String>,
}

/// A driver's counts of its packets at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct DriverCount {
    /// Packets the endpoints were asked for and the driver accepted.
    pub handed_over: u64,
    /// Packets the driver keeps for the network: those under way.
    pub kept: u64,
    /// Packets given to endpoints, damaged ones included.
    pub given: u64,
    /// Packets lost, by a named reason, between endpoints and network; none in virtual time.
    pub lost_before: u64,
    /// Packets lost, by a named reason, between network and endpoints, or left there.
    pub lost_after: u64,
    /// Packets that drivers keep until their departure.
    pub waiting: u64,
    /// Packets that endpoints count as dropped although they were sending them.
    pub dropped_sending: u64,
}

impl Audit {
    /// Checks a run.
    #[must_use]
    pub fn of(
        conductor: &Conductor<'_>,
        stats: &Stats,
        network: &Network,
        driver: DriverCount,
    ) -> Self {
        let mut audit = Self { ok: true, findings: Vec::new() };
        let fabric = network.audit();
        if let Err(imbalance) = fabric.check() {
            audit.find(format!("network: {imbalance}"));
        }
        let collisions = fabric.dropped.of(DropReason::Collision);
        if collisions > 0 && pods(network).is_some() {
            let what = "packets met others in switches without buffers";
            audit.find(format!("network: {collisions} {what}"));
        }
        audit.hosts(stats, driver);
        let injected = fabric.injected + driver.lost_before + driver.waiting;
        audit.balance(
            "packets: taken by drivers",
            driver.handed_over,
            "injected or lost",
            injected,
        );
        audit.balance(
            "packets: in queues, held and on links",
            fabric.inside(),
            "kept by the driver",
            driver.kept,
        );
        let given = driver.given + driver.lost_after;
        audit.balance("packets: delivered", fabric.delivered, "given to hosts or lost", given);
        audit.bytes(conductor, stats);
        audit
    }

    /// Checks a run over a network that could not be looked into. At most as many packets may have
    /// arrived as drivers took, less those that were lost before they left and the `asked` ones,
    /// which went to no host. `arrived` counts packets of other hosts that hosts recognised as
    /// theirs: those that switches sent are not among them.
    #[must_use]
    pub fn of_hosts(
        conductor: &Conductor<'_>,
        stats: &Stats,
        (driver, asked): (DriverCount, u64),
        arrived: u64,
    ) -> Self {
        let mut audit = Self { ok: true, findings: Vec::new() };
        audit.hosts(stats, driver);
        let left = driver.handed_over.saturating_sub(total([driver.lost_before, asked]));
        if arrived > left {
            audit.find(format!("packets: {left} left hosts, {arrived} arrived"));
        }
        if stats.messages_sent > stats.messages_delivered {
            audit.find(format!(
                "messages: {} acknowledged, {} delivered",
                stats.messages_sent, stats.messages_delivered
            ));
        }
        audit.bytes(conductor, stats);
        audit
    }

    /// [`Audit::of_hosts`] for the hosts that are left where others are gone, with their own
    /// counts. Only what each host can account for by itself is checked.
    #[must_use]
    pub fn of_survivors(conductor: &Conductor<'_>, stats: &Stats, driver: DriverCount) -> Self {
        let mut audit = Self { ok: true, findings: Vec::new() };
        audit.hosts(stats, driver);
        audit.bytes(conductor, stats);
        audit
    }

    /// Checks that drivers took as many packets as endpoints have sent, and that all packets given
    /// to endpoints are accounted for.
    fn hosts(&mut self, stats: &Stats, driver: DriverCount) {
        let sent = total([
            stats.data_new,
            stats.copies,
            stats.parity_new,
            stats.retransmitted,
            stats.acks_sent,
            stats.nacks_sent,
            stats.block_nacks_sent,
            stats.control_sent,
        ]);
        self.balance("packets: sent by endpoints", sent, "taken by drivers", driver.handed_over);
        let accounted = total([
            stats.data_placed,
            stats.parity_kept,
            stats.parity_unneeded,
            stats.duplicates,
            stats.trimmed,
            stats.acks_received,
            stats.nacks_received,
            stats.block_nacks_received,
            stats.control_received,
            stats.drops.total(),
        ]);
        let accounted = accounted.saturating_sub(driver.dropped_sending);
        // A trimmed duplicate is acknowledged as a duplicate and counted as trimmed too.
        if accounted < driver.given || accounted > total([driver.given, stats.trimmed]) {
            self.find(format!(
                "packets: {} given to hosts, {accounted} accounted for by endpoints",
                driver.given
            ));
        }
    }

    /// Every finished flow has all its bytes once, at both ends; no flow has more than it sent. No
    /// message comes again but where a restart of its receiver explains it.
    fn bytes(&mut self, conductor: &Conductor<'_>, stats: &Stats) {
        let (mut delivered, mut over) = (0, 0u64);
        for (spec, record) in conductor.matrix().flows.iter().zip(conductor.records()) {
            delivered = total([delivered, record.delivered]);
            let whole = record.fct().is_none()
                || (record.delivered, record.acked) == (spec.size.0, spec.size.0);
            let most = record.delivered.max(record.acked);
            over += u64::from(most > spec.size.0 || !whole);
        }
        if over > 0 {
            self.find(format!(
                "bytes: {over} flows were delivered or acknowledged short or more than once"
            ));
        }
        let lost = conductor.lost();
        if lost > 0 {
            self.find(format!("bytes: {lost} acknowledged beyond those delivered"));
        }
        let wrong = conductor.repeats().wrong;
        if wrong > 0 {
            self.find(format!("messages: {wrong} delivered again, which no restart explains"));
        }
        if delivered > stats.data_placed_bytes {
            self.find(format!(
                "bytes: {delivered} delivered to applications, {} placed",
                stats.data_placed_bytes
            ));
        }
    }

    fn balance(&mut self, what: &str, left: u64, other: &str, right: u64) {
        if left != right {
            self.find(format!("{what} {left}, {other} {right}"));
        }
    }

    /// Adds a finding.
    pub fn find(&mut self, finding: String) {
        self.ok = false;
        self.findings.push(finding);
    }
}
