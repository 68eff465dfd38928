//! Several pods without buffers, joined by Cores: cells that cross arrive when the timing of both
//! pods says, nothing meets, no Core holds more than its bound, and threads change nothing.

#![expect(clippy::unwrap_used, reason = "tests")]
#![expect(clippy::cast_possible_truncation, reason = "numbers of a few hosts")]

mod plans;
mod pods;

use experiments::measure::Outcome;
use experiments::progress::Unwatched;
use experiments::virtual_time;
use transport::sched::zeropod::timing::{Timing, TimingInputs};
use transport::{Bytes, Duration, Instant, Rate, Rng};

use pods::{Flow, plan};

/// Runs flows, all of which finish without a loss and without anything sent again.
fn run(topology: &str, transport: &str, set: &[(&str, &str)], flows: &[Flow]) -> Outcome {
    let outcome =
        virtual_time::run(&plan(topology, transport, set, flows), &mut Unwatched).unwrap();
    let summary = &outcome.summary;
    assert!(summary.audit.ok, "{:?}", summary.audit);
    assert_eq!(summary.flows.finished, flows.len() as u64);
    assert!(summary.drops.is_empty(), "{:?}", summary.drops);
    assert_eq!(outcome.stats.retransmitted, 0);
    let pods = summary.scheduler.as_ref().unwrap();
    assert_eq!((pods.collisions, pods.late, pods.refused), (0, 0, 0), "{pods:?}");
    outcome
}

fn timing(gbps: u64) -> Timing {
    Timing::new(&TimingInputs {
        cell: Bytes(552),
        control: Bytes(40),
        rate: Rate::from_gbps(gbps),
        hop: Duration::from_us(1),
        cells: 32,
        guard: Duration::ZERO,
        delay: Duration::from_us(5),
        layers: 2,
        early: Duration::ZERO,
        guards_answers: false,
    })
}

/// When the last cell arrives of a lone flow from host `src` to host `dst` of another pod. The flow
/// starts with an epoch and has one epoch of cells at most. The Core is of `layer`. Its own pod
/// grants it epoch D; the Core asks in its slot of each epoch for what has come until then.
fn arrival(timing: &Timing, (src, dst, cells): (u16, u16, u16), layer: u16) -> Duration {
    let data = timing.request_to_data();
    let came = |slot| timing.epoch * data + timing.cell_at(slot, src, layer) + timing.hop * 3;
    let begins = |epoch: u64| timing.epoch * epoch + timing.hop;
    let (mut last, mut asked) = (Duration::ZERO, 0);
    for epoch in data.. {
        let slot = begins(epoch) + timing.request_at(layer, None);
        let there = (0..cells).filter(|cell| came(*cell) < slot).count() as u16;
        if there > asked {
            // Requests of Cores leave a hop later than those of hosts.
            let after = slot + timing.control_flight - timing.epoch * epoch;
            let decided = after.as_ps().div_ceil(timing.epoch.as_ps()).max(timing.to_decision);
            let sent = begins(epoch + decided + timing.lead)
                + timing.cell_at(there - asked - 1, layer, dst);
            (last, asked) = (sent + timing.hop * 3, there);
        }
        if asked == cells {
            break;
        }
    }
    last
}

#[test]
fn a_lone_flow_crosses_when_the_epochs_and_slots_of_both_pods_say() {
    for (topology, gbps) in
        [("zeropod:8,8,1", 100), ("zeropod:8,2,1", 100), ("zeropod-2x:8,3,1", 200)]
    {
        let timing = timing(gbps);
        for transport in ["zeropod", "zeropod-paper"] {
            for (src, dst, cells) in [(0, 16, 1), (5, 31, 1), (14, 17, 7), (3, 18, 32)] {
                let outcome = run(topology, transport, &[], &[(src, dst, cells * 512, 0)]);
                let number = |host: u32| (host % 4) as u16;
                let flow = (number(src), number(dst), cells as u16);
                let record = &outcome.records[0];
                let took = record.delivered_at.since(Instant::ZERO);
                let pods = outcome.summary.scheduler.as_ref().unwrap();
                let what = format!("{topology}: {src} {dst} {cells} {pods:?}");
                assert_eq!(took, arrival(&timing, flow, 0), "{what}");
                assert!(record.acked_at > record.delivered_at);
            }
        }
    }
}

/// A host that sends in its pod at full rate gets a receipt in every answer. The same
/// answers acknowledge its cells to other pods, as soon as requests and answers on the way allow.
#[test]
fn deliveries_across_are_reported_beside_receipts_in_every_answer() {
    let timing = timing(100);
    for crossing in [512, 20_000] {
        let flows = [(0, 16, crossing, 0), (0, 1, 4_000_000, 0)];
        let outcome = run("zeropod:8,2,1", "zeropod", &[], &flows);
        let (across, inside) = (&outcome.records[0], &outcome.records[1]);
        // The receiver's receipt, the Core's report, and an answer to the host.
        let most = timing.epoch * (2 * timing.to_receipt + 2 * timing.request_to_data());
        let took = across.acked_at.since(across.delivered_at);
        assert!(took <= most, "{crossing}: {took:?} of {most:?}");
        assert!(across.acked_at < inside.delivered_at, "the other flow had ended");
    }
}

