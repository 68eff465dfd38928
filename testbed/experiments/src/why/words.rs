//! The explanation of a flow in words, and links by the names that faults give them.

use std::collections::BTreeMap;
use std::iter::repeat;

use fabric::{Node, PortId, PortSpec, SwitchSpec};
use transport::{Duration, HostId};

use super::{Bottleneck, DemandTime, FlowWhy, QueueWait, TimePart, demands};
use crate::plan::Plan;
use crate::shown;

/// The links of a run.
pub(super) struct NamedLinks<'p> {
    plan: &'p Plan,
    ports: Vec<PortSpec>,
    switches: Vec<SwitchSpec>,
    /// For each port of a switch: the number of the switch.
    owners: BTreeMap<u32, u32>,
}

impl<'p> NamedLinks<'p> {
    pub(super) fn of(plan: &'p Plan) -> Self {
        let blueprint = plan.blueprint();
        let switches = (0..).zip(&blueprint.switches);
        let owners = switches.flat_map(|(number, switch)| switch.ports().zip(repeat(number)));
        let owners = owners.collect();
        Self { plan, owners, ports: blueprint.ports, switches: blueprint.switches }
    }

    /// The address of the switch that `port` belongs to, behind those of hosts.
    pub(super) fn address_of_owner(&self, port: u32) -> Option<u32> {
        Some(self.plan.hosts() + self.owners.get(&port)?)
    }

    /// The only port to `host` of the switch at the far end of `port`; `None` where there are
    /// several, or `host` is not below.
    pub(super) fn down_port(&self, port: u32, host: HostId) -> Option<u32> {
        let Node::Switch(number) = self.ports.get(port as usize)?.to else { return None };
        let switch = self.switches.get(number as usize)?;
        let below = host.0.checked_sub(switch.first_host).filter(|below| *below < switch.hosts)?;
        (switch.bundle == 1).then_some(switch.down_port + below / switch.child_hosts)
    }

    /// The name of the link that `port` transmits on.
    pub(super) fn name(&self, port: u32) -> String {
        let name = self.plan.tree.selector_of(PortId(port));
        name.map_or_else(|| format!("port {port}"), |selector| selector.to_string())
    }

    /// From the last bit sent to the arrival at its far end.
    pub(super) fn delay(&self, port: u32) -> Duration {
        self.ports.get(port as usize).map_or(Duration::ZERO, |spec| spec.delay)
    }

    /// Whether `port` is the link of a host, seen from the host.
    pub(super) fn is_nic(&self, port: u32) -> bool {
        port < self.plan.hosts()
    }

    /// The far end of that link.
    pub(super) fn end(&self, port: u32) -> String {
        match self.ports.get(port as usize).map(|spec| spec.to) {
            Some(Node::Host(host)) => format!("host {host}"),
            Some(Node::Switch(switch)) => self.plan.tree.switch_name(switch),
            None => "?".to_owned(),
        }
    }
}

/// The causes of the flow's delay, in a sentence or two.
pub(super) fn sentence(why: &FlowWhy) -> String {
    let (Some(took), is_open) = (why.time_ps(), why.fct_ps.is_none()) else {
        return unfinished(why);
    };
    let mut parts: Vec<(TimePart, u64)> =
        TimePart::ALL.into_iter().map(|part| (part, why.part(part))).collect();
    parts.sort_by_key(|(_, ps)| std::cmp::Reverse(*ps));
    let share = |ps: u64| ps.saturating_mul(100).checked_div(took).unwrap_or(0);
    let held = [TimePart::Queue, TimePart::Paused, TimePart::Window];
    let ends = if why.given_up { "it was given up" } else { "the run ended" };
    let mut text = match is_open {
        true => format!("{} It was open for {}, until {ends}.", unfinished(why), time(took)),
        false => format!("It took {}.", time(took)),
    };
    if let Some(link) = &why.bottleneck
        && share(held.iter().map(|part| why.part(*part)).sum()) >= 30
    {
        text += &shared(link, took);
    }
    let named = parts.iter().enumerate().filter(|(at, (_, ps))| *at == 0 || share(*ps) >= 15);
    for (at, (part, ps)) in named.take(3) {
        let lead = if at == 0 { " For" } else { "; for" };
        text += &format!("{lead} {} % of the time {}", share(*ps), clause(why, *part));
    }
    text.push('.');
    text
}

