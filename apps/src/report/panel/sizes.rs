//! How long flows took by their size: the median and the 99th percentile of each class of sizes.
//!
//! A class is a size where there are few of them, else all sizes from a power of two to the next.

use std::collections::BTreeSet;

use experiments::input::InputError;
use experiments::scenario::{Plot, PlotKind};

use super::super::read::{Flow, RunResults};
use super::{Curve, Panel, curve_name, rounded};

/// The most sizes that are a class each.
const SIZES: usize = 24;

/// Percentiles that are shown, a panel each.
const PERCENTILES: [(&str, usize); 2] = [("median", 50), ("99th percentile", 99)];

/// The flows of all runs with the same name: sizes and what is measured of them.
type Pool = (String, Vec<(u64, f64)>);

/// The panels of a plot of these runs, below `title`; none where all flows have the same size.
pub(super) fn panels(
    runs: &[&RunResults],
    plot: &Plot,
    varying: &[String],
    title: &str,
) -> Result<Vec<Panel>, InputError> {
    let mut pools: Vec<Pool> = Vec::new();
    for run in runs {
        let name = curve_name(run, varying);
        let flows = run.flows(&plot.y)?;
        let measured = flows.iter().filter_map(|flow| Some((flow.size, measure(flow, &plot.y)?)));
        match pools.iter_mut().find(|(known, _)| *known == name) {
            Some((_, pool)) => pool.extend(measured),
            None => pools.push((name, measured.collect())),
        }
    }
    let sizes: BTreeSet<u64> = pools.iter().flat_map(|(_, pool)| pool).map(|(s, _)| *s).collect();
    if sizes.len() < 2 {
        return Ok(Vec::new());
    }
    let class = |size: u64| if sizes.len() <= SIZES { size } else { 1 << size.max(1).ilog2() };
    for (_, pool) in &mut pools {
        pool.sort_by(|a, b| class(a.0).cmp(&class(b.0)).then(a.1.total_cmp(&b.1)));
    }
    let panel = |(words, percent): (&str, usize)| Panel {
        kind: PlotKind::Sizes,
        title: if title.is_empty() { words.to_owned() } else { format!("{title}, {words}") },
        x: "size_bytes".to_owned(),
        categories: Vec::new(),
        y: plot.y.clone(),
        curves: pools
            .iter()
            .map(|(name, pool)| Curve::new(name.clone(), points(pool, percent, class)))
            .collect(),
    };
    Ok(PERCENTILES.map(panel).into())
}

fn measure(flow: &Flow, name: &str) -> Option<f64> {
    match name {
        "fct_us" => flow.fct_us,
        _ => Some(flow.fct_us? / flow.alone_us.filter(|alone| *alone > 0.0)?),
    }
}

/// A point for each class of flows that are sorted by it and then by what is measured: its mean
/// size, and the percentile by nearest rank.
fn points(pool: &[(u64, f64)], percent: usize, class: impl Fn(u64) -> u64) -> Vec<(f64, f64)> {
    let classes = pool.chunk_by(|a, b| class(a.0) == class(b.0));
    let point = |flows: &[(u64, f64)]| {
        #[expect(clippy::cast_precision_loss, reason = "a picture; 53 bits are plenty")]
        let mean = flows.iter().map(|(size, _)| *size as f64).sum::<f64>() / flows.len() as f64;
        let rank = (flows.len() * percent).div_ceil(100).max(1) - 1;
        (rounded(mean), rounded(flows[rank].1))
    };
    classes.map(point).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_of_sizes_has_its_own_percentiles() {
        let short = (1..=200).map(|at| (1000, f64::from(at)));
        let pool: Vec<(u64, f64)> = short.chain([(5000, 3.0), (5000, 4.0)]).collect();
        assert_eq!(points(&pool, 50, |size| size), [(1000.0, 100.0), (5000.0, 3.0)]);
        assert_eq!(points(&pool, 99, |size| size), [(1000.0, 198.0), (5000.0, 4.0)]);
        // One class of all: its mean size.
        assert_eq!(points(&[(1, 1.0), (3, 9.0)], 99, |_| 1), [(2.0, 9.0)]);
    }

    #[test]
    fn a_slowdown_is_against_the_flow_alone() {
        let flow = |fct_us, alone_us| Flow { fct_us, alone_us, ..Flow::default() };
        assert_eq!(measure(&flow(Some(6.0), Some(4.0)), "fct_slowdown"), Some(1.5));
        assert_eq!(measure(&flow(Some(6.0), None), "fct_slowdown"), None);
        assert_eq!(measure(&flow(None, Some(4.0)), "fct_slowdown"), None);
        assert_eq!(measure(&flow(Some(6.0), None), "fct_us"), Some(6.0));
    }
}
