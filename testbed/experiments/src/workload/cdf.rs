//! Flow-size distributions: cumulative probabilities by size, read, sampled and averaged.
//!
//! Two columns, bytes and cumulative probability in 0..1, separated by a comma or white space,
//! ascending, the last row 1; `#` comments and one header line of words are skipped. Linear between
//! rows; what the first row has above zero is mass at its size. Source:
//! the public files that come with the Uno and ns-3 datacentre simulators.

use std::io::BufRead;
use std::path::Path;

use transport::{Bytes, Rng};

use crate::input::{InputError, LineReader, TextLine};
use crate::input::{file, number};

/// A distribution of flow sizes that has passed all checks.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    /// (bytes, cumulative probability), both not descending; at least one row, the last with 1.
    rows: Vec<(u64, f64)>,
}

impl Cdf {
    /// The distribution whose every flow has `size`.
    #[must_use]
    pub fn constant(size: Bytes) -> Self {
        Self { rows: vec![(size.0, 1.0)] }
    }

    /// Reads a distribution; `name` is what errors call it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its place.
    pub fn read(source: impl BufRead, name: &str) -> Result<Self, InputError> {
        let mut source = LineReader::new(source, name);
        let mut rows: Vec<(u64, f64)> = Vec::new();
        let mut header_allowed = true;
        while let Some(mut line) = source.next_line()? {
            match row(&mut line, rows.last().copied()) {
                Ok(row) => rows.push(row),
                Err(_) if header_allowed && is_header(line) => {}
                Err(error) => return Err(error),
            }
            header_allowed = false;
            if rows.len() > ROWS_MAX {
                return Err(InputError::new("more rows", format!("at most {ROWS_MAX} rows")).at(
                    name,
                    source.line_number(),
                    0,
                ));
            }
        }
        let end = |found: &str, help: &str| {
            InputError::new(found, "rows up to a cumulative probability of 1")
                .at(name, source.line_number(), 0)
                .help(help)
        };
        match rows.last_mut() {
            None => Err(end("no rows", "write one line `bytes,probability` a point")),
            Some((_, last)) if 1.0 - *last > ONE_TOLERANCE => {
                let found = format!("a last row with {last}");
                Err(end(&found, "add the largest size with probability 1"))
            }
            Some((0, _)) => Err(end("no size above 0", "sizes are in bytes")),
            Some((_, last)) => {
                *last = 1.0;
                Ok(Self { rows })
            }
        }
    }

    /// Reads the distribution in the file at `path`.
    ///
    /// # Errors
    /// As [`Cdf::read`], and when the file cannot be opened.
    pub fn read_path(path: &Path) -> Result<Self, InputError> {
        let name = path.display().to_string();
        Self::read(file::open(path)?, &name)
    }

    /// A size drawn from the distribution, at least one byte. One draw; O(log rows).
    pub fn sample(&self, rng: &mut Rng) -> Bytes {
        self.quantile(rng.next_f64())
    }

    /// The size below which a share `p` of the flows is; `p` is clamped to 0..=1. At least one
    /// byte.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "sizes above 2^53 bytes may lose their last bits"
    )]
    #[expect(clippy::cast_possible_truncation, reason = "cut to whole bytes between two u64 sizes")]
    #[expect(clippy::cast_sign_loss, reason = "sizes are not negative")]
    pub fn quantile(&self, p: f64) -> Bytes {
        let upper = self.rows.partition_point(|&(_, cumulative)| cumulative <= p);
        let size = match (upper.checked_sub(1).map(|at| self.rows[at]), self.rows.get(upper)) {
            (Some((size, _)), None) | (None, Some(&(size, _))) => size,
            (Some((size0, p0)), Some(&(size1, p1))) => {
                let share = (p - p0) / (p1 - p0);
                size0 + ((size1 - size0) as f64 * share) as u64
            }
            (None, None) => 1,
        };
        Bytes(size.max(1))
    }

    /// How far `drawn` is from the distribution: the largest distance between the shares of sizes
    /// up to any that was drawn (Kolmogorov and Smirnov's, for whole bytes).
    #[cfg(test)]
    pub(super) fn distance(&self, mut drawn: Vec<Bytes>) -> f64 {
        drawn.sort_unstable();
        // The share of flows up to a size, by bisection of its inverse.
        let expected = |size: Bytes| {
            let (mut low, mut high) = (0.0, 1.0);
            for _ in 0..40 {
                let p = (low + high) / 2.0;
                if self.quantile(p) <= size { low = p } else { high = p }
            }
            low
        };
        let mut worst = 0.0f64;
        let mut up_to = 0;
        for same in drawn.chunk_by(|a, b| a == b) {
            up_to += same.len();
            let share = up_to as f64 / drawn.len() as f64;
            worst = worst.max((share - expected(same[0])).abs());
        }
        worst
    }

    /// The mean size in bytes.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "sizes above 2^53 bytes may lose their last bits"
    )]
    pub fn mean_bytes(&self) -> f64 {
        let first = self.rows.first().map_or(0.0, |&(size, p)| size as f64 * p);
        let between = self.rows.windows(2).map(|pair| {
            let ((size0, p0), (size1, p1)) = (pair[0], pair[1]);
            (p1 - p0) * (size0 as f64 + size1 as f64) / 2.0
        });
        first + between.sum::<f64>()
    }

    /// The distribution as text that can be read again.
    #[must_use]
    pub fn to_text(&self) -> String {
        let rows = self.rows.iter().map(|(size, p)| format!("{size},{p}\n"));
        std::iter::once("size_bytes,cum_prob\n".to_owned()).chain(rows).collect()
    }
}

