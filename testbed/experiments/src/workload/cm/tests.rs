//! Tests of the `.cm` reader and writer: accepted and refused inputs, and round trips.

use std::io::BufReader;

use proptest::prelude::*;

use super::*;
use crate::workload::check::check;
use crate::workload::cm_write::{to_text, write};

fn parse(text: &str) -> Result<CmFile, InputError> {
    read(text.as_bytes(), "m.cm", StartUnit::Us)
}

fn matrix(text: &str) -> Matrix {
    parse(text).unwrap_or_else(|error| panic!("{error}")).matrix
}

const SAMPLE: &str = "Nodes 4\nConnections 5\nTriggers 2\nFailures 1\n\
    0->1 id 1 start 0 size 65536 send_done_trigger 7\n\
    1->2 id 2 start 1.5 size 1 send_done_trigger 7 recv_done_trigger 9 prio 3\n\
    2->3 id 3 trigger 7 size 4096\n\
    3->0 id 4 trigger 9 size 10\n\
    0->1 id 1 msg 5 start 0.000001 size 10\n\
    trigger id 7 barrier count 2\n\
    trigger id 9 oneshot delay 2.5\n\
    failure switch_type AGG switch_id 3 link_id 1\n";

#[test]
fn every_kind_of_line_is_understood_and_written_back_as_it_was() {
    let read = matrix(SAMPLE);
    assert_eq!((read.nodes, read.flows.len(), read.triggers.len()), (4, 5, 2));
    assert_eq!(read.flows[1].start, Start::At(Duration::from_ps(1_500_000)));
    assert_eq!(read.flows[1].prio, 3);
    assert_eq!(read.flows[2].waits_for().map(TriggerIndex::index), Some(0));
    assert_eq!(read.flows[1].recv_done.map(TriggerIndex::index), Some(1));
    assert_eq!(read.flows[4].start, Start::At(Duration::from_ps(1)));
    assert_eq!(read.triggers[1].delay, Duration::from_ns(2500));
    assert_eq!(read.failures[0].tier, SwitchTier::Agg);
    assert_eq!(matrix(&to_text(&read)), read);
    // The writer's order of words is the sample's, but for `msg`, which it puts after the id as
    // well.
    assert_eq!(to_text(&read), SAMPLE);
}

#[test]
fn white_space_comments_and_carriage_returns_change_nothing() {
    let loose =
        SAMPLE.replace(' ', " \t ").replace("->", " -> ").replace('\n', " # x\r\n\r\n# y\n");
    assert_eq!(matrix(&loose), matrix(SAMPLE));
}

#[test]
fn picoseconds_are_read_and_written_on_request() {
    let text = "Nodes 2\nConnections 1\n0->1 start 1500000 size 9\n";
    let file = read(text.as_bytes(), "m", StartUnit::Ps).unwrap();
    assert_eq!(file.matrix.flows[0].start, Start::At(Duration::from_ps(1_500_000)));
    let mut back = Vec::new();
    write(&file.matrix, StartUnit::Ps, &mut back).unwrap();
    assert_eq!(back, text.as_bytes());
    assert!(file.warnings.is_empty());
}

#[test]
fn a_start_beyond_a_second_warns_once_and_points_at_the_unit() {
    let text = "Nodes 2\nConnections 2\n0->1 start 1500000 size 9\n0->1 start 1500000 size 9\n";
    let warnings = parse(text).unwrap().warnings;
    assert_eq!(warnings.len(), 1);
    let text = warnings[0].to_string();
    assert!(text.starts_with("m.cm:3:12: warning:") && text.contains("start_unit=ps"), "{text}");
}

const HEAD: &str = "Nodes 4\nConnections 1\n";
const TWO: &str = "Nodes 4\nConnections 2\n";
const TRIG: &str = "Nodes 4\nConnections 1\nTriggers 1\n";

