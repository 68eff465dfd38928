//! Cases of two sites whose border switches run MLCC's program: flows across follow it, whatever
//! controls flows inside, and a border switch may crash.

use transport::Rng;
use transport::cc::CcKind;
use transport::sched::SchedKind;

use super::case::{Case, FOR_EVER, micros, pick};

impl Case {
    /// Gives flows across to MLCC in about two thirds of the cases that can have it.
    pub(crate) fn borders(&mut self, rng: &mut Rng) {
        if self.topology.wan.is_none() || self.is_lossless() {
            return;
        }
        let settings = self.draft().settings;
        // Other schedulers say by themselves what flows across may send.
        let suits = settings.sched == SchedKind::RoundRobin && settings.cc != CcKind::Mlcc;
        // Its least rate, a share of the hosts' links, overloads links that are far slower.
        let levels = usize::from(self.topology.levels());
        let slowest = self.topology.tier[..levels].iter().map(|tier| tier.downlink_mbps).min();
        let drowns = slowest.is_some_and(|mbps| mbps * 20 < self.topology.tier[0].downlink_mbps);
        if !suits || drowns || !rng.chance(0.7) {
            return;
        }
        self.make_room();
        self.unset("far.rtt");
        self.reset("far.cc", "mlcc");
        self.reset("far.lb", pick(rng, &["ecmp", "plb"]));
        self.reset("switch.program", "dci@border");
        self.reset("switch.border_qdisc", "auto");
        self.reset("switch.int", "auto");
        self.reset("switch.int_room", 8);
        if settings.cc.reads_int(&settings.cc_params) {
            self.reset("lb", pick(rng, &["ecmp", "plb"]));
        }
        self.reset("cc.mlcc.signal", pick(rng, &["auto", "auto", "int", "delay"]));
        self.set("cc.mlcc.near", pick(rng, &["on", "on", "off"]));
        self.set("cc.mlcc.law", pick(rng, &["hpcc", "powertcp"]));
        self.set("cc.mlcc.first", pick(rng, &["auto", "1KB", "100KB"]));
        self.set("cc.mlcc.equal", pick(rng, &["on", "off"]));
        self.set("cc.mlcc.initial", pick(rng, &["line", "equal"]));
        self.set("cc.mlcc.below", pick(rng, &["credit", "eq5", "stale"]));
        // Times of the loops fit neither the paper's network nor each other.
        self.set("cc.mlcc.theta", pick(rng, &["2ms", "18ms"]));
        self.set("cc.mlcc.dt", pick(rng, &["1us", "1ms"]));
        self.set("cc.mlcc.clock", pick(rng, &["0", "1.2", "2"]));
        self.set("cc.mlcc.feedback_gap", pick(rng, &["0us", "6us", "1ms"]));
        self.set("dci.queues", pick(rng, &[1, 2, 4096]));
        if rng.chance(0.4) {
            self.crash(rng);
        }
        if rng.chance(0.5) {
            self.set("cc.mlcc.theta_rtts", pick(rng, &["0.5", "3"]));
            self.set("cc.mlcc.dt_rtts", pick(rng, &["0.01", "0.1667"]));
        }
    }

    /// A border switch crashes, at any moment of the first round trips. It is there again after a
    /// while, or never where the site has another one.
    fn crash(&mut self, rng: &mut Rng) {
        let rtt = self.round_trip().as_us_f64();
        let from = rtt * 10.0 * rng.next_f64();
        let borders = self.topology.borders();
        let dies = borders > 1 && rng.chance(0.5);
        let dead = match dies {
            true => FOR_EVER.as_us_f64(),
            false => pick(rng, &[0.001, 0.001, rtt, 20.0 * rtt]),
        };
        let switch = rng.below(2 * u64::from(borders));
        let until = from + dead + 0.001;
        // Flows that other border switches can have wait for no longer than switches are unaware.
        let outage = match self.draft().switch.detection {
            Some(delay) if dies => delay.as_us_f64(),
            None if dies => FOR_EVER.as_us_f64(),
            _ => dead,
        };
        self.outage = self.outage.max(micros(outage + 100.0)).min(FOR_EVER);
        self.set("fault", format!("crash@border:{switch},from_us={from:.6},until_us={until:.6}"));
    }
}
