//! A set of flows by their lines of the matrix: `1,5,10..20`, as the command line has it.
//!
//! Lines count from 1 in text, and from 0 everywhere else.

use std::fmt;
use std::str::FromStr;

/// Lines of a matrix, ascending, as ranges that neither overlap nor touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowSet {
    /// First and last line of each range, from 0.
    ranges: Vec<(usize, usize)>,
}

/// The most flows of a set.
pub const SET_MAX: usize = 4096;

/// What a set looks like.
const FORM: &str = "flows as 1,5,10..20: lines of the matrix from 1, at most 4096 of them";

impl FlowSet {
    /// The lines of the set that a matrix of `count` lines has, from 0.
    pub fn lines(&self, count: usize) -> impl Iterator<Item = usize> + '_ {
        let all = self.ranges.iter().flat_map(|(first, last)| *first..=*last);
        all.take_while(move |line| *line < count)
    }

    /// The last line, from 0.
    #[must_use]
    pub fn last(&self) -> usize {
        self.ranges.last().map_or(0, |(_, last)| *last)
    }

    /// The set of these lines, from 0, in any order.
    #[must_use]
    pub fn of(lines: &[usize]) -> Self {
        Self::joined(lines.iter().map(|line| (*line, *line)).collect())
    }

    fn joined(mut ranges: Vec<(usize, usize)>) -> Self {
        ranges.sort_unstable();
        let mut joined: Vec<(usize, usize)> = Vec::new();
        for (first, last) in ranges {
            match joined.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last);
                }
                _ => joined.push((first, last)),
            }
        }
        Self { ranges: joined }
    }
}

impl FromStr for FlowSet {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // A line from 1 as one from 0; there is no line 0.
        let line = |text: &str| text.trim().parse::<usize>().ok()?.checked_sub(1);
        let range = |part: &str| {
            let ends = part.split_once("..");
            let (first, last) = ends.unwrap_or((part, part));
            let (first, last) = (line(first)?, line(last)?);
            (first <= last).then_some((first, last))
        };
        let ranges: Option<Vec<_>> = text.split(',').map(range).collect();
        let set = Self::joined(ranges.ok_or(FORM)?);
        let sizes = set.ranges.iter().map(|(first, last)| (last - first).saturating_add(1));
        let size = sizes.fold(0, usize::saturating_add);
        if size <= SET_MAX { Ok(set) } else { Err(FORM) }
    }
}

impl fmt::Display for FlowSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (first, last)) in self.ranges.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{}", first.saturating_add(1))?,
                false => {
                    write!(f, "{comma}{}..{}", first.saturating_add(1), last.saturating_add(1))?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_read_joined_and_shown_again() {
        let set: FlowSet = "10..20, 1,5,2..3,15..22".parse().unwrap();
        assert_eq!(set.to_string(), "1..3,5,10..22");
        assert_eq!(set.to_string().parse(), Ok(set.clone()));
        assert_eq!(set.lines(6).collect::<Vec<_>>(), [0, 1, 2, 4]);
        assert_eq!((set.lines(100).count(), set.last()), (17, 21));
        assert_eq!(FlowSet::of(&[4, 0, 1]).to_string(), "1..2,5");
    }

    #[test]
    fn what_is_no_set_of_flows_is_refused() {
        for text in ["", "0", "0..3", "5..2", "a", "1,,2", "1..4097", "1..", "18446744073709551616"]
        {
            assert_eq!(text.parse::<FlowSet>(), Err(FORM), "`{text}`");
        }
        assert!("18446744073709551615".parse::<FlowSet>().is_ok());
    }
}
