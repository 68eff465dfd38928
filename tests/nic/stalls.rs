//! Processes that stand still for a while in the middle of a run, and hosts of the `nic` world that
//! are killed there.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use transport::Rng;

use crate::cases::{PATIENT, on_bridge, over_memif, same_story, v4};
use crate::hosts::{Ended, Files, Running};
use system_tests::cases::Verdict::{self, Passed, Skipped};
use system_tests::metrics::counted;

/// Both ways, for several seconds.
const LONG: &str = "\
Nodes 2
Connections 4
0->1 id 1 start 0 size 1000000000
1->0 id 2 start 0 size 1000000000
0->1 id 3 start 0 size 1000000
1->0 id 4 start 0 size 1000000
";

/// As [`LONG`], for about a second.
const BRIEF: &str = "\
Nodes 2
Connections 4
0->1 id 1 start 0 size 300000000
1->0 id 2 start 0 size 300000000
0->1 id 3 start 0 size 1000000
1->0 id 4 start 0 size 1000000
";

/// Between two breaks.
const RUNS_FOR: Duration = Duration::from_millis(200);

/// A host that takes longer to begin hangs.
const BEGINS_WITHIN: Duration = Duration::from_secs(60);

/// Survivors name a killed host within this, where the crashes are the aim ([`within`]).
const NAMED_WITHIN: Duration = Duration::from_secs(1);

/// Survivors whose last flow is over end within this, on a machine where other programs run.
const ENDS_WITHIN: Duration = Duration::from_secs(6);

/// `limit` in `make crash`, which says how many `CRASHES` there are. Any other run may be on a
/// machine that is busy, and says only that nothing hangs.
fn within(limit: Duration) -> Duration {
    if std::env::var_os("CRASHES").is_some() { limit } else { BEGINS_WITHIN }
}

/// A break of an emulated run, and the time between two.
const BREAK: Duration = Duration::from_millis(300);

/// The breaks of the shorter case, milliseconds: each host in turn.
const SHORT: [u64; 4] = [100, 100, 300, 1000];

/// Starts all hosts, each with its flags, and waits until segments of host 0 have left.
pub(crate) fn under_way<'a, const HOSTS: usize>(
    files: &Files,
    more: impl Fn(usize) -> Vec<&'a str>,
) -> [Running; HOSTS] {
    let metrics = files.path("metrics");
    let flag = ["--metrics", metrics.to_str().unwrap()];
    let mut hosts = std::array::from_fn(|host| {
        let own = if host == 0 { &flag[..] } else { &[] };
        files.start(u32::try_from(host).unwrap(), &[own, &more(host)].concat())
    });
    let begun = Instant::now();
    while !has_sent(&metrics) {
        assert!(begun.elapsed() < BEGINS_WITHIN, "the run does not begin");
        assert!(hosts.iter_mut().all(Running::goes_on), "{:?}", hosts.map(Running::wait));
        sleep(Duration::from_millis(5));
    }
    hosts
}

fn has_sent(metrics: &Path) -> bool {
    counted(metrics, "headrace_endpoint_data_new_total", "").is_some_and(|sent| sent > 0)
}

/// Stops the hosts in turn for these milliseconds; all flows finish with the right bytes.
fn survived(breaks: &[u64]) -> Verdict {
    let files = over_memif(LONG);
    let mut hosts = under_way::<2>(&files, |_| Vec::new());
    let mut stopped = 0;
    for (turn, ms) in breaks.iter().enumerate() {
        let host = &mut hosts[(turn + 1) % 2];
        if !host.goes_on() {
            break;
        }
        host.signal("STOP");
        sleep(Duration::from_millis(*ms));
        host.signal("CONT");
        stopped += 1;
        sleep(RUNS_FOR);
    }
    let ended = hosts.map(Running::wait);
    let summary = same_story(&ended);
    assert_eq!(
        (summary["flows"]["finished"].as_u64(), summary["audit"]["ok"].as_bool()),
        (Some(4), Some(true))
    );
    assert!(stopped >= breaks.len().min(2), "the run ended after {stopped} breaks");
    Passed
}

