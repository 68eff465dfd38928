//! Clocks of hosts that are ahead, drift and jitter: what endpoints wait for follows the clock of
//! their host, and nothing else of a simulation does.

use experiments::progress::Unwatched;
use experiments::virtual_time;
use experiments::workload::FlowSpec;
use transport::{Bytes, HostId};

use super::{Matrix, flows, matrix, plan, run};

fn one_flow(bytes: u64) -> Matrix {
    let mut matrix = Matrix { nodes: 4, ..Matrix::default() };
    matrix.push_flow(FlowSpec::new(HostId(0), HostId(3), Bytes(bytes)));
    matrix
}

#[test]
fn an_offset_moves_no_flow_that_waits_for_no_timer() {
    let fct = |offset| {
        let settings = [("host.offset", offset)];
        run(&settings, one_flow(1 << 20), "leaf-spine:2,1,2,100").records[0].fct()
    };
    assert_eq!(fct("1ms"), fct("0us"));
}

#[test]
fn a_flow_is_given_up_when_the_clock_of_its_host_says() {
    let end = |seed: u64, drift: &str| {
        let seed = seed.to_string();
        let settings =
            [("seed", seed.as_str()), ("host.drift_ppm", drift), ("fault", "loss:1@all")];
        let plan = plan(&settings, one_flow(4096), "leaf-spine:2,1,2,100");
        let outcome = virtual_time::run(&plan, &mut Unwatched).unwrap();
        assert!(outcome.records[0].failed, "every packet is lost");
        outcome.end.as_us_f64()
    };
    let ratios: Vec<f64> = (1..=12).map(|seed| end(seed, "10000") / end(seed, "0")).collect();
    println!("{ratios:?}");
    let off = |ratio: &f64| (ratio - 1.0).abs();
    assert!(ratios.iter().all(|ratio| off(ratio) <= 0.0102), "one part in a hundred at most");
    let some = |wanted: fn(f64) -> bool| ratios.iter().any(|ratio| wanted(ratio - 1.0));
    assert!(some(|off| off > 0.002) && some(|off| off < -0.002), "slow clocks and fast ones");
}

#[test]
fn hosts_with_clocks_of_their_own_deliver_everything_on_any_number_of_threads() {
    let on_threads = |threads| {
        let settings = [
            ("host.offset", "100us"),
            ("host.drift_ppm", "100"),
            ("host.jitter", "20ns"),
            ("fault", "loss:0.01@all"),
            ("sim.threads", threads),
        ];
        let matrix = || matrix("permutation", 16, 3, &[("size", "256KiB")]);
        run(&settings, matrix(), "leaf-spine:4,2,4,100");
        flows(&settings, matrix(), "leaf-spine:4,2,4,100")
    };
    let alone = on_threads("1");
    assert_eq!(on_threads("2"), alone);
    assert_eq!(on_threads("3"), alone);
}