/// The other traffic on the link that delayed a flow most.
fn shared(bottleneck: &Bottleneck, fct: u64) -> String {
    let Bottleneck { link, to, flows, busy_ps, own_ps } = bottleneck;
    let share = |ps: u64| ps.saturating_mul(100).checked_div(fct).unwrap_or(0);
    let (elsewhere, of_flow) = match own_ps {
        0 => (", which it does not use,", String::new()),
        own => ("", format!(", of this flow for {} %", share(*own))),
    };
    let use_of = match (flows, to.starts_with("host ")) {
        (0 | 1, _) if *own_ps == 0 => "one flow uses it".to_owned(),
        (0 | 1, _) => "no other flow uses it".to_owned(),
        (flows, true) => format!("{flows} flows to that host share it"),
        (flows, false) => format!("{flows} flows share it"),
    };
    let busy = share(*busy_ps);
    format!(
        " The link {link} to {to}{elsewhere} held it up most: {use_of}, and it sent data for \
         {busy} % of the time{of_flow}."
    )
}

fn unfinished(why: &FlowWhy) -> String {
    if why.time_ps().is_none() {
        return "It did not start.".to_owned();
    }
    let sent = why.packets.sent;
    match (most(&why.packets.lost), lost_answers(why)) {
        (Some((place, count)), _) => {
            format!("It did not finish: of {sent} packets {count} were lost at {}.", lossy(&place))
        }
        (None, _) if sent == 0 => "It did not finish: it sent no data.".to_owned(),
        (None, Some(answers)) => {
            format!("It did not finish: none of its {sent} packets was lost, but {answers}.")
        }
        (None, None) => format!("It did not finish; none of its {sent} packets was lost."),
    }
}

/// The answers to its packets that were lost, where some were.
fn lost_answers(why: &FlowWhy) -> Option<String> {
    let (place, count) = most(&why.packets.answers_lost)?;
    Some(format!("{count} answers to them were lost at {}", lossy(&place)))
}

/// A link and the reason of a loss, as results have them, in words.
fn lossy(place: &str) -> String {
    let (link, reason) = place.split_once(' ').unwrap_or((place, ""));
    match reason {
        "link_down" => format!("{link}, a link that is down"),
        reason => format!("{link} ({})", reason.replace('_', " ")),
    }
}

/// The largest count with its name.
fn most(counts: &BTreeMap<String, u64>) -> Option<(String, u64)> {
    let most = counts.iter().max_by_key(|(_, count)| **count);
    most.map(|(name, count)| (name.clone(), *count))
}

/// The description of a part of the time, with its cause.
fn clause(why: &FlowWhy, part: TimePart) -> String {
    match part {
        TimePart::Path => "its last packet and the answer were on links".to_owned(),
        TimePart::Sending => "its host's line was sending its own bytes".to_owned(),
        TimePart::Turn => "its host's line was sending other flows".to_owned(),
        TimePart::Window => window(why),
        TimePart::Pacing => format!("its controller spread its packets{}", marks(why)),
        TimePart::Scheduler => scheduler(why),
        TimePart::Receiver => "it waited for its receiver to answer".to_owned(),
        TimePart::Queue => queue(why),
        TimePart::Paused => paused(why),
        TimePart::Retransmission => repair(why),
        TimePart::Other => "the cause is not known".to_owned(),
    }
}

fn window(why: &FlowWhy) -> String {
    format!("its window was full, time in queues not counted{}", marks(why))
}

fn scheduler(why: &FlowWhy) -> String {
    match epochs(&why.demands, why.part(TimePart::Scheduler), "its host's") {
        Some(causes) => format!("it waited for epochs of its pod's scheduler: {causes}"),
        None => "its scheduler held it back (credit, tokens or slots)".to_owned(),
    }
}

/// The most frequent causes for which cells waited for epochs, of `all` picoseconds; `owner` is
/// the end that sends them.
fn epochs(demands: &[DemandTime], all: u64, owner: &str) -> Option<String> {
    let share = |time: &DemandTime| time.ps.saturating_mul(100).checked_div(all).unwrap_or(0);
    let named = demands.iter().take(NAMED_CAUSES);
    let named = named.filter(|time| share(time) >= NAMED_SHARE).map(|time| {
        let first = if time.smaller { ", some with less to send" } else { "" };
        format!("{}{first} ({} %)", cause(&time.cause, owner), share(time))
    });
    let named: Vec<String> = named.collect();
    if named.is_empty() { None } else { Some(named.join(", ")) }
}

/// Causes that a sentence names, and the least share of one, per cent.
const NAMED_CAUSES: usize = 3;
const NAMED_SHARE: u64 = 10;

/// What a decision did about a demand of `owner`, in words.
fn cause(name: &str, owner: &str) -> String {
    let words = match name {
        demands::REQUEST => "until a decision had its request",
        demands::DECISION => "until the answer's epoch",
        demands::CORES => "the links to all Cores were granted to other hosts",
        "granted" => "its demand had the epoch for other cells, or its grant was lost",
        "sender" => return format!("{owner} link was granted to other receivers"),
        "receiver" => "its receiver's link was granted to other senders",
        "ends" => "the links of both ends were granted to others",
        "routes" => "no route between the two had only idle links",
        "paused" => "no Core took more cells for its pod",
        "broken" => "no route had only links that work",
        "silent" => "requests of one end were missing",
        "fence" => "grants of another term were not over",
        "unmatched" => "the matcher did not find the route that there was",
        other => other,
    };
    words.to_owned()
}