/// The text is refused at the place, for a reason that has the words.
fn assert_refused(text: &str, place: &str, words: &str) {
    let error = parse(text).err().unwrap_or_else(|| panic!("accepted: {text}")).to_string();
    assert!(error.starts_with(place) && error.contains(words), "{text:?}\n{error}");
}

#[test]
fn a_wrong_word_is_named_with_line_column_and_cure() {
    for (text, place, words) in [
        (format!("{HEAD}0->9 start 0 size 1\n"), "m.cm:3:4: ", "a host in 0..=3"),
        (format!("{HEAD}4294967296->1 start 0 size 1\n"), "m.cm:3:1: ", "a host in 0..=3"),
        (format!("{HEAD}2->2 start 0 size 1\n"), "m.cm:3:4: ", "sending to itself"),
        (format!("{HEAD}0->1 start 0 size 0\n"), "m.cm:3:19: ", "the size in bytes"),
        (format!("{HEAD}0->1 start 0 size 99999999999999999999\n"), "m.cm:3:19: ", "out of range"),
        (format!("{HEAD}0->1 start 0\n"), "m.cm:3:13: ", "`size BYTES`"),
        (format!("{HEAD}0->1 size 7\n"), "m.cm:3:12: ", "`start T` or `trigger T`"),
        (format!("{HEAD}0->1 start -5 size 7\n"), "m.cm:3:12: ", "microseconds"),
        (format!("{HEAD}0->1 start 1e30 size 7\n"), "m.cm:3:12: ", "213 days"),
        (format!("{TRIG}0->1 id 1 start 0 trigger 1 size 7\n"), "m.cm:4:19: ", "not both"),
        (format!("{TRIG}0->1 trigger 1 size 7\n"), "m.cm:4:22: ", "`id FLOW`"),
        (format!("{HEAD}0->1 id 0 start 0 size 7\n"), "m.cm:3:9: ", "the flow's id"),
        (format!("{HEAD}0->1 id 1 id 2 start 0 size 7\n"), "m.cm:3:11: ", "each word once"),
        (format!("{HEAD}0->1 start 0 size 7 coll\n"), "m.cm:3:25: ", "`coll 0` is none"),
        (format!("{HEAD}0->1 start 0 size 7 coll -1\n"), "m.cm:3:26: ", "`coll 0` is none"),
        (format!("{HEAD}0->1 start 0 size 7 coll 4294967296\n"), "m.cm:3:26: ", "0..=4294967295"),
        (format!("{HEAD}0->1 start 0 size 7 coll 1 coll 1\n"), "m.cm:3:28: ", "each word once"),
        (format!("{HEAD}0->1 start 0 sise 7\n"), "m.cm:3:14: ", "did you mean `size`"),
        (format!("{HEAD}0-1 start 0 size 7\n"), "m.cm:3:1: ", "a host in"),
        (format!("{HEAD}0\n"), "m.cm:3:2: ", "`->`"),
        (format!("{TRIG}trigger id 3 barrier\n"), "m.cm:4:21: ", "`count K`"),
        (format!("{TRIG}trigger id 3 oneshot delay x\n"), "m.cm:4:28: ", "microseconds"),
        (format!("{TRIG}trigger id 3 oneshto\n"), "m.cm:4:14: ", "did you mean `oneshot`"),
    ] {
        assert_refused(&text, place, words);
    }
}

