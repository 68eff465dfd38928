//! Zeropod's hosts on a real network. Their scheduler is a process, and the times of their epochs
//! follow from measurements.
//!
//! A real network has switches that queue, and ways that no host can name. So a pod of few hosts is
//! one switch with as many ways through it as hosts. A larger pod is several switches, with as many
//! ways between two of them as each has hosts. Of Zeropod, only the times at which hosts send
//! remain.

use transport::path::{PodFacts, RealPod};
use transport::sched::SchedKind;
use transport::sched::zeropod::timing::{Timing, TimingInputs};
use transport::wire::pod::{CELLS_MAX, JOIN_HOSTS_MAX, hosts_a_switch};
use transport::{Bytes, Config, Duration, Rate};

use super::{Draft, Origin};
use crate::hosts_file::{HOSTS_MAX, HostsFile};
use crate::input::InputError;

/// What hosts of a real network have measured of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// The most by which nine of ten round trips exceed the shortest one, at the worst pair.
    pub jitter: Duration,
    /// The longest base RTT, those to the scheduler among them.
    pub base_rtt: Duration,
    /// A number of the run that hosts have in common, above 0.
    pub run: u16,
}

/// Settings of Zeropod's presets that only a simulation can obey.
const SIMULATED: [&str; 5] =
    ["mtu", "wire.data_overhead", "wire.data_min", "wire.control", "sched.zeropod.optimistic"];

/// Cells of an epoch at least, unless set otherwise: the paper's.
//= zeropod#V-A
const CELLS_MIN: u16 = 16;
/// The cells of an epoch take as many times the jitter, if that many cells fit into one.
const JITTERS: u64 = 4;
/// The guard at least.
const GUARD_MIN: Duration = Duration::from_ns(100);
/// Epochs by which cells are late at most.
const EPOCHS_LATE: u64 = 4;
/// Epochs of receipts and answers that a flow's window covers, beside those that they take.
const SPARE: u64 = 8;

const _: () = assert!(HOSTS_MAX <= JOIN_HOSTS_MAX as usize, "every file's hosts make a pod");

/// The pod of as many hosts as `hosts`, of cells of `payload` bytes, as hosts get it.
pub(super) fn facts(real: RealPod, hosts: u16, payload: u16) -> PodFacts {
    let each = hosts_a_switch(hosts);
    PodFacts {
        per_tor: each,
        hosts,
        aggs: each,
        pods: 1,
        cores: 0,
        cell: payload,
        scheduler: real.scheduler,
        backup: 0,
        hop: real.hop,
        clock_jitter: None,
        real: Some(real),
    }
}

impl Draft {
    /// Fits the draft to the hosts of a real network, where its hosts are Zeropod's: the number
    /// behind the last host is the scheduler's. Nothing for other hosts.
    ///
    /// # Errors
    /// When the file names no scheduler.
    pub fn fit_real_pod(&mut self, file: &HostsFile) -> Result<(), InputError> {
        if self.settings.sched != SchedKind::Zeropod {
            return Ok(());
        }
        if file.scheduler.is_none() {
            let help = "add a [[host]] with role = \"scheduler\" to the file, and start \
                        headrace scheduler there";
            let error = InputError::new("no scheduler", "one, with sched=zeropod");
            return Err(error.at(&file.file, 0, 0).help(help));
        }
        self.take_back(&SIMULATED, "nic");
        let hosts = u16::try_from(file.hosts.len()).unwrap_or(u16::MAX);
        self.real_pod = Some(RealPod {
            scheduler: hosts.into(),
            // Not measured yet.
            run: 0,
            cells: CELLS_MIN.max(hosts_a_switch(hosts)).min(CELLS_MAX),
            delay: Duration::ZERO,
            guard: GUARD_MIN,
            early: GUARD_MIN,
            hop: Duration::ZERO,
        });
        Ok(())
    }

    /// Has epochs follow from what hosts have measured, for packets of `config` at its line rate;
    /// returns the settings that do, each with its value. Nothing for other hosts than Zeropod's.
    ///
    /// # Errors
    /// When a value is out of its range.
    pub fn fit_epochs(
        &mut self,
        measured: &Measured,
        config: &Config,
    ) -> Result<Vec<(&'static str, String)>, InputError> {
        let Some(before) = self.real_pod else { return Ok(Vec::new()) };
        let given = &self.settings.sched_params.zeropod;
        let hosts = u16::try_from(before.scheduler).unwrap_or(u16::MAX);
        let cells = self.is_given("sched.zeropod.cells").then_some(given.cells);
        let ask_every = given.ask_every;
        let guard = self.is_given("sched.zeropod.guard").then_some(given.guard);
        let (cell, rate) = (config.mtu(), config.line_rate);
        let real = RealPod { run: measured.run, ..before };
        let real = epochs(real, (cell, rate), (cells, guard), (measured, hosts));
        let timing = Timing::new(&timing_inputs(&real, (cell, rate))).asking_every(ask_every);
        self.real_pod = Some(real);
        let receipt = timing.request_to_data() + timing.to_receipt + timing.to_gather + SPARE;
        let cells_under_way = receipt * u64::from(real.cells);
        let mut fitted = vec![
            ("sched.zeropod.cells", real.cells.to_string()),
            ("sched.zeropod.guard", format!("{}ns", real.guard.as_ps() / 1000)),
            ("sched.zeropod.early", format!("{}ns", real.early.as_ps() / 1000)),
            ("sched.zeropod.delay", format!("{}ns", real.delay.as_ps() / 1000)),
        ];
        fitted.retain(|(key, _)| !self.is_given(key));
        if !self.is_given("cc.fixed.bdps") {
            let bdp = rate.bytes_in(measured.base_rtt.mul_ratio(1, 4)).0.max(1);
            let bdps = (cells_under_way * cell.0).div_ceil(bdp).clamp(64, 1_000_000);
            self.set("cc.fixed.bdps", &bdps.to_string(), Origin::World("nic"))?;
        }
        if self.psn_window.is_none() {
            let psns = (2 * cells_under_way).next_power_of_two().clamp(128, 1 << 20);
            self.set("psn_window", &psns.to_string(), Origin::World("nic"))?;
        }
        Ok(fitted)
    }
}

