//! Flows that are gone leave nothing behind: no table, list or map of an endpoint keeps an entry.
//!
//! Two hosts with small tables open flows, send, close and forget, many times over, each time under
//! other names. Whatever their endpoints contain is counted as lines of their `Debug` text: an
//! entry of any collection, at any depth, has a line of its own.

use transport::ShareMax;
use transport::sched::Label;

use super::*;

/// Flows at a time in each direction; tables have places for twice as many.
const AT_ONCE: u32 = 4;
const MESSAGES: u64 = 2;
/// Rounds after which places of timers and buffers have been taken, and rounds that follow, each
/// under names of its own.
const ROUNDS: [u32; 2] = [120, 100];

impl Pair {
    /// Flows in both directions, from their first message until both ends have forgotten them.
    fn round(&mut self, config: &Config, number: u64) {
        let mut opened = Vec::new();
        self.alias = 2 * u32::try_from(number).unwrap();
        for from in [0, 1] {
            for _ in 0..AT_ONCE {
                let peer = HostId(self.alias + u32::from(from == 0));
                let host = &mut self.hosts[from].endpoint;
                let label = Label { collective: self.alias, prio: self.alias };
                let flow = host.open_labelled(peer, config.default_path(), label).unwrap();
                opened.push((from, flow));
            }
        }
        for &(from, flow) in &opened {
            for tag in 0..MESSAGES {
                self.post(from, flow, pattern(number, 30_000), tag);
            }
        }
        let all = usize::try_from(u64::from(AT_ONCE) * MESSAGES).unwrap();
        self.run(Duration::from_s(5), |p| p.hosts.iter().all(|host| host.count_sent() == all));
        for (from, flow) in opened {
            self.hosts[from].endpoint.close_flow(self.now, flow);
        }
        self.idle(Duration::from_s(60));
        for host in &mut self.hosts {
            assert_eq!(host.ended.len(), 2 * all, "{:?}", host.ended);
            (host.outgoing, host.ended, host.delivered) = Default::default();
            assert!(host.incoming.is_empty());
        }
    }

    /// Lines of all that the endpoints contain.
    fn lines(&self) -> usize {
        self.hosts.iter().map(|host| format!("{:#?}", host.endpoint).lines().count()).sum()
    }
}

/// Every scheduler and kind of flow, with small tables.
fn kinds() -> Vec<(&'static str, Config)> {
    let places = 2 * AT_ONCE;
    let small = |change: &dyn Fn(&mut Settings)| {
        config(|s| {
            (s.tx_flows_max, s.rx_flows_max) = (places, places);
            s.msgs_max = 2 * places;
            change(s);
        })
    };
    let share = ShareMax { flows: 5, messages: 2 * places, bytes: 1 << 20 };
    let mut all = vec![
        ("coded", small(&|s| (s.ec, s.ec_shape, s.ec_params) = coded(Some((4, 2)), 100))),
        ("telemetry", small(&|s| (s.cc, s.int_always) = (CcKind::Hpcc, true))),
        ("strangers", small(&|s| (s.unproven_max, s.peer_max, s.group_max) = (2, share, share))),
    ];
    all.extend(with_a_link_alone().map(|sched| (sched.name(), small(&|s| s.sched = *sched))));
    all
}

#[test]
fn flows_that_are_gone_leave_nothing_behind() {
    let weather = Weather { loss: 0.01, trim: 0.01, reorder: 0.01, ..Weather::default() };
    for (name, config) in kinds() {
        let mut pair = Pair::new(&config, 3, weather);
        let mut number = 0;
        let lines = ROUNDS.map(|rounds| {
            for _ in 0..rounds {
                number += 1;
                pair.round(&config, number);
            }
            pair.lines()
        });
        // Some places of timers and buffers are taken late: 9 lines at most here.
        let names = usize::try_from(ROUNDS[1]).unwrap();
        assert!(lines[1] < lines[0] + names / 2, "{name}: {lines:?} lines");
    }
}