#[test]
fn a_wrong_count_header_or_trigger_is_named_with_its_line() {
    for (text, place, words) in [
        (format!("{TWO}0->1 start 0 size 7\n"), "m.cm:2:13: ", "found 1 connection line,"),
        (
            format!("{HEAD}0->1 start 0 size 7\n0->1 start 0 size 7\n"),
            "m.cm:4:1: ",
            "one connection line more",
        ),
        (format!("{HEAD}trigger id 1 oneshot\n"), "m.cm:3:1: ", "one trigger line more"),
        (format!("{HEAD}0->1 start 0 size 7\nNodes 5\n"), "m.cm:4:1: ", "header lines come before"),
        ("Nodes 4\nNodes 5\n".to_owned(), "m.cm:2:1: ", "each header once"),
        ("Nodes 0\n".to_owned(), "m.cm:1:7: ", "the number of hosts"),
        ("Nodes 4 5\n".to_owned(), "m.cm:1:9: ", "the end of the line"),
        ("nodes 4\n".to_owned(), "m.cm:1:1: ", "did you mean `Nodes`"),
        ("Connections 0\n".to_owned(), "m.cm:1: ", "the header `Nodes N`"),
        (String::new(), "m.cm:1: ", "the header `Nodes N`"),
        ("Nodes 4\n0->1 start 0 size 7\n".to_owned(), "m.cm:2:1: ", "`Connections N` before it"),
        (
            format!("{TWO}0->1 id 5 start 0 size 7\n1->2 id 5 start 0 size 7\n"),
            "m.cm:4: ",
            "first is on line 3",
        ),
        (
            format!("{TWO}0->1 id 5 start 0 size 7 coll 3\n0->1 id 5 msg start 0 size 7\n"),
            "m.cm:4: ",
            "`coll 0` (0 where a line has none), expected `coll 3`",
        ),
        (
            format!("{TWO}0->1 id 5 start 0 size 7 coll 1\n0->1 id 5 msg start 0 size 7 coll 2\n"),
            "m.cm:4: ",
            "expected `coll 1` as on the first line",
        ),
        (
            format!("{HEAD}0->1 id 1 start 0 size 7 send_done_trigger 3\n"),
            "m.cm:3: ",
            "trigger 3, not declared",
        ),
        (
            format!("{TRIG}0->1 id 1 trigger 3 size 7\ntrigger id 3 oneshot\n"),
            "m.cm:5: ",
            "nothing pokes",
        ),
        (
            format!("{TRIG}0->1 id 1 trigger 3 size 7 send_done_trigger 3\ntrigger id 3 oneshot\n"),
            "m.cm:5: ",
            "cycle of triggers: 3 -> 3",
        ),
        (
            format!(
                "{TRIG}0->1 start 0 size 7 send_done_trigger 3\ntrigger id 3 barrier count 2\n"
            ),
            "m.cm:5: ",
            "count 2, poked 1",
        ),
        (
            "Nodes 4\nConnections 0\nFailures 1\nfailure switch_type TOP switch_id 1 link_id 1\n"
                .to_owned(),
            "m.cm:4:21: ",
            "TOR, AGG, CORE or BORDER",
        ),
        ("Nodes 4\nConnections 99999999999\n".to_owned(), "m.cm:2:13: ", "out of range"),
    ] {
        assert_refused(&text, place, words);
    }
}

#[test]
fn messages_without_an_opening_flow_share_their_connection() {
    let text = "Nodes 2\nConnections 2\nTriggers 0\n0->1 id 1 msg start 0 size 9\n\
                0->1 id 1 msg start 0 size 9\n";
    assert_eq!(matrix(text).flows[1].message, LineMeaning::Next);
    assert!(
        parse(&text.replace("1 msg", "1 msg 3")).unwrap_err().found.contains("second message 3")
    );
}

#[test]
fn a_count_on_a_oneshot_is_a_warning_and_a_header_that_lies_reserves_nothing() {
    let text = "Nodes 2\nConnections 1\nTriggers 1\n0->1 start 0 size 9 send_done_trigger 1\n\
                trigger id 1 oneshot count 4\n";
    assert!(parse(text).unwrap().warnings[0].to_string().contains("no effect"));
    let lie = "Nodes 2\nConnections 100000000\n0->1 start 0 size 9\n";
    assert!(parse(lie).unwrap_err().found.starts_with("1 connection"));
}

/// Writes a matrix of `left` lines while it is read, so that the text is never in memory.
struct Endless {
    left: u32,
    line: Vec<u8>,
    at: usize,
}

