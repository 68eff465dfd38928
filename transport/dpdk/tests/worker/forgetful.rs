//! A receiver that restarts again and again, and beside it a host on the path that makes packets up
//! and sends old ones again: every message is over by its name. A process delivers no message
//! twice, and none that was acknowledged before the process began. A message whose acknowledgement
//! ended with the process before is delivered again, since nothing of that process is left.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use proptest::prelude::*;
use transport::Rng;
use transport::wire::frame::ETHERNET_LEN;
use transport_dpdk::{Completion, Keys, Payloads};

use crate::hostile::forge;
use crate::rig::{Meddler, Rig, Sizes, Weather, config};

/// Frames of one direction that the host on the path keeps.
const KEPT: usize = 1000;

/// Frames by the addresses that they have, sender and receiver.
type Memory = Rc<RefCell<BTreeMap<[u8; 8], Vec<Vec<u8>>>>>;

/// A host on the path that makes up as many frames as this part of those that it sees, and sends as
/// many old ones again.
fn meddler(seed: u64, (forged, replayed): (f64, f64), memory: &Memory) -> Meddler {
    let mut rng = Rng::new(seed).fork("meddler", 0);
    let memory = Rc::clone(memory);
    Box::new(move |sent| {
        let ip = usize::from(ETHERNET_LEN);
        let ends = *sent[ip + 12..].first_chunk().unwrap();
        let mut memory = memory.borrow_mut();
        let seen: &mut Vec<Vec<u8>> = memory.entry(ends).or_default();
        if seen.len() < KEPT {
            seen.push(sent.to_vec());
        } else {
            let at = usize::try_from(rng.below(KEPT as u64)).unwrap();
            seen[at] = sent.to_vec();
        }
        let mut made = Vec::new();
        if rng.chance(forged) {
            made.push(forge(sent, &mut rng));
        }
        if rng.chance(replayed) {
            made.push(seen[usize::try_from(rng.below(seen.len() as u64)).unwrap()].clone());
        }
        made
    })
}

/// The outcome of the messages that host 0 sends.
#[derive(Debug)]
struct Over {
    sent: Vec<u64>,
    failed: Vec<u64>,
    delivered: Vec<u64>,
    /// For each restart: how many messages were delivered, and which were reported as sent, by
    /// then.
    restarts: Vec<(usize, Vec<u64>)>,
}

/// Host 0 sends messages of these `sizes` over two connections, while host 1 is restarted at these
/// steps and the meddler meddles.
fn suffer(
    (keyed, seed): (bool, u64),
    parts: (f64, f64),
    weather: Weather,
    (sizes, restarts): (&[u32], &[u32]),
) -> Over {
    let config = config(|s| (s.unproven_max, s.secret, s.payload_max) = (0, [1, 2], 1024));
    let mut shape = Sizes { config, ..Sizes::ample() };
    if keyed {
        let keys = || Some((Keys::of(&[(1, [7; 32])]), Payloads::Encrypted));
        shape.keys = [keys(), keys()];
    }
    let mut rig = Rig::new(&shape, seed, weather);
    let memory = Memory::default();
    rig.meddler = Some(meddler(seed, parts, &memory));
    (0..2).for_each(|connection| rig.open(0, connection, &shape));
    for (tag, &size) in (1..).zip(sizes) {
        rig.send(0, u32::from(tag % 3 == 0), size, tag);
    }
    let mut incarnation = 1;
    let mut before = Vec::new();
    for step in 0.. {
        if restarts.contains(&step) {
            incarnation += 1;
            before.push((rig.check_delivered(1).len(), rig.sent(0)));
            rig.restart(1, &shape, incarnation);
            if !keyed {
                // Without keys a flow of an earlier process looks like a new one, so no packet to
                // that process may outlive it, as where a restart takes longer than packets do.
                memory.borrow_mut().clear();
                rig.lose_in_flight(1);
            }
        }
        rig.step(64);
        let over = |completion: &&Completion| {
            matches!(completion, Completion::Sent { .. } | Completion::Failed { .. })
        };
        if rig.hosts[0].completions.iter().filter(over).count() == sizes.len() {
            break;
        }
        assert!(step < 4_000_000, "{:?}", rig.hosts[0].worker.stats());
    }
    // What was acknowledged is handed over, and what is sent again by others is not.
    (0..400).for_each(|_| rig.step(64));
    let failed = |completion: &Completion| match completion {
        Completion::Failed { cookie, .. } => Some(*cookie),
        _ => None,
    };
    let failed = rig.hosts[0].completions.iter().filter_map(failed).collect();
    Over { sent: rig.sent(0), failed, delivered: rig.check_delivered(1), restarts: before }
}

/// # Errors
/// When a process delivers a message twice or again, or one is reported as sent and was not
/// delivered.
fn check(over: &Over, posted: usize) -> Result<(), TestCaseError> {
    let all = over.delivered.len();
    let ends = over.restarts.iter().map(|(delivered, _)| *delivered).chain([all]);
    let mut from = 0;
    let mut acknowledged: &[u64] = &[];
    for (process, end) in ends.enumerate() {
        let mut once = over.delivered[from..end].to_vec();
        once.sort_unstable();
        once.dedup();
        prop_assert_eq!(once.len(), end - from, "twice in process {}: {:?}", process, over);
        let again = once.iter().find(|tag| acknowledged.contains(tag));
        prop_assert_eq!(again, None, "again in process {}: {:?}", process, over);
        from = end;
        acknowledged = over.restarts.get(process).map_or(&[], |(_, sent)| sent);
    }
    let once = &over.delivered;
    prop_assert!(over.sent.iter().all(|tag| once.contains(tag)), "{:?}", over);
    prop_assert_eq!(over.sent.len() + over.failed.len(), posted, "{:?}", over);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn a_peer_that_forgets_beside_one_that_forges_and_replays_gets_each_message_once(
        seed in any::<u64>(),
        keyed in any::<bool>(),
        parts in (0.0..0.5f64, 0.0..0.5f64),
        loss in 0.0..0.05f64,
        sizes in prop::collection::vec(1u32..40_000, 2..10),
        restarts in prop::collection::vec(0u32..400, 0..4),
    ) {
        let weather = Weather { loss, ..Weather::default() };
        let over = suffer((keyed, seed), parts, weather, (&sizes, &restarts));
        check(&over, sizes.len())?;
        if restarts.is_empty() {
            prop_assert_eq!(over.sent.len(), sizes.len(), "{:?}", over);
        }
    }
}
