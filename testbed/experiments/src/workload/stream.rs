//! Matrices that are written as they are made: an all-to-all of 8192 hosts has 67 million flows,
//! which a matrix holds in 4.3 GB and a file in about 5.4 GB.
//!
//! The file has its counts first and its triggers last. So the generator runs three times with the
//! same random numbers: to count, for the flows, and for the triggers. None of this is kept in
//! memory.

use std::io::{self, Write};
use std::num::NonZeroU32;

use transport::{Duration, Rng};

use super::cm::StartUnit;
use super::cm_write::{flow_line, trigger_line};
use super::matrix::{FlowSpec, Matrix, Start, Trigger, TriggerIndex, TriggerKind};
use crate::input::InputError;

/// Takes the parts of a matrix in the order in which they are made.
pub trait Sink {
    /// Takes a flow.
    fn flow(&mut self, flow: FlowSpec);

    /// Takes a trigger; its name, or `None` beyond the most that a matrix holds.
    fn trigger(&mut self, kind: TriggerKind) -> Option<TriggerIndex>;
}

impl Sink for Matrix {
    fn flow(&mut self, flow: FlowSpec) {
        self.push_flow(flow);
    }

    fn trigger(&mut self, kind: TriggerKind) -> Option<TriggerIndex> {
        self.push_trigger(kind)
    }
}

/// A generator that gives the parts of its matrix one by one.
pub trait Streamed {
    /// Gives all parts of the matrix for `nodes` hosts: one number and `rng` always give one.
    ///
    /// # Errors
    /// As [`super::Workload::generate`], before the first part.
    fn stream(&self, nodes: u32, rng: &mut Rng, sink: &mut dyn Sink) -> Result<(), InputError>;

    /// The matrix of all parts.
    ///
    /// # Errors
    /// As [`Streamed::stream`].
    fn collect(&self, nodes: u32, rng: &mut Rng) -> Result<Matrix, InputError> {
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        self.stream(nodes, rng, &mut matrix)?;
        Ok(matrix)
    }
}

/// How many parts a matrix has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MatrixCounts {
    /// Flows.
    pub flows: u64,
    /// The latest start of a flow that starts by time.
    pub latest: Duration,
    triggers: usize,
}

impl Sink for MatrixCounts {
    fn flow(&mut self, flow: FlowSpec) {
        self.flows += 1;
        if let Start::At(at) = flow.start {
            self.latest = self.latest.max(at);
        }
    }

    fn trigger(&mut self, _kind: TriggerKind) -> Option<TriggerIndex> {
        self.triggers += 1;
        TriggerIndex::new(self.triggers - 1)
    }
}

/// Writes parts as lines; parts that `wanted` does not name are only counted.
struct Lines<'o> {
    out: &'o mut dyn Write,
    wanted: Wanted,
    counts: MatrixCounts,
    /// Added to the start of every flow that starts by time.
    later: Duration,
    line: String,
    /// Nothing is written after the first error.
    written: io::Result<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Flows,
    Triggers,
}

impl Lines<'_> {
    fn write(&mut self, fill: impl FnOnce(&mut String) -> std::fmt::Result) {
        if self.written.is_ok() {
            self.line.clear();
            let filled = fill(&mut self.line).map_err(io::Error::other);
            self.written = filled.and_then(|()| self.out.write_all(self.line.as_bytes()));
        }
    }
}

impl Sink for Lines<'_> {
    fn flow(&mut self, flow: FlowSpec) {
        self.counts.flow(flow);
        if self.wanted == Wanted::Flows {
            let id = u32::try_from(self.counts.flows).ok().and_then(NonZeroU32::new);
            let start = match flow.start {
                Start::At(at) => Start::At(at + self.later),
                triggered @ Start::On(_) => triggered,
            };
            let flow = FlowSpec { id, start, ..flow };
            // A trigger is named by its place.
            let name = |trigger: TriggerIndex| trigger.index() + 1;
            self.write(|line| flow_line(&flow, &name, StartUnit::Us, line));
        }
    }

    fn trigger(&mut self, kind: TriggerKind) -> Option<TriggerIndex> {
        let index = self.counts.trigger(kind)?;
        let id = u32::try_from(self.counts.triggers).ok().and_then(NonZeroU32::new)?;
        if self.wanted == Wanted::Triggers {
            let trigger = Trigger { id, kind, delay: Duration::ZERO };
            self.write(|line| trigger_line(&trigger, StartUnit::Us, line));
        }
        Some(index)
    }
}