pub(crate) fn short() -> Verdict {
    survived(&SHORT)
}

/// Breaks of `--stall SECONDS`, for each host; without it the case has nothing to do.
pub(crate) fn long() -> Verdict {
    let words: Vec<String> = std::env::args().collect();
    let at = words.iter().position(|word| word == "--stall");
    let Some(seconds) = at.and_then(|at| words.get(at + 1)?.parse::<u64>().ok()) else {
        return Skipped("`--stall SECONDS` runs it".to_owned());
    };
    survived(&[seconds * 1000, seconds * 1000])
}

/// The link of a host of a bridge goes down for as long as `STALLS` says, or for the first two of
/// these, milliseconds: all flows finish with the right bytes.
pub(crate) fn unlinked() -> Verdict {
    let long = std::env::var("STALLS").unwrap_or_default();
    let long = long.split(',').filter_map(|second| Some(1000 * second.parse::<u64>().ok()?));
    let breaks: Vec<u64> = [100, 1000].into_iter().chain(long).collect();
    let matrix = if breaks.len() > 2 { LONG } else { BRIEF };
    let files = match on_bridge((2, 9000), matrix, v4) {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let mut hosts = under_way::<2>(&files, |_| Vec::new());
    let mut downs = 0;
    for (host, ms) in [1, 0].into_iter().cycle().zip(&breaks) {
        if !hosts[0].goes_on() {
            break;
        }
        files.link(host, false);
        sleep(Duration::from_millis(*ms));
        files.link(host, true);
        downs += 1;
        sleep(RUNS_FOR);
    }
    let summary = same_story(&hosts.map(Running::wait));
    assert_eq!(summary["flows"], json!({"total": 4, "finished": 4}));
    assert!(downs >= 2, "the run ended after {downs} breaks");
    Passed
}

/// A host that stands still for so long before its run has begun is waited for.
const LATE: Duration = Duration::from_secs(2);

/// A host stands still while hosts meet, ask for MACs and measure: the run begins once the host
/// goes on.
pub(crate) fn starting() -> Verdict {
    let mut rng = Rng::new(16).fork("start", 0);
    for late in [1, 0].into_iter().cycle().take(usize::try_from(crashes()).unwrap()) {
        let files =
            over_memif("Nodes 2\nConnections 2\n0->1 start 0 size 9000\n1->0 start 0 size 9000\n");
        let hosts = [0, 1].map(|host| files.start(host, &PATIENT));
        sleep(Duration::from_millis(100 + rng.below(1200)));
        hosts[late].signal("STOP");
        sleep(LATE);
        hosts[late].signal("CONT");
        let summary = same_story(&hosts.map(Running::wait));
        assert_eq!(summary["flows"], json!({"total": 2, "finished": 2}));
    }
    Passed
}

/// A host has opened its device, stands still while hosts ask for MACs and measure, and is killed:
/// the other one ends and names it.
pub(crate) fn killed_early() -> Verdict {
    let mut rng = Rng::new(17).fork("early", 0);
    for victim in [1, 0].repeat(usize::try_from(crashes()).unwrap()) {
        let files = over_memif("Nodes 2\nConnections 1\n0->1 start 3600000000000 size 9\n");
        let mut hosts = [0, 1].map(|host| Some(files.start(host, &[])));
        let mut killed = hosts[victim].take().unwrap();
        let begun = Instant::now();
        while killed.goes_on() && !killed.maps("memif_region") {
            assert!(begun.elapsed() < BEGINS_WITHIN, "the device does not open");
            sleep(Duration::from_micros(200));
        }
        sleep(Duration::from_millis(rng.below(40)));
        killed.signal("STOP");
        sleep(Duration::from_millis(rng.below(100)));
        killed.kill();
        let ended = hosts[1 - victim].take().unwrap().wait();
        let named = |when: &str| {
            let words = format!("host `h{victim}` failed {when} the run: its process has ended");
            ended.err.contains(&words)
        };
        // On a quick machine the run begins before the host stands still.
        let before = ended.code == Some(3) && named("before");
        assert!(before || ended.code == Some(1) && named("during"), "{ended:?}");
    }
    Passed
}

pub(crate) fn killed() -> Verdict {
    let mut rng = Rng::new(7).fork("kill", 0);
    for victim in [1, 0].repeat(usize::try_from(crashes()).unwrap()) {
        let files = over_memif(LONG);
        let mut hosts = under_way::<2>(&files, |_| Vec::new()).map(Some);
        sleep(Duration::from_millis(rng.below(300)));
        let mut killed = hosts[victim].take().unwrap();
        killed.kill();
        let at = Instant::now();
        let survivor = hosts[1 - victim].take().unwrap();
        named(victim, &[&survivor], at);
        let ended = survivor.wait();
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(at.elapsed() < within(ENDS_WITHIN), "{:?}: {ended:?}", at.elapsed());
        // The next start needs nothing removed or repaired.
        let next = over_memif("Nodes 2\nConnections 1\n0->1 id 1 start 0 size 1000\n");
        same_story(&next.run(&[]));
    }
    Passed
}

/// Waits until all of `survivors` have said that the process of `victim`, which was killed at `at`,
/// has ended.
#[track_caller]
fn named(victim: usize, survivors: &[&Running], at: Instant) {
    let words = format!("host `h{victim}` failed during the run: its process has ended");
    while !survivors.iter().all(|host| host.said().contains(&words)) {
        assert!(at.elapsed() < within(NAMED_WITHIN), "`{words}` is not said");
        sleep(Duration::from_millis(5));
    }
}

/// Between all pairs of three hosts, for some seconds.
const THREE: &str = "\
Nodes 3
Connections 6
0->2 id 1 start 0 size 150000000
2->0 id 2 start 0 size 150000000
0->1 id 3 start 0 size 900000000
1->2 id 4 start 0 size 900000000
2->1 id 5 start 0 size 1000000
2->1 id 6 start 3600000000000 size 1000
";

/// Kills of a case: one, or as many as `CRASHES` says.
pub(crate) fn crashes() -> u64 {
    std::env::var("CRASHES").ok().and_then(|count| count.parse().ok()).unwrap_or(1)
}

/// Starts three hosts with the flows of `matrix` and kills the host `killed`. The two others finish
/// all flows between them, name the killed one, and deliver so many bytes.
fn without(
    killed: usize,
    matrix: &str,
    rng: &mut Rng,
    (finished, bytes): (u64, u64),
) -> Result<(), String> {
    let files = on_bridge((3, 9000), matrix, v4)?;
    let mut hosts = under_way::<3>(&files, |_| PATIENT.to_vec()).map(Some);
    sleep(Duration::from_millis(rng.below(300)));
    hosts[killed].take().unwrap().kill();
    let at = Instant::now();
    let survivors: Vec<Running> = hosts.into_iter().flatten().collect();
    named(killed, &survivors.iter().collect::<Vec<_>>(), at);
    let ended: Vec<Ended> = survivors.into_iter().map(Running::wait).collect();
    let summaries: Vec<Value> = ended
        .iter()
        .map(|end| serde_json::from_str(&end.out).unwrap_or_else(|e| panic!("{e}: {end:?}")))
        .collect();
    for (end, summary) in ended.iter().zip(&summaries) {
        assert_eq!(end.code, Some(1), "{end:?}");
        assert_eq!(summary["flows"]["finished"], finished, "{end:?}");
        assert_eq!(summary["audit"], json!({"ok": true, "findings": []}));
        assert_eq!(summary["gone"][0]["name"], format!("h{killed}"));
        assert_eq!(summary["bytes"]["delivered"], bytes);
    }
    assert_eq!(summaries[0]["per_host"], summaries[1]["per_host"]);
    Ok(())
}

/// `case` as often as `CRASHES` says.
fn each_time(mut case: impl FnMut() -> Result<(), String>) -> Verdict {
    (0..crashes()).try_for_each(|_| case()).map_or_else(Skipped, |()| Passed)
}

/// The others finish all flows among themselves and name the killed host.
pub(crate) fn survivors() -> Verdict {
    let mut rng = Rng::new(14);
    each_time(|| without(1, THREE, &mut rng, (2, 300_000_000)))
}

/// Host 1 is killed before its flow is done, which would start a flow between the others.
const WAITING: &str = "\
Nodes 3
Connections 4
Triggers 2
0->2 id 1 start 0 size 300000000 recv_done_trigger 2
1->0 id 2 start 0 size 4000000000 send_done_trigger 1
2->0 id 3 trigger 1 size 1000
2->0 id 4 trigger 2 size 1000
trigger id 1 oneshot
trigger id 2 oneshot
";

/// A flow that a flow of the killed host would have started does not start, and counts as
/// unfinished; a trigger between the others works, and the run ends.
pub(crate) fn triggers() -> Verdict {
    let files = match on_bridge((3, 9000), WAITING, v4) {
        Ok(files) => files,
        Err(reason) => return Skipped(reason),
    };
    let [first, mut killed, third] = under_way::<3>(&files, |_| PATIENT.to_vec());
    killed.kill();
    for end in [first, third].map(Running::wait) {
        assert_eq!(end.code, Some(1), "{end:?}");
        let summary: Value = serde_json::from_str(&end.out).unwrap();
        assert_eq!(summary["flows"], json!({"total": 4, "finished": 2}), "{end:?}");
        assert_eq!(summary["audit"], json!({"ok": true, "findings": []}));
        assert_eq!(summary["gone"][0]["name"], "h1");
        assert_eq!(summary["bytes"]["delivered"], 300_001_000);
    }
    Passed
}

/// Host 0 is killed: two flows between the others, two that triggers start after them, and one that
/// waits for a flow of host 0 besides one that is done.
const WITHOUT_FIRST: &str = "\
Nodes 3
Connections 9
Triggers 3
1->2 id 1 start 0 size 150000000
2->1 id 2 start 0 size 150000000 recv_done_trigger 1
0->1 id 3 start 0 size 900000000 recv_done_trigger 3
2->0 id 4 start 0 size 900000000
1->2 id 5 trigger 1 size 1000 recv_done_trigger 2
2->1 id 6 trigger 2 size 1000
0->2 id 7 start 3600000000000 size 1000
1->2 id 8 start 0 size 1000 send_done_trigger 3
2->1 id 9 trigger 3 size 1000
trigger id 1 oneshot
trigger id 2 oneshot
trigger id 3 barrier count 2
";

/// Another host leads in the place of the first: flows among the others finish, also those that
/// triggers start afterwards, and what was said under the first host counts once.
pub(crate) fn first() -> Verdict {
    let mut rng = Rng::new(15);
    each_time(|| without(0, WITHOUT_FIRST, &mut rng, (5, 300_003_000)))
}

/// Flows of a process that stands still half of the time finish; its figures are invalid, and it
/// reports that.
pub(crate) fn emulated() -> Verdict {
    let dir = tempfile::tempdir().unwrap();
    let matrix = dir.path().join("matrix.cm");
    std::fs::write(&matrix, "Nodes 2\nConnections 1\n0->1 id 1 start 0 size 4000000\n").unwrap();
    let mut run = Running::alone(&["run", matrix.to_str().unwrap(), "--world", "vdev", "--json"]);
    while run.goes_on() {
        run.signal("STOP");
        sleep(BREAK);
        run.signal("CONT");
        sleep(BREAK);
    }
    let ended = run.wait();
    let summary: Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&summary["flows"]["finished"], &summary["audit"]["ok"]), (&1.into(), &true.into()));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("INVALID: ") && ended.err.contains("time_scale"), "{ended:?}");
    Passed
}