/// The terms of a pod as its hosts have them, but for what control packets are long.
fn timing_inputs(real: &RealPod, (cell, rate): (Bytes, Rate)) -> TimingInputs {
    TimingInputs {
        cell,
        control: CONTROL,
        rate,
        hop: real.hop,
        cells: real.cells,
        guard: real.guard,
        delay: real.delay,
        layers: 0,
        early: real.early,
        guards_answers: true,
    }
}

/// Bytes of a request or an answer over IPv6, with its key.
const CONTROL: Bytes = Bytes(118);

/// Epochs that are long enough for the jitter, as far as the cells of one epoch allow. The guard is
/// the jitter, a quarter of the time that the cells take. Where even the most cells take less than
/// four times the jitter, it is up to half of their time.
fn epochs(
    real: RealPod,
    (cell, rate): (Bytes, Rate),
    (cells, guard): (Option<u16>, Option<Duration>),
    (measured, hosts): (&Measured, u16),
) -> RealPod {
    let whole = |span: Duration| Duration::from_ns(span.as_ps().div_ceil(1000));
    let each = rate.time_for(cell);
    let wanted = guard.unwrap_or(measured.jitter) * JITTERS;
    let enough = wanted.as_ps().div_ceil(each.as_ps().max(1));
    let least = CELLS_MIN.max(hosts_a_switch(hosts).saturating_sub(1));
    let cells = cells.unwrap_or_else(|| {
        u16::try_from(enough).unwrap_or(u16::MAX).clamp(least.min(CELLS_MAX), CELLS_MAX)
    });
    let busy = each * u64::from(cells);
    let longest = busy.mul_ratio(1, 2);
    let guard = guard.unwrap_or_else(|| whole(measured.jitter.min(longest)).max(GUARD_MIN));
    // An epoch has two guards at most.
    let delay = whole(busy + rate.time_for(CONTROL) * 2 + guard * 2);
    // Later cells queue, where the jitter is longer than any guard. A host that sends none instead
    // gets nothing done.
    let early = guard.max(whole(measured.jitter.min(delay * EPOCHS_LATE)));
    RealPod { cells, guard, early, delay, hop: whole(measured.base_rtt.mul_ratio(1, 4)), ..real }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> Duration = Duration::from_us;

    /// Epochs of cells of `cell` bytes at `gbps` for the jitter of `jitter_us`.
    fn epochs_of(gbps: u64, cell: u64, jitter_us: u64) -> (RealPod, Timing) {
        let real = RealPod {
            scheduler: 4,
            run: 1,
            cells: 16,
            delay: Duration::ZERO,
            guard: Duration::ZERO,
            early: Duration::ZERO,
            hop: Duration::ZERO,
        };
        let link = (Bytes(cell), Rate::from_gbps(gbps));
        let measured = Measured { jitter: US(jitter_us), base_rtt: US(40), run: 3 };
        let real = epochs(real, link, (None, None), (&measured, 4));
        (real, Timing::new(&timing_inputs(&real, link)))
    }

    #[test]
    fn an_epoch_is_as_many_cells_as_the_jitter_calls_for() {
        // Cells of 8 us.
        let (real, timing) = epochs_of(1, 1000, 10);
        assert_eq!((real.cells, real.guard, real.hop), (16, US(10), US(10)));
        assert_eq!(real.early, real.guard);
        assert!(real.delay >= timing.epoch && timing.epoch > US(128 + 10));
        let (real, _) = epochs_of(1, 1000, 50);
        assert_eq!((real.cells, real.guard), (25, US(50)));
    }

    #[test]
    fn a_guard_is_no_longer_than_half_of_the_cells() {
        let (real, timing) = epochs_of(10, 4200, 5000);
        let cells = Rate::from_gbps(10).time_for(Bytes(4200)) * 32;
        assert_eq!((real.cells, real.guard), (32, cells.mul_ratio(1, 2)));
        assert!(real.early > timing.epoch * 3 && real.early < US(5000), "{real:?}");
        assert!(real.delay >= timing.epoch);
    }
}
