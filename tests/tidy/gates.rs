//! Where code may ask for the feature `dpdk`. One file of the command chooses between the folder
//! that needs DPDK and the file that refuses, so that no other file has two versions.

use super::{File, Finding};

/// What a gate contains. In two pieces, so that this file has none.
const GATE: [&str; 2] = ["feature = ", "\"dpdk\""];

/// Files that may have gates, the most of them, and why.
const MAY_ASK: &[(&str, usize, &str)] = &[
    ("apps/src/lib.rs", 3, "chooses `on_dpdk` or `without_dpdk`"),
    ("apps/src/doctor/machine.rs", 1, "the doctor says how the program was built"),
    ("apps/tests/repeat.rs", 1, "results name DPDK's version"),
    ("tests/adding.rs", 1, "`live` compiles with DPDK alone"),
    ("tests/cli.rs", 3, "help and refusals of both builds"),
    ("tests/lies.rs", 2, "inputs of commands that open devices"),
    ("tests/dissector.rs", 1, "frames that a worker has made"),
];

/// Gates outside of their files, and entries of files without one.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let gate = GATE.concat();
    let mut found = Vec::new();
    let mut asks = [0; MAY_ASK.len()];
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let entry = MAY_ASK.iter().position(|(path, ..)| *path == file.path);
        for (line, _) in file.text.lines().enumerate().filter(|(_, line)| line.contains(&gate)) {
            let most = entry.map_or(0, |entry| MAY_ASK[entry].1);
            let count = entry.map(|entry| &mut asks[entry]);
            let gates = count.map_or(1, |count| {
                *count += 1;
                *count
            });
            if gates > most {
                let message = "asks for DPDK: put a function into apps/src/on_dpdk and one that \
                               refuses beside it, or list the gate in tests/tidy/gates.rs";
                found.push(Finding::new(&file.path, line + 1, message));
            }
        }
    }
    let stale = MAY_ASK.iter().zip(asks).filter(|((_, most, _), gates)| gates < most);
    let message = "has fewer gates than it may: take them out of tests/tidy/gates.rs";
    found.extend(stale.map(|((path, ..), _)| Finding::new(path, 0, message)));
    found
}

mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let file = File::new(path, text);
        let found = check(&[file]).into_iter();
        found.map(|finding| finding.line).filter(|line| *line > 0).collect()
    }

    #[test]
    fn a_gate_stands_in_a_file_that_may_have_it() {
        let gate = format!("#[cfg({})]\n", GATE.concat());
        assert_eq!(lines("apps/src/run/mod.rs", &gate), [1]);
        assert_eq!(lines("apps/src/doctor/machine.rs", &gate), []);
        assert_eq!(lines("apps/src/doctor/machine.rs", &format!("{gate}{gate}")), [2]);
    }
}