const ROWS_MAX: usize = 1_000_000;

/// Decimal files end with 0.999999... or 1.0000001 where 1 is meant.
const ONE_TOLERANCE: f64 = 1e-6;

fn row(line: &mut TextLine<'_>, above: Option<(u64, f64)>) -> Result<(u64, f64), InputError> {
    let (size_token, p_token) = line.columns()?;
    let size_expected = "a size in bytes";
    let size = number::decimal(size_token.text, 0)
        .ok()
        .filter(|&size| size <= SIZE_MAX)
        .ok_or_else(|| line.error(size_token, size_expected))?;
    let p_expected = "a cumulative probability in 0..1";
    let p = number::real(p_token.text).map_err(|_| line.error(p_token, p_expected))?;
    if !(0.0..=1.0 + ONE_TOLERANCE).contains(&p) {
        return Err(line
            .error(p_token, p_expected)
            .help("are these percentiles? divide the second column by 100"));
    }
    let p = p.min(1.0);
    if let Some((size_above, p_above)) = above {
        if size < size_above {
            return Err(line.error(size_token, format!("a size of at least {size_above}")));
        }
        if p < p_above {
            return Err(line.error(p_token, format!("a probability of at least {p_above}")));
        }
    }
    Ok((size, p))
}

const SIZE_MAX: u64 = 1 << 62;

/// Whether a line is a header: two words and no number.
fn is_header(line: TextLine<'_>) -> bool {
    let is_word = |text: &[u8]| text.first().is_some_and(u8::is_ascii_alphabetic);
    line.restart().columns().is_ok_and(|(a, b)| is_word(a.text) && is_word(b.text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WEBSEARCH: &str = "# origin: a public file\nsize_bytes,cum_prob\n0,0\n2000,0\n2100,0.02\n\
                             10000 , 0.15\n80000\t0.53\n10000000 0.97\r\n30000000,1\n";

    fn read(text: &str) -> Result<Cdf, InputError> {
        Cdf::read(text.as_bytes(), "sizes.csv")
    }

    #[test]
    fn comments_a_header_and_both_separators_are_read() {
        let cdf = read(WEBSEARCH).unwrap();
        assert_eq!(cdf.rows.len(), 7);
        assert_eq!(read(&cdf.to_text()), Ok(cdf));
    }

    #[test]
    fn quantiles_are_linear_between_rows_and_skip_flat_ones() {
        let cdf = read(WEBSEARCH).unwrap();
        assert_eq!(cdf.quantile(0.0), Bytes(2000));
        assert_eq!(cdf.quantile(0.01), Bytes(2050));
        assert_eq!(cdf.quantile(1.0), Bytes(30_000_000));
        assert_eq!(Cdf::constant(Bytes(7)).quantile(0.3), Bytes(7));
    }

    #[test]
    fn the_mean_of_many_samples_is_the_mean() {
        let cdf = read(WEBSEARCH).unwrap();
        let mut rng = transport::Rng::new(3);
        let drawn: u64 = (0..100_000).map(|_| cdf.sample(&mut rng).0).sum();
        let ratio = drawn as f64 / 100_000.0 / cdf.mean_bytes();
        assert!((0.97..1.03).contains(&ratio), "{ratio}");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_place() {
        for (text, place, word) in [
            ("", "sizes.csv: ", "no rows"),
            ("0,0\n100,0.5\n", "sizes.csv:2: ", "a last row with 0.5"),
            ("0,0\n100,50\n200,100\n", "sizes.csv:2:5: ", "percentiles"),
            ("0,0\n9,0.5\n8,1\n", "sizes.csv:3:1: ", "at least 9"),
            ("0,0.5\n9,0.4\n8,1\n", "sizes.csv:2:3: ", "at least 0.5"),
            ("0,0\n9,nan\n", "sizes.csv:2:3: ", "cumulative probability"),
            ("0,0\n9\n", "sizes.csv:2:2: ", "second column"),
            ("0,0\n9,0.5,3\n", "sizes.csv:2:7: ", "the end of the line"),
            ("a,b\nc,d\n", "sizes.csv:2:1: ", "size in bytes"),
            ("0,1\n", "sizes.csv:1: ", "no size above 0"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.starts_with(place) && error.contains(word), "{text:?}: {error}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_give_a_distribution_or_an_error(bytes: Vec<u8>) {
            if let Ok(cdf) = Cdf::read(&bytes[..], "x") {
                prop_assert!(cdf.mean_bytes().is_finite());
                prop_assert!(cdf.quantile(0.5).0 >= 1);
            }
        }

        #[test]
        fn lines_of_numbers_give_a_distribution_or_an_error(
            text in "([0-9.e#,]{1,6}[ ,][0-9.]{1,4}\n){0,8}",
        ) {
            if let Ok(cdf) = read(&text) {
                prop_assert_eq!(read(&cdf.to_text()), Ok(cdf));
            }
        }
    }
}
