//! Fuzzes what the scheduler of a pod is sent.
//!
//! Hosts send any octets at any time in the name of any host. The scheduler does not panic, and two
//! honest hosts get what they asked for, as without the others.
#![no_main]

#[path = "../../../testbed/experiments/tests/pod_requests/pod.rs"]
mod pod;

use libfuzzer_sys::fuzz_target;
use pod::{ASKED, Pod, Sent};
use transport::wire::Note;
use transport::wire::pod::{CORE_RTS, RTS, SCHD};

thread_local! {
    static POD: Pod = Pod::new("zeropod:8");
}

/// Octets of a request: its sender, the host that it names, its epoch, its kind, its contents.
const LEN: usize = 36;

fuzz_target!(|bytes: &[u8]| {
    let others = bytes.chunks(LEN).filter_map(|octets| {
        let [from, named, epoch, kind, octets @ ..] = octets else { return None };
        // The honest hosts have numbers below 8 that are no part of this.
        let from = [1, 2, 3, 4, 5, 7, 8, 10][usize::from(from % 8)];
        let named = if *named == 0 { u16::try_from(from).unwrap_or(0) } else { u16::from(*named) };
        let protocol = [RTS, RTS, CORE_RTS, SCHD][usize::from(kind % 4)];
        let note = Note::new(protocol, &octets[..octets.len().min(32) & !1])?;
        Some((from, named, u64::from(*epoch), note))
    });
    let sent: Vec<Sent> = pod::honest().into_iter().chain(others.take(64)).collect();
    let ran = POD.with(|pod| pod.run(sent));
    for host in [0, 6] {
        assert_eq!(ran.cells.get(&host), Some(&(ASKED / 512)), "{:?}", ran.refusals);
    }
});
