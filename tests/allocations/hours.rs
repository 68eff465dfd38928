//! Hours of network time: flows that are spread over hours take no more memory than the flows
//! themselves in a tenth of the time. Connections are idle in between. What each flow leaves behind
//! is in both runs, and tables have places for all flows: that nothing is left of a flow that is
//! gone is tested in `transport/tests/pair/gone.rs`.
//!
//! `HOURS=10 cargo test --workspace --test allocations -- hours --nocapture` runs 3000 flows in ten
//! hours, and in one. Without `HOURS` it runs 150 flows in one hour, and in six minutes.

use std::num::NonZeroU32;

use experiments::measure::Outcome;
use experiments::plan::{Draft, Plan};
use experiments::progress::Unwatched;
use experiments::workload::matrix::{LineMeaning, Start};
use experiments::workload::{FlowSpec, Matrix};
use experiments::{topology, virtual_time};
use transport::{Bytes, Duration, HostId, Rng};

const HOSTS: u32 = 16;
/// Connections with a message now and then, beside flows of one message.
const CONNECTIONS: usize = 8;

/// `flows` flows, and messages on connections, that begin at any time of `span`.
fn matrix(flows: u64, span: Duration) -> Matrix {
    let mut rng = Rng::new(5);
    let mut matrix = Matrix { nodes: HOSTS, ..Matrix::default() };
    let drawn = |rng: &mut Rng, at: u64| {
        let src = u32::try_from(rng.below(HOSTS.into())).unwrap();
        let dst = (src + 1 + u32::try_from(rng.below(u64::from(HOSTS) - 1)).unwrap()) % HOSTS;
        let size = Bytes([1000, 100_000, 2_000_000][usize::try_from(rng.below(3)).unwrap()]);
        // `at` is in thousandths of a second of a run that takes an hour; the span scales it.
        let start = Start::At(Duration::from_ps(span.as_ps() / 3_600_000 * at));
        FlowSpec { start, ..FlowSpec::new(HostId(src), HostId(dst), size) }
    };
    let mut open: Vec<FlowSpec> = Vec::new();
    for number in 0..flows {
        let at = number * (3_600_000 / flows) + rng.below(1000);
        let mut flow = drawn(&mut rng, at);
        if number % 4 == 0 && open.len() < CONNECTIONS {
            let index = matrix.push_flow(flow).unwrap().index();
            open.push(matrix.flows[index]);
        } else if number % 4 == 0 {
            let on = open[usize::try_from(number / 4).unwrap() % CONNECTIONS];
            (flow.src, flow.dst, flow.id) = (on.src, on.dst, on.id);
            flow.message = LineMeaning::Next;
            matrix.flows.push(flow);
        } else {
            matrix.push_flow(flow).unwrap();
        }
    }
    matrix
}

/// The run, and the most bytes that it had at one time.
fn ran(flows: u64, span: Duration) -> (Outcome, u64) {
    let topology = topology::by_name("leaf-spine:4,4,4").unwrap();
    let plan = Plan::new(&Draft::default(), matrix(flows, span), &topology).unwrap();
    let mut outcome = None;
    let counted = allocation_counter::measure(|| {
        outcome = Some(virtual_time::run(&plan, &mut Unwatched).unwrap());
    });
    (outcome.unwrap(), counted.bytes_max)
}

#[test]
fn hours_with_idle_flows_take_no_more_memory_than_a_tenth_of_them() {
    let hours: Option<NonZeroU32> = std::env::var("HOURS").ok().map(|text| text.parse().unwrap());
    let flows = if hours.is_some() { 3000 } else { 150 };
    let hours = u64::from(hours.map_or(1, NonZeroU32::get));
    let mut peaks = [0; 2];
    for (peak, seconds) in peaks.iter_mut().zip([3600 * hours, 360 * hours]) {
        let (outcome, most) = ran(flows, Duration::from_s(seconds));
        let summary = &outcome.summary;
        assert!(summary.audit.ok, "{:?}", summary.audit.findings);
        assert_eq!(summary.flows.finished, flows);
        println!("{flows} flows in {:?}: at most {most} bytes", outcome.end);
        *peak = most;
    }
    let [long, short] = peaks;
    assert!(long <= short + short / 50, "{long} bytes in {hours} h, {short} in a tenth of it");
}
