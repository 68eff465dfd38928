//! Whether data follows its SIMs at the last hop: the rate of SIMs at a host beside that of data
//! some time later.
//!
//! Source: \[dcsim\] sec. 4.4, fig. 10(a). What arrives at a host has just left the last port in
//! front of it. Arrivals are counted in intervals of a 7th of RTT_max, from the first SIM on. The
//! correlation of a host at a lag is that of its SIMs with its data so many intervals later.

use serde::{Deserialize, Serialize};
use transport::{Duration, Instant};

/// The lag at which data follows SIMs best. Correlations are means over hosts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Follow {
    /// The correlation at this lag, -1.0..=1.0.
    pub correlation: f64,
    /// The lag, microseconds: a multiple of a 7th of RTT_max.
    pub lag_us: f64,
    /// The lag in RTT_max, 0.0..=2.0.
    pub lag_rtt_max: f64,
    /// The correlation at the paper's lag, 0.86 RTT_max; null where no host has one.
    pub at_papers_lag: Option<f64>,
    /// The correlation without a lag, or null. It is high where both rates rise and fall with the
    /// number of flows.
    pub unshifted: Option<f64>,
}

/// Arrivals at some hosts.
#[derive(Clone, Debug)]
pub struct Following {
    rtt_max: Duration,
    /// A 7th of it, picoseconds.
    interval: u64,
    hosts: Vec<Counted>,
}

/// Arrivals at one host.
#[derive(Clone, Debug, Default)]
struct Counted {
    /// When the first SIM arrived.
    first: Option<Instant>,
    /// SIMs and data of each interval from then on.
    counts: Vec<[u16; 2]>,
}

/// Intervals of an RTT_max: 6 of them are the paper's lag.
const INTERVALS: u32 = 7;
/// The lag at which the paper found the best correlation, 0.86 RTT_max, in intervals.
//= dcsim#4.4
const PAPERS_LAG: usize = 6;
/// The longest lag that is tried, in intervals: twice RTT_max.
const LAGS: usize = 2 * INTERVALS as usize;
/// Intervals that are counted: those of 292 RTT_max. They bound the memory of a host to 8 KiB.
const COUNTED: usize = 2048;
/// Correlations are summed in this fraction of 1, as whole numbers, so that sums do not depend on
/// their order.
const UNIT: f64 = 1.0 / (1u64 << 32) as f64;

impl Following {
    /// Nothing yet, at `hosts` hosts.
    #[must_use]
    pub fn new(rtt_max: Duration, hosts: usize) -> Self {
        let interval = (rtt_max / u64::from(INTERVALS)).as_ps().max(1);
        Self { rtt_max, interval, hosts: vec![Counted::default(); hosts] }
    }

    /// Notes that a SIM or data arrived at host number `host` of these.
    pub fn note(&mut self, host: usize, is_data: bool, now: Instant) {
        let Counted { first, counts } = &mut self.hosts[host];
        if first.is_none() && is_data {
            return;
        }
        let since = now.since(*first.get_or_insert(now)).as_ps();
        let Some(at) = usize::try_from(since / self.interval).ok().filter(|at| *at < COUNTED)
        else {
            return;
        };
        if at >= counts.len() {
            counts.resize(at + 1, [0; 2]);
        }
        let count = &mut counts[at][usize::from(is_data)];
        *count = count.saturating_add(1);
    }

    /// The lag at which data follows SIMs best at the hosts of all groups, which have one RTT_max;
    /// `None` where no host has rates that vary.
    #[must_use]
    pub fn best(groups: &[Self]) -> Option<Follow> {
        let mut sums = [(0i64, 0u32); LAGS + 1];
        for counts in groups.iter().flat_map(|group| &group.hosts).map(|host| &host.counts) {
            // What follows the last data is left out: SIMs there have no data.
            let end = counts.iter().rposition(|[_, data]| *data > 0).map_or(0, |last| last + 1);
            for (lag, sum) in sums.iter_mut().enumerate() {
                if let Some(correlation) = correlation(&counts[..end], lag) {
                    #[expect(clippy::cast_possible_truncation, reason = "at most 1.0 / UNIT")]
                    let units = (correlation / UNIT).round() as i64;
                    *sum = (sum.0 + units, sum.1 + 1);
                }
            }
        }
        #[expect(clippy::cast_precision_loss, reason = "sums of at most 2^16 hosts")]
        let mean = |lag: usize| {
            let (sum, hosts) = sums[lag];
            (hosts > 0).then(|| sum as f64 * UNIT / f64::from(hosts))
        };
        let most = sums.iter().map(|(_, hosts)| *hosts).max().unwrap_or(0);
        // Lags that fewer than half as many hosts have are left out: their means are of others.
        let tried = (0..sums.len()).filter(|lag| sums[*lag].1 * 2 >= most);
        let means = tried.filter_map(|lag| Some((lag, mean(lag)?)));
        let (lag, correlation) = means.max_by(|a, b| a.1.total_cmp(&b.1))?;
        let rtt_max = groups.first()?.rtt_max;
        #[expect(clippy::cast_precision_loss, reason = "a small number")]
        let lag_rtt_max = lag as f64 / f64::from(INTERVALS);
        Some(Follow {
            correlation,
            lag_us: (rtt_max * lag as u64 / u64::from(INTERVALS)).as_us_f64(),
            lag_rtt_max,
            at_papers_lag: mean(PAPERS_LAG),
            unshifted: mean(0),
        })
    }
}

