//! How a flow's balancer reacts to trims and to losses.

use std::cell::Cell;

use super::*;

thread_local! {
    /// DATA that took the bad path.
    static TAKEN: Cell<u32> = const { Cell::new(0) };
}

/// Whether `tx` is DATA on the first of eight paths.
fn is_bad(tx: &TxSegment) -> bool {
    let is_bad = tx.class().is_data() && tx.hdr.ev == transport::lb::entropy(0);
    TAKEN.set(TAKEN.get() + u32::from(is_bad));
    is_bad
}

/// How many of a thousand segments take the bad path, with those that are sent again.
fn taken(change: impl FnOnce(&mut Pair)) -> u32 {
    let config = config(|s| {
        s.lb = LbKind::Wary;
        s.lb_params.common.paths = 8;
    });
    TAKEN.set(0);
    let mut pair = Pair::new(&config, 1, Weather::default());
    change(&mut pair);
    let pair = exchange_over(pair, &config, 1, &[4_000_000]);
    assert_eq!(pair.hosts[0].endpoint.stats().lost_by_timeout, 0);
    TAKEN.get()
}

#[test]
fn a_path_that_trims_is_kept_and_one_that_drops_is_left() {
    let dropping = taken(|pair| pair.drops = is_bad);
    let trimming = taken(|pair| pair.trims = is_bad);
    assert!(dropping <= 40 && trimming >= 120, "{dropping} dropped, {trimming} trimmed");
}
