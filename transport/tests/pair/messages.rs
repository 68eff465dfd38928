//! Flows of more messages than may be unfinished at once.

use super::*;

/// Messages of two segments that a flow sends, one after the other.
const MESSAGES: u32 = 60;

#[test]
fn tokens_are_given_for_messages_that_may_begin_and_not_for_all_that_wait() {
    for sched in [SchedKind::Phost, SchedKind::DcPim] {
        let config = config(|s| {
            (s.sched, s.msg_window) = (sched, 1);
            s.base_rtt = Duration::from_us(110);
        });
        let mut pair = Pair::new(&config, 1, Weather::default());
        pair.delay = Duration::from_us(50);
        let flow = pair.hosts[0].endpoint.open_flow(HostId(1), config.default_path()).unwrap();
        for tag in 0..MESSAGES {
            pair.post(0, flow, pattern(tag.into(), 5000), tag.into());
        }
        pair.run(Duration::from_s(1), |p| p.hosts[0].count_sent() == MESSAGES as usize);
        let (segments, tokens) =
            (2 * u64::from(MESSAGES), pair.hosts[1].endpoint.stats().control_sent);
        assert!(tokens < 4 * segments, "{sched:?}: {tokens} packets for {segments} segments");
    }
}
