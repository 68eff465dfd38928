//! Which line of a file each of many things came from, in a few bytes for the usual file.
//!
//! Things that follow each other line by line are one run; a comment between two of them starts
//! another.

/// Line numbers by place.
#[derive(Clone, Debug, Default)]
pub(super) struct LineMap {
    /// First place and its line, of each run of consecutive lines; ascending.
    runs: Vec<(u32, u32)>,
    len: u32,
}

impl LineMap {
    /// Notes that the next thing is on `line`.
    pub(super) fn push(&mut self, line: u32) {
        let continues = |&(first, at): &(u32, u32)| at.saturating_add(self.len - first) == line;
        if !self.runs.last().is_some_and(continues) {
            self.runs.push((self.len, line));
        }
        self.len = self.len.saturating_add(1);
    }

    /// The line of the thing at `place`; 0 when there is none.
    pub(super) fn line(&self, place: u32) -> u32 {
        let run = self.runs.partition_point(|&(first, _)| first <= place);
        match run.checked_sub(1).and_then(|run| self.runs.get(run)) {
            Some(&(first, line)) if place < self.len => line.saturating_add(place - first),
            _ => 0,
        }
    }

    /// [`LineMap::line`] of an index.
    pub(super) fn line_at(&self, place: usize) -> u32 {
        u32::try_from(place).map_or(0, |place| self.line(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_and_consecutive_ones_share_a_run() {
        let lines = [3, 4, 5, 9, 10, 20];
        let mut map = LineMap::default();
        lines.iter().for_each(|&line| map.push(line));
        assert_eq!((0..6).map(|at| map.line(at)).collect::<Vec<_>>(), lines);
        assert_eq!((map.line(6), map.runs.len()), (0, 3));
    }
}