/// Pearson's correlation of SIMs with data `lag` intervals later; `None` where one of them does not
/// vary, or lasts for less than an RTT_max.
#[expect(clippy::cast_precision_loss, reason = "at most 2048 intervals")]
fn correlation(counts: &[[u16; 2]], lag: usize) -> Option<f64> {
    let later = counts.get(lag..).filter(|later| later.len() >= INTERVALS as usize)?;
    let pairs = || {
        let data = later.iter().map(|[_, data]| f64::from(*data));
        counts.iter().map(|[sims, _]| f64::from(*sims)).zip(data)
    };
    let count = later.len() as f64;
    let (sims, data) = pairs().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let (sims, data) = (sims / count, data / count);
    let (mut both, mut of_sims, mut of_data) = (0.0, 0.0, 0.0);
    for (sim, datum) in pairs() {
        both += (sim - sims) * (datum - data);
        of_sims += (sim - sims) * (sim - sims);
        of_data += (datum - data) * (datum - data);
    }
    (of_sims > 0.0 && of_data > 0.0).then(|| both / (of_sims * of_data).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use transport::Rng;

    const RTT_MAX: Duration = Duration::from_us(14);

    /// Arrivals at hosts whose data comes `lag_us` behind SIMs of random rates, or at random.
    fn arrivals(seed: u64, lag_us: Option<u64>) -> Following {
        let mut following = Following::new(RTT_MAX, 3);
        let mut rng = Rng::new(seed);
        for host in 0..3 {
            let (mut at, mut pace) = (5_000_000, 1);
            let mut data = Vec::new();
            while at < 5_400_000 {
                if rng.below(16) == 0 {
                    pace = 100 + rng.below(1000);
                }
                at += pace;
                following.note(host, false, Instant::ZERO + Duration::from_ns(at));
                let random = 5_000_000 + rng.below(400_000);
                data.push(lag_us.map_or(random, |lag| at + lag * 1000));
            }
            for at in data {
                following.note(host, true, Instant::ZERO + Duration::from_ns(at));
            }
        }
        following
    }

    #[test]
    fn data_that_follows_is_found_at_its_lag_and_other_data_is_not() {
        for (lag_us, lag) in [(0, 0.0), (6, 6.0), (12, 12.0), (22, 22.0)] {
            let found = Following::best(&[arrivals(1, Some(lag_us))]).unwrap();
            assert!((found.lag_us - lag).abs() < 1e-9, "{lag_us}: {found:?}");
            assert!((found.lag_rtt_max - lag / 14.0).abs() < 1e-9, "{lag_us}: {found:?}");
            assert!(found.correlation > 0.999 && found.correlation <= 1.0, "{lag_us}: {found:?}");
            let others = [(0, found.unshifted), (12, found.at_papers_lag)];
            for (other, correlation) in others {
                let is_high = correlation.unwrap() > 0.9;
                assert_eq!(is_high, other == lag_us, "{lag_us}: {found:?}");
            }
        }
        let found = Following::best(&[arrivals(2, None)]).unwrap();
        assert!(found.correlation < 0.5, "{found:?}");
    }

    #[test]
    fn sums_do_not_depend_on_how_hosts_are_split() {
        let whole = arrivals(3, Some(10));
        let one =
            |host: &Counted| Following { hosts: vec![host.clone()], ..Following::new(RTT_MAX, 0) };
        let split: Vec<Following> = whole.hosts.iter().rev().map(one).collect();
        assert_eq!(Following::best(&split), Following::best(&[whole]));
    }

    #[test]
    fn rates_that_do_not_vary_or_last_have_no_correlation() {
        assert_eq!(Following::best(&[]), None);
        let mut steady = Following::new(RTT_MAX, 1);
        assert_eq!(Following::best(&[steady.clone()]), None);
        for us in 0..200 {
            for is_data in [false, true] {
                steady.note(0, is_data, Instant::ZERO + Duration::from_us(us));
            }
        }
        assert_eq!(Following::best(&[steady]), None);
        let mut short = Following::new(RTT_MAX, 1);
        short.note(0, false, Instant::ZERO);
        short.note(0, true, Instant::ZERO + Duration::from_us(10));
        assert_eq!(Following::best(&[short]), None);
    }

    #[test]
    fn what_a_host_counts_is_bounded() {
        let mut following = Following::new(RTT_MAX, 1);
        for second in 0..100 {
            for is_data in [true, false] {
                following.note(0, is_data, Instant::ZERO + Duration::from_s(second));
            }
        }
        assert_eq!(following.hosts[0].counts, [[1, 0]], "from the first SIM on");
        following.note(0, true, Instant::ZERO + RTT_MAX * 292);
        assert_eq!(following.hosts[0].counts.len(), COUNTED - COUNTED % 7 + 1);
    }
}