impl std::io::Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.at == self.line.len() && self.left > 0 {
            self.left -= 1;
            let (src, dst, id) = (self.left % 64, self.left % 64 + 64, self.left + 1);
            self.line = format!("{src}->{dst} id {id} start 0.5 size 65536\n").into_bytes();
            self.at = 0;
        }
        let count = out.len().min(self.line.len() - self.at);
        out[..count].copy_from_slice(&self.line[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[test]
fn a_million_lines_are_read_into_56_bytes_each() {
    let count = 1_000_000;
    let head = format!("Nodes 128\nConnections {count}\n").into_bytes();
    let text = Endless { left: count, line: head, at: 0 };
    let read = read(BufReader::new(text), "big.cm", StartUnit::Us).unwrap().matrix;
    assert_eq!(read.flows.len(), count as usize);
    // Growth doubles, so the vector never holds more than twice its need.
    assert!(read.flows.capacity() * size_of::<FlowSpec>() <= 2 * 56 * count as usize);
}

prop_compose! {
    /// A sound matrix: flows by time may poke triggers, each trigger starts one flow.
    fn sound_matrix()(
        nodes in 2u32..40,
        flows in prop::collection::vec(
            (any::<u32>(), 1u32..1000, 1u64..1 << 40, 0u64..1 << 41, any::<u32>()), 1..20),
        chained in prop::collection::vec((any::<bool>(), any::<bool>()), 0..8),
        failures in prop::collection::vec((0u32..9, 0u32..9), 0..3),
    ) -> Matrix {
        let mut matrix = Matrix { nodes, ..Matrix::default() };
        for (src, step, size, start, prio) in flows {
            let src = src % nodes;
            let dst = (src + 1 + step % (nodes - 1)) % nodes;
            let mut flow = FlowSpec::new(HostId(src), HostId(dst), Bytes(size));
            flow.start = Start::At(Duration::from_ps(start));
            (flow.prio, flow.collective) = (prio, prio % 3);
            matrix.push_flow(flow);
        }
        for (received, multishot) in chained {
            let kind = if multishot { TriggerKind::Multishot } else { TriggerKind::Oneshot };
            let delay = Duration::from_ps(if received { 1_234_567 } else { 0 });
            let trigger = matrix.push_delayed_trigger(kind, delay).unwrap();
            let mut next = matrix.flows[matrix.flows.len() - 1];
            let poker = matrix.flows.last_mut().unwrap();
            let done = if received { &mut poker.recv_done } else { &mut poker.send_done };
            *done = Some(trigger);
            next.start = Start::On(trigger);
            (next.send_done, next.recv_done) = (None, None);
            matrix.push_flow(next);
        }
        for (switch, link) in failures {
            matrix.failures.push(LinkFailure { tier: SwitchTier::Core, switch, link });
        }
        matrix
    }
}

proptest! {
    #[test]
    fn a_matrix_survives_the_file(original in sound_matrix()) {
        for unit in [StartUnit::Us, StartUnit::Ps] {
            let mut text = Vec::new();
            write(&original, unit, &mut text).unwrap();
            let back = read(&text[..], "m", unit).map(|file| file.matrix);
            prop_assert_eq!(back.as_ref(), Ok(&original));
        }
    }

    #[test]
    fn any_bytes_give_a_matrix_or_an_error(bytes: Vec<u8>) {
        let _ = read(&bytes[..], "m", StartUnit::Us);
    }

    #[test]
    fn a_mutated_file_gives_a_sound_matrix_or_an_error_with_a_line(
        at in 0..SAMPLE.len(), byte: u8, cut in 0usize..6, original in sound_matrix(),
    ) {
        for text in [SAMPLE.to_owned(), to_text(&original)] {
            let mut text = text.into_bytes();
            let at = at % text.len();
            let end = (at + cut).min(text.len());
            text.splice(at..end, [byte]);
            match read(&text[..], "m", StartUnit::Us) {
                Ok(file) => prop_assert_eq!(check(&file.matrix), Ok(())),
                Err(error) => prop_assert!(error.line > 0, "{}", error),
            }
        }
    }
}
