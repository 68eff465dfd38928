//! The queue that a received frame comes to: the ladder from rules in the device to software.
//!
//! Source: DPDK Programmer's Guide, "Generic flow API" (rte_flow) and "Receive Side Scaling". A
//! worker is a host with an address of its own and polls one queue, so the destination address says
//! where a frame belongs. From the best to what always works:
//!
//! | Rung | The device | Frames in the wrong queue |
//! |---|---|---|
//! | [`Rung::Addresses`] | has a rule a worker: its address, its queue | none |
//! | [`Rung::Together`] | spreads our UDP port by destination address | of a worker all, or none |
//! | [`Rung::Spread`] | spreads by its hash of addresses and ports | most |
//! | [`Rung::Software`] | brings all to the first queue | all but the first worker's |
//!
//! Frames in the wrong queue are handed over (`steering.rs`), so a rung costs time and never
//! correctness. Rules are asked for one by one. At the first refusal, the rules before it are taken
//! back, and the next lower rung is tried, with the driver's words in the log. Nothing here touches
//! a device: its owner passes in the calls.

use std::fmt;
use std::net::IpAddr;

/// How frames come to the queues of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rung {
    /// The device has one queue.
    Single,
    /// Each worker's address has a rule.
    Addresses,
    /// One rule keeps frames for one address in one queue.
    Together,
    /// The device's hash.
    Spread,
    /// The first queue has all.
    Software,
}

/// A rule for received frames with our UDP port as destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Frames for `address` go to `queue`.
    Queue {
        /// Destination.
        address: IpAddr,
        /// The receive queue.
        queue: u16,
    },
    /// All, of one version of IP, are spread over the first `queues` by their destination.
    ByDestination {
        /// IPv6, else IPv4.
        v6: bool,
        /// The number of queues.
        queues: u16,
    },
}

/// A device that may take rules.
pub(crate) trait Rules {
    /// Puts `rule` in force, or returns in the driver's words why not.
    fn add(&mut self, rule: Rule) -> Result<(), String>;
    /// Takes all rules back.
    fn clear(&mut self);
}

/// Goes down the rungs until one works: `addresses[i]` is the worker's at queue `i` of `queues`;
/// `hashes` is set when the device was configured to spread. Returns the rung, and why it is not a
/// better one.
pub(crate) fn climb(
    device: &mut dyn Rules,
    addresses: &[IpAddr],
    queues: u16,
    hashes: bool,
) -> (Rung, Vec<String>) {
    let mut refused = Vec::new();
    if queues <= 1 {
        return (Rung::Single, refused);
    }
    let own =
        addresses.iter().zip(0..queues).map(|(&address, queue)| Rule::Queue { address, queue });
    let versions =
        [false, true].into_iter().filter(|v6| addresses.iter().any(|a| a.is_ipv6() == *v6));
    let together = versions.map(|v6| Rule::ByDestination { v6, queues });
    let rungs: [(Rung, Vec<Rule>); 2] =
        [(Rung::Addresses, own.collect()), (Rung::Together, together.collect())];
    for (rung, rules) in rungs {
        let all = rules.iter().try_for_each(|rule| device.add(*rule));
        match all {
            // Without addresses there is nothing to distinguish the queues by.
            Ok(()) if !rules.is_empty() => return (rung, refused),
            Ok(()) => {}
            Err(words) => {
                device.clear();
                refused.push(format!("{rung}: {words}"));
            }
        }
    }
    (if hashes { Rung::Spread } else { Rung::Software }, refused)
}

impl fmt::Display for Rung {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Single => "one queue",
            Self::Addresses => "a rule for each worker's address",
            Self::Together => "a rule that spreads by destination address",
            Self::Spread => "the device's hash, and handing over",
            Self::Software => "handing over from the first queue",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    /// A device that takes the rules for which `takes` holds, up to `most` of them.
    struct Table {
        takes: fn(&Rule) -> bool,
        most: usize,
        rules: Vec<Rule>,
    }

    impl Rules for Table {
        fn add(&mut self, rule: Rule) -> Result<(), String> {
            if !(self.takes)(&rule) || self.rules.len() == self.most {
                return Err("item not supported".into());
            }
            self.rules.push(rule);
            Ok(())
        }

        fn clear(&mut self) {
            self.rules.clear();
        }
    }

    fn v4(last: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, last).into()
    }

    fn table(takes: fn(&Rule) -> bool) -> Table {
        Table { takes, most: 64, rules: Vec::new() }
    }

    const fn any(_: &Rule) -> bool {
        true
    }

    const fn by_destination(rule: &Rule) -> bool {
        matches!(rule, Rule::ByDestination { .. })
    }

    const fn none(_: &Rule) -> bool {
        false
    }

    #[test]
    fn a_device_that_takes_rules_has_one_for_each_workers_queue() {
        let mut device = table(any);
        let (rung, refused) = climb(&mut device, &[v4(1), v4(2)], 2, true);
        assert_eq!((rung, refused.len()), (Rung::Addresses, 0));
        let rule = |address, queue| Rule::Queue { address, queue };
        assert_eq!(device.rules, [rule(v4(1), 0), rule(v4(2), 1)]);
    }

    #[test]
    fn a_full_table_goes_down_without_leaving_half_of_the_rules() {
        let mut device = Table { most: 1, ..table(any) };
        let (rung, refused) = climb(&mut device, &[v4(1), v4(2)], 2, true);
        assert_eq!((rung, refused.len()), (Rung::Together, 1));
        assert_eq!(device.rules, [Rule::ByDestination { v6: false, queues: 2 }]);
        assert!(refused[0].contains("item not supported"), "{refused:?}");
    }

    #[test]
    fn both_versions_of_ip_have_their_rule() {
        let mut device = table(by_destination);
        let six = IpAddr::from(Ipv6Addr::LOCALHOST);
        let (rung, _) = climb(&mut device, &[v4(1), six], 4, false);
        assert_eq!((rung, device.rules.len()), (Rung::Together, 2));
    }

    #[test]
    fn without_rules_the_hash_serves_and_without_that_software_does() {
        for (hashes, expected) in [(true, Rung::Spread), (false, Rung::Software)] {
            let mut device = table(none);
            let (rung, refused) = climb(&mut device, &[v4(1), v4(2)], 2, hashes);
            assert_eq!((rung, refused.len(), device.rules.len()), (expected, 2, 0));
        }
    }

    #[test]
    fn one_queue_needs_no_rule_and_no_addresses_take_none() {
        let mut device = table(any);
        assert_eq!(climb(&mut device, &[v4(1)], 1, true).0, Rung::Single);
        assert_eq!(climb(&mut device, &[], 4, true).0, Rung::Spread);
        assert!(device.rules.is_empty());
    }
}
