//! Tests of which acknowledgements leave, and of the contents of those that wait together.

use alloc::vec::Vec;

use super::*;
use crate::config::Settings;
use crate::time::Duration;

fn config(ack_mode: AckMode) -> Config {
    let settings = Settings { ack_every: 64, ..Settings::default() };
    Config::new(settings).unwrap().acknowledging(ack_mode, Duration::ZERO)
}

const EVERY: AckMode = AckMode::Every { segments: 64, delay: Duration::from_us(10) };

fn ack(psn: u32) -> PendingAck {
    PendingAck {
        at: Instant::from_ps(u64::from(psn)),
        psn: Psn(psn),
        sent_at: 0,
        ev: EntropyValue(0),
        ce: false,
        trimmed: false,
        receipt: Receipt::First,
        echo: false,
    }
}

/// The acknowledgements that leave while `acks` wait, each as `(report, psn)`, and those that still
/// wait.
fn run(config: &Config, acks: &[PendingAck]) -> (Vec<(Option<u32>, u32)>, Pending) {
    let (mut pending, mut left, mut report) = (None, Vec::new(), None);
    for ack in acks {
        acknowledge(*ack, false, &mut pending, config, |leaving| match leaving {
            Leaving::Report(first) => report = Some(first.0),
            Leaving::Ack(ack) => left.push((report.take(), ack.psn.0)),
        });
    }
    assert_eq!(report, None, "a report goes with an acknowledgement");
    (left, pending)
}

#[test]
fn segments_of_four_words_wait_together_whatever_their_order() {
    let config = config(EVERY);
    for order in [[640, 704, 768, 832], [832, 768, 704, 640], [704, 832, 640, 768]] {
        let (left, pending) = run(&config, &order.map(ack));
        assert_eq!(left, []);
        assert_eq!(pending.unwrap().report(), Some(Psn(640)));
    }
    assert_eq!(run(&config, &[640, 650, 703].map(ack)).1.unwrap().report(), None);
}

#[test]
fn what_one_report_does_not_cover_leaves_first() {
    let config = config(EVERY);
    for (order, report, newest) in [
        (&[640, 832, 700, 900][..], Some(640), 700),
        (&[832, 700, 895, 600], Some(640), 895),
        (&[64, 1000], None, 64),
        (&[u32::MAX - 64, 5, 200], Some(u32::MAX - 127), 5),
    ] {
        let acks: Vec<_> = order.iter().map(|psn| ack(*psn)).collect();
        let (left, pending) = run(&config, &acks);
        assert_eq!(left, [(report, newest)], "{order:?}");
        assert_eq!(pending.unwrap().ack.psn.0, *order.last().unwrap());
    }
}

#[test]
fn a_refusal_and_a_mark_are_kept_until_they_are_granted() {
    let config = config(AckMode::Granted);
    let trimmed = PendingAck { trimmed: true, ..ack(70) };
    let marked = PendingAck { ce: true, ..ack(3) };
    let (left, pending) = run(&config, &[marked, trimmed, ack(130), ack(131)]);
    assert_eq!(left, [], "nothing leaves unasked");
    let waiting = pending.unwrap();
    assert_eq!((waiting.ack.psn, waiting.ack.trimmed, waiting.ack.ce), (Psn(70), true, true));
    assert_eq!((waiting.since, waiting.count), (Instant::from_ps(3), 4));
    assert_eq!(waiting.report(), Some(Psn(0)), "the report says what else arrived");
}
