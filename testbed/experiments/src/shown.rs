//! Times and sizes as people write them: the unit that leaves one to three digits before the point.

/// A unit: its name, what it is worth, and decimals.
type Unit = (&'static str, f64, usize);

/// Microseconds: `186.33 us`, `20.02 ms`, `3.00 s`.
#[must_use]
pub fn time(us: f64) -> String {
    in_units(us, &[("us", 1.0, 2), ("ms", 1e3, 2), ("s", 1e6, 2)])
}

/// Bytes, in powers of a thousand: `900 B`, `8.4 MB`.
#[must_use]
pub fn size(bytes: f64) -> String {
    in_units(bytes, &[("B", 1.0, 0), ("KB", 1e3, 1), ("MB", 1e6, 1), ("GB", 1e9, 1)])
}

/// `value` in the first of `units` in which less than a thousand is printed, else in the last.
fn in_units(value: f64, units: &[Unit]) -> String {
    let number = |(_, scale, decimals): &Unit| format!("{:.*}", *decimals, value / scale);
    let fits = |unit: &&Unit| number(unit).parse().is_ok_and(|shown: f64| shown < 1e3);
    let unit = units.iter().find(fits).or(units.last());
    unit.map_or_else(String::new, |unit| format!("{} {}", number(unit), unit.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_sizes_have_the_unit_of_common_use() {
        assert_eq!([186.33, 20_021.0, 3e6].map(time), ["186.33 us", "20.02 ms", "3.00 s"]);
        let sizes = [900.0, 8_388_608.0, 5.4e9, 2048.0].map(size);
        assert_eq!(sizes, ["900 B", "8.4 MB", "5.4 GB", "2.0 KB"]);
        assert_eq!([0.0, 2e10].map(time), ["0.00 us", "20000.00 s"]);
        assert_eq!(size(7e12), "7000.0 GB");
    }

    #[test]
    fn what_is_rounded_up_to_a_thousand_has_the_next_unit() {
        let times = [999.994, 999.996, 999_994.0, 999_996.0].map(time);
        assert_eq!(times, ["999.99 us", "1.00 ms", "999.99 ms", "1.00 s"]);
        let sizes = [999.4, 999.6, 999_940.0, 999_960.0, 999.96e6].map(size);
        assert_eq!(sizes, ["999 B", "1.0 KB", "999.9 KB", "1.0 MB", "1.0 GB"]);
    }
}
