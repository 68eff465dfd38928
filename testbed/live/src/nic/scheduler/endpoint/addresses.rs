//! Where frames to hosts go.
//!
//! A MAC is that of the file, or the one from which a frame with the host's key came last: the host
//! itself, or its router. A host of which neither is known, or that introduces itself from another
//! MAC, is asked for its MAC. A frame without a key is no evidence of its sender's MAC, since it
//! may be forged: the invitation would go to the host that forged it.

use std::net::IpAddr;

use transport::wire::addressing::{AddressError, Addressing};
use transport::{Duration, HostId, Instant};
use transport_dpdk::neighbour::{Mac, Resolution, Resolver, Station};

use crate::switching::LearntAddresses;

/// Hosts that answer, do so at once; a host that does not introduces itself again.
const PATIENCE: Duration = Duration::from_ms(100);
/// Between two turns of questions.
const EVERY: Duration = Duration::from_ms(20);

/// The addresses of hosts by number; the scheduler's is behind the last one.
#[derive(Debug)]
pub(super) struct Addresses {
    learnt: LearntAddresses,
    station: Station,
    /// For each host: its address, and whether the file has its MAC.
    hosts: Vec<(IpAddr, bool)>,
    /// Hosts to be asked in the next turn, each once.
    wanted: Vec<u16>,
    /// The turn under way, and the hosts that are asked.
    asking: Option<(Resolver, Vec<u16>)>,
    /// When the next turn may begin.
    ask_at: Instant,
}

impl Addresses {
    /// The addresses of `hosts` with their MACs as far as the file has them, for the scheduler at
    /// `station`.
    ///
    /// # Errors
    /// When two hosts have one address, or it is none of a machine.
    pub(super) fn new(
        hosts: &[(IpAddr, Option<Mac>)],
        station: Station,
        udp_port: u16,
    ) -> Result<Self, AddressError> {
        let own = (station.ip, Some(station.mac));
        let learnt = LearntAddresses::new(hosts.iter().copied().chain([own]), udp_port)?;
        let hosts: Vec<_> = hosts.iter().map(|(ip, mac)| (*ip, mac.is_some())).collect();
        let wanted = Vec::with_capacity(hosts.len());
        Ok(Self { learnt, station, hosts, wanted, asking: None, ask_at: Instant::ZERO })
    }

    /// How hosts are addressed.
    pub(super) const fn addressing(&self) -> &Addressing {
        self.learnt.addressing()
    }

    /// MACs that have changed so far.
    #[inline]
    pub(super) const fn changes(&self) -> u64 {
        self.learnt.changes()
    }

    /// A frame with the key of `host` begins with `head`.
    pub(super) fn learn(&mut self, host: HostId, head: &[u8]) {
        self.learnt.learn(host, head);
    }

    /// Handles a frame without the key of `host`, which begins with `head`. Returns whether the MAC
    /// of the host is known. It is asked for where it is not known, and where the frame is from
    /// another MAC.
    pub(super) fn reaches(&mut self, host: u16, head: &[u8]) -> bool {
        let known = self.learnt.mac(HostId(host.into()));
        let is_from_it = known.is_some_and(|mac| head.get(6..12) == Some(&mac[..]));
        let is_given = self.hosts.get(usize::from(host)).is_none_or(|(_, given)| *given);
        if !is_from_it && !is_given && !self.wanted.contains(&host) {
            self.wanted.push(host);
        }
        known.is_some()
    }

    /// Whether there may be a question that is due by `now`, or a turn is to be ended.
    #[inline]
    pub(super) fn asks(&self, now: Instant) -> bool {
        self.asking.is_some() || (!self.wanted.is_empty() && now >= self.ask_at)
    }

    /// Writes the next question that is due by `now`, and takes note of the answers of a turn that
    /// is over.
    pub(super) fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        if let Some((resolver, hosts)) = &mut self.asking {
            let length = resolver.poll_transmit(now, out);
            if length.is_some() || !resolver.is_over() {
                return length;
            }
            for (at, host) in hosts.iter().enumerate() {
                if let Resolution::Known(mac) = resolver.peer(at) {
                    self.learnt.set(HostId((*host).into()), mac);
                }
            }
            self.asking = None;
        }
        if self.wanted.is_empty() || now < self.ask_at {
            return None;
        }
        self.ask_at = now + EVERY;
        let hosts = std::mem::take(&mut self.wanted);
        let of = |host: &u16| self.hosts.get(usize::from(*host)).map(|(ip, _)| (*ip, None));
        let peers: Vec<(IpAddr, Option<Mac>)> = hosts.iter().filter_map(of).collect();
        let mut resolver = Resolver::new(self.station, &peers, now, PATIENCE);
        let length = resolver.poll_transmit(now, out);
        self.asking = Some((resolver, hosts));
        length
    }

    /// Takes a frame that is no packet of a host; returns whether it is an answer that is waited
    /// for.
    pub(super) fn handle_frame(&mut self, frame: &[u8]) -> bool {
        self.asking.as_mut().is_some_and(|(resolver, _)| resolver.handle_frame(frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = |ms| Instant::ZERO + Duration::from_ms(ms);
    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 9];
    const LIAR: [u8; 6] = [2, 0, 0, 0, 0, 0x66];

    fn station(last: u8) -> Station {
        let mac = [2, 0, 0, 0, 0, last];
        Station { mac, ip: IpAddr::from([10, 0, 0, last]), prefix: 24, gateway: None }
    }

    /// The head of a frame from `mac`.
    fn from(mac: [u8; 6]) -> Vec<u8> {
        [&OWN[..], &mac[..], &[8, 0]].concat()
    }

    #[test]
    fn a_host_is_asked_for_its_mac_and_frames_without_its_key_teach_none() {
        let [one, two] = [station(1), station(2)];
        let hosts = [(one.ip, None), (two.ip, Some(two.mac))];
        let mut all = Addresses::new(&hosts, station(9), 4797).unwrap();
        let mac = |all: &Addresses, host| all.learnt.mac(HostId(host));
        assert!(!all.reaches(0, &from(LIAR)), "its MAC is not known");
        assert!(all.reaches(1, &from(LIAR)));
        assert_eq!((mac(&all, 0), mac(&all, 1)), (None, Some(two.mac)));
        let (mut out, mut back) = ([0; 128], [0; 128]);
        let asked = all.poll_transmit(MS(1), &mut out).unwrap();
        assert_eq!(two.answer(&out[..asked], &mut back), None, "the file has its MAC");
        let answered = one.answer(&out[..asked], &mut back).unwrap();
        assert!(all.handle_frame(&back[..answered]));
        assert_eq!(all.poll_transmit(MS(2), &mut out), None);
        assert_eq!(mac(&all, 0), Some(one.mac));
        assert!(all.reaches(0, &from(one.mac)) && all.wanted.is_empty());
        // It is asked again, and its MAC stays until it answers.
        assert!(all.reaches(0, &from(LIAR)) && mac(&all, 0) == Some(one.mac));
        assert_eq!(all.poll_transmit(MS(3), &mut out), None, "not so soon");
        assert!(all.poll_transmit(MS(21), &mut out).is_some());
        // No answer comes for the patience of a turn; the next one asks again.
        while all.poll_transmit(MS(121), &mut out).is_some() {}
        assert!(all.asking.is_none() && mac(&all, 0) == Some(one.mac));
        // A frame with its key shows that its router has changed.
        all.learn(HostId(0), &from([2, 0, 0, 0, 0, 7]));
        assert_eq!(mac(&all, 0), Some([2, 0, 0, 0, 0, 7]));
    }
}