/// The link that marked most of its packets, where some were marked.
fn marks(why: &FlowWhy) -> String {
    let sent = why.packets.sent;
    match (most(&why.packets.trimmed), most(&why.packets.marked)) {
        (Some((link, count)), marked) if marked.as_ref().is_none_or(|(_, m)| *m < count) => {
            format!(" ({count} of its {sent} packets were trimmed at {link})")
        }
        (_, Some((link, count))) => {
            format!(" ({count} of its {sent} packets were marked at {link})")
        }
        _ => String::new(),
    }
}

fn queue(why: &FlowWhy) -> String {
    let Some(first) = why.queues.first() else { return "it was in queues".to_owned() };
    let all: u64 = why.queues.iter().map(|wait| wait.ps).sum();
    let share = first.ps.saturating_mul(100).checked_div(all).unwrap_or(0);
    let most = match (share, why.queues.len()) {
        (_, 1) => "it was in the queue".to_owned(),
        (share, links) => {
            format!("it was in the queues of {links} links, {share} % of that time in one")
        }
    };
    let flows = match first.flows {
        0 | 1 => "which no other flow uses".to_owned(),
        flows => format!("which {flows} flows use"),
    };
    let in_core: Vec<DemandTime> =
        why.in_cores.iter().filter(|time| time.link == first.link).cloned().collect();
    let causes =
        epochs(&in_core, first.ps, "the Core's").map_or_else(String::new, |it| format!(": {it}"));
    format!("{most} of {} to {}, {flows}{causes}", first.link, first.to)
}

fn paused(why: &FlowWhy) -> String {
    let links = "switches had paused links on its way (PFC)";
    let Some(QueueWait { link, to, flows, .. }) = why.paused.first() else {
        return links.to_owned();
    };
    let flows = if *flows == 1 { "one flow uses".to_owned() } else { format!("{flows} flows use") };
    format!("{links}, most for the queue of {link} to {to}, which {flows}")
}

fn repair(why: &FlowWhy) -> String {
    let Some(first) = why.retransmissions.first() else {
        return "it waited until losses were known".to_owned();
    };
    let place = first.link.as_ref().map_or_else(String::new, |link| format!(" at {link}"));
    let how = match first.by.as_str() {
        "timer" => "a timer found it",
        _ => "an answer said so",
    };
    let what = match first.cause.as_str() {
        "trimmed" => format!("that packets had been trimmed{place}"),
        "link_down" => format!("that packets had been lost{place}, a link that is down"),
        "not_lost" => {
            let cause =
                lost_answers(why).map_or_else(String::new, |lost| format!(", since {lost}"));
            format!("what had become of packets that were not lost{cause}")
        }
        reason => format!("that packets had been lost{place} ({})", reason.replace('_', " ")),
    };
    let times = if first.times == 1 { "once".to_owned() } else { format!("{} times", first.times) };
    if first.by == "none" {
        return format!("its packets were lost{place}, and nothing had shown that when it ended");
    }
    format!("it waited until the sender knew {what} ({how}, {times})")
}

/// A time in the unit that suits its length.
#[expect(clippy::cast_precision_loss, reason = "a display")]
fn time(ps: u64) -> String {
    shown::time(ps as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_that_was_granted_to_others_is_that_of_the_end_that_sends() {
        let time =
            DemandTime { link: String::new(), cause: "sender".to_owned(), smaller: false, ps: 50 };
        for (owner, words) in [
            ("its host's", "its host's link was granted to other receivers (50 %)"),
            ("the Core's", "the Core's link was granted to other receivers (50 %)"),
        ] {
            assert_eq!(epochs(std::slice::from_ref(&time), 100, owner).as_deref(), Some(words));
        }
    }

    #[test]
    fn a_link_is_said_to_be_used_by_the_flows_that_use_it() {
        let link = |to: &str, flows, own_ps| Bottleneck {
            link: "tor:2:down:0".to_owned(),
            to: to.to_owned(),
            flows,
            busy_ps: 80,
            own_ps,
        };
        let says = |link: Bottleneck, words: &str| {
            let said = shared(&link, 100);
            assert!(said.contains(words), "no `{words}` in `{said}`");
        };
        says(link("host 8", 1, 40), "held it up most: no other flow uses it, and");
        says(link("host 8", 1, 0), "which it does not use, held it up most: one flow uses it");
        says(link("host 8", 3, 0), "3 flows to that host share it");
        says(link("core 1", 3, 20), "3 flows share it, and it sent data for 80 % of the time, of");
    }
}