/// Flows of all sizes at any time, of which every fifth crosses.
fn mixed(pods: u64, podsize: u64, flows: u64, seed: u64) -> Vec<Flow> {
    let mut rng = Rng::new(seed);
    let flow = |_| {
        let (pod, src) = (rng.below(pods), rng.below(podsize));
        let crosses = rng.below(5) == 0;
        let to = if crosses { (pod + 1 + rng.below(pods - 1)) % pods } else { pod };
        let dst = (src + 1 + rng.below(podsize - 1)) % podsize;
        let octave = 4 + rng.below(14);
        let size = 1 + rng.below(1 << octave);
        ((pod * podsize + src) as u32, (to * podsize + dst) as u32, size, rng.below(100_000_000))
    };
    let mut flows: Vec<Flow> = (0..flows).map(flow).collect();
    flows.sort_by_key(|flow| flow.3);
    flows
}

#[test]
fn cells_requests_and_answers_never_meet_whatever_crosses() {
    for (topology, pods, podsize) in
        [("zeropod:4,2,1", 2, 4), ("zeropod:8,8,7", 8, 16), ("zeropod:4,5,16", 5, 4)]
    {
        for transport in ["zeropod", "zeropod-paper"] {
            run(topology, transport, &[], &mixed(pods, podsize, 1000, pods));
        }
    }
}

/// At 16 cells an epoch is shorter than a hop at 200 Gb/s: answers to Cores leave several
/// windows before those to hosts.
#[test]
fn nothing_meets_where_cores_are_answered_several_windows_early() {
    let set = [("sched.zeropod.cells", "16"), ("sched.zeropod.delay", "15us")];
    run("zeropod-2x:8,8,7", "zeropod", &set, &mixed(8, 16, 1000, 3));
}

#[test]
fn threads_change_nothing() {
    let flows = mixed(8, 16, 600, 9);
    let of = |threads| {
        let outcome = run("zeropod:8,8,7", "zeropod", &[("sim.threads", threads)], &flows);
        outcome.records.iter().map(|r| (r.delivered_at, r.acked_at)).collect::<Vec<_>>()
    };
    let one = of("1");
    assert!(one == of("2") && one == of("3"));
}

/// All hosts of all other pods send to one host.
fn across(pods: u32, podsize: u32, size: u64) -> Vec<Flow> {
    (podsize..pods * podsize).map(|src| (src, 0, size, 0)).collect()
}

#[test]
fn a_core_holds_no_more_than_its_threshold_and_what_is_under_way() {
    for (pause, most) in [("1", 3137), ("20", 3156), ("32", 3168), ("320", 3456)] {
        let set = [("sched.zeropod.pause_cells", pause)];
        let outcome = run("zeropod:8,8,7", "zeropod", &set, &across(8, 16, 200_000));
        let pods = outcome.summary.scheduler.as_ref().unwrap();
        assert!(pods.core_cells_max <= most && pods.core_pauses > 0, "{pause}: {pods:?}");
    }
}

#[test]
fn cells_that_a_core_has_no_room_for_or_that_are_lost_behind_it_are_sent_again() {
    let behind = ("fault", "loss:0.05@core:0:down");
    for (set, reason) in [(&[][..], "data_queue_full"), (&[behind], "random_loss")] {
        let mut plan = plan("zeropod:8,3,2", "zeropod", set, &across(3, 16, 20_000));
        if set.is_empty() {
            // No plan has so small a buffer, as no pause would act in time.
            plan.fabric.sched.zeropod.core_buffer = 20_000;
        }
        let summary = &virtual_time::run(&plan, &mut Unwatched).unwrap().summary;
        assert!(summary.audit.ok && summary.flows.finished == 32, "{:?}", summary.flows);
        assert!(summary.drops.contains_key(reason), "{:?}", summary.drops);
        let pods = summary.scheduler.as_ref().unwrap();
        assert_eq!(pods.collisions, 0);
        assert!(!set.is_empty() || pods.core_bytes_max <= 20_000, "{pods:?}");
    }
}

#[test]
fn a_core_for_mice_carries_no_cells_of_elephants() {
    let elephants = across(2, 16, 2_000_000);
    let set = [("sched.zeropod.mice_cores", "1")];
    let alone = run("zeropod:8,2,2", "zeropod", &set, &elephants);
    let one_core = run("zeropod:8,2,1", "zeropod", &[], &elephants);
    // Each of the elephants is a mouse while it has sent less than 100 KB.
    let took = |outcome: &Outcome| outcome.summary.completion_us.unwrap();
    assert!(took(&alone) > took(&one_core) * 0.9, "{} {}", took(&alone), took(&one_core));
}