/// Counts the parts of a matrix.
///
/// # Errors
/// As [`Streamed::stream`].
pub fn count(made: &dyn Streamed, nodes: u32, rng: &Rng) -> Result<MatrixCounts, InputError> {
    let mut counts = MatrixCounts::default();
    made.stream(nodes, &mut rng.clone(), &mut counts)?;
    Ok(counts)
}

/// Writes a matrix whose parts have been counted, as [`super::cm_write::write`] does; flows start
/// `later` than they would.
///
/// # Errors
/// When `out` fails.
pub fn write(
    (made, counts): (&dyn Streamed, MatrixCounts),
    (nodes, rng): (u32, &Rng),
    later: Duration,
    out: impl Write,
) -> io::Result<()> {
    let mut out = io::BufWriter::with_capacity(WRITE_BYTES, out);
    writeln!(out, "Nodes {nodes}\nConnections {}", counts.flows)?;
    if counts.triggers > 0 {
        writeln!(out, "Triggers {}", counts.triggers)?;
    }
    for wanted in [Wanted::Flows, Wanted::Triggers] {
        let (counts, line) = (MatrixCounts::default(), String::new());
        let mut lines = Lines { out: &mut out, wanted, counts, later, line, written: Ok(()) };
        made.stream(nodes, &mut rng.clone(), &mut lines).map_err(io::Error::other)?;
        lines.written?;
    }
    out.flush()
}

const WRITE_BYTES: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Params, by_name, cm_write};

    fn streamed(name: &str, pairs: &[(&str, &str)], nodes: u32) -> String {
        let made = by_name(name, &Params::from_pairs(pairs.iter().copied())).unwrap();
        let (made, rng) = (made.streamed().unwrap(), Rng::new(7));
        let counts = count(made, nodes, &rng).unwrap();
        let mut text = Vec::new();
        write((made, counts), (nodes, &rng), Duration::from_us(3), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn what_is_streamed_is_what_is_made() {
        for (name, pairs, nodes) in [
            ("all-to-all", &[("window", "3")][..], 11),
            ("all-to-all", &[("every", "4"), ("window", "0")], 18),
            ("all-to-all-v", &[], 16),
            ("all-to-all-v", &[("cdf", "websearch")], 9),
        ] {
            let made = by_name(name, &Params::from_pairs(pairs.iter().copied())).unwrap();
            let mut matrix = made.generate(nodes, &mut Rng::new(7)).unwrap();
            for flow in &mut matrix.flows {
                if let Start::At(at) = &mut flow.start {
                    *at += Duration::from_us(3);
                }
            }
            assert_eq!(
                streamed(name, pairs, nodes),
                cm_write::to_text(&matrix),
                "{name} {pairs:?}"
            );
        }
    }

    #[test]
    fn memory_does_not_grow_with_the_flows() {
        let made = by_name("all-to-all", &Params::default()).unwrap();
        let (made, rng) = (made.streamed().unwrap(), Rng::new(1));
        let most = |nodes| {
            let counted = allocation_counter::measure(|| {
                let counts = count(made, nodes, &rng).unwrap();
                write((made, counts), (nodes, &rng), Duration::ZERO, io::sink()).unwrap();
            });
            counted.bytes_max
        };
        // A hundred times the flows: the buffer of the writer and a word for each host.
        assert!(most(512) < most(51) + 512 * 8, "{} and {} bytes", most(51), most(512));
    }

    #[test]
    fn an_error_of_the_disk_is_returned_and_one_of_the_recipe_comes_first() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let made = by_name("all-to-all", &Params::default()).unwrap();
        let (made, rng) = (made.streamed().unwrap(), Rng::new(1));
        assert!(count(made, 1, &rng).is_err(), "a host alone");
        let counts = count(made, 128, &rng).unwrap();
        let error = write((made, counts), (128, &rng), Duration::ZERO, Full).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
