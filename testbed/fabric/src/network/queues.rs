//! How long the queues of each switch are, and how long they were at most since the last look.

use super::Network;
use crate::elements::Node;

/// The data bytes that wait at one switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwitchQueues {
    /// Bytes in the queue of the port that has most.
    pub port_bytes: u64,
    /// The most bytes in the queue of one port at once since the last look.
    pub port_peak: u64,
    /// Bytes in the switch's program.
    pub held_bytes: u64,
    /// The most bytes in the program at once since the last look.
    pub held_peak: u64,
    /// Bytes in all ports of the switch and its program.
    pub sum_bytes: u64,
}

impl SwitchQueues {
    /// Adds the queues of the same switch that another part of the network runs.
    pub fn add(&mut self, other: &Self) {
        self.port_bytes = self.port_bytes.max(other.port_bytes);
        self.port_peak = self.port_peak.max(other.port_peak);
        self.held_bytes = self.held_bytes.max(other.held_bytes);
        self.held_peak = self.held_peak.max(other.held_peak);
        self.sum_bytes += other.sum_bytes;
    }
}

impl Network {
    /// The queues of each switch, with their peaks since the last call, or since the start. Peaks
    /// of the whole run stay what they are. O(ports).
    pub fn look_at_queues(&mut self) -> Vec<SwitchQueues> {
        let mut all = vec![SwitchQueues::default(); self.blueprint.switches.len()];
        self.earlier_peaks.resize(self.ports.len() + self.programs.len(), 0);
        let (of_ports, of_programs) = self.earlier_peaks.split_at_mut(self.ports.len());
        // What waits now was counted when it came: it is no new peak of the run.
        let restart = |peak: &mut u64, now: u64, earlier: &mut u64| {
            *earlier = (*earlier).max(*peak);
            std::mem::replace(peak, now)
        };
        let specs = self.blueprint.ports.iter();
        for ((state, spec), earlier) in self.ports.iter_mut().zip(specs).zip(of_ports) {
            let Node::Switch(switch) = spec.owner else { continue };
            let bytes = state.port.data_bytes();
            let one = &mut all[switch as usize];
            one.port_peak = one.port_peak.max(restart(&mut state.stats.data_peak, bytes, earlier));
            one.port_bytes = one.port_bytes.max(bytes);
            one.sum_bytes += bytes;
        }
        for (programmed, earlier) in self.programs.iter_mut().zip(of_programs) {
            let bytes = programmed.program_holds().data_bytes;
            let one = &mut all[programmed.switch as usize];
            one.held_peak = restart(&mut programmed.held_peak, bytes, earlier);
            one.held_bytes = bytes;
            one.sum_bytes += bytes;
        }
        all
    }

    /// The peak of a port, or behind them of a program, before the last look.
    pub(crate) fn earlier_peak(&self, place: usize) -> u64 {
        self.earlier_peaks.get(place).copied().unwrap_or(0)
    }

    /// Takes over the peaks of another part of the network.
    pub(crate) fn add_earlier_peaks(&mut self, other: &Self) {
        let most = self.earlier_peaks.len().max(other.earlier_peaks.len());
        self.earlier_peaks.resize(most, 0);
        for (mine, theirs) in self.earlier_peaks.iter_mut().zip(&other.earlier_peaks) {
            *mine = (*mine).max(*theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use transport::{Bytes, HostId, Instant, Rng};

    use super::*;
    use crate::qdisc::{QdiscKind, QdiscParams};
    use crate::{Flags, NoFrames, Packet, leaf_spine};

    const LEN: u16 = 4096;

    /// Two hosts of a leaf send ten packets each to a third one.
    fn network() -> Network {
        let params = QdiscParams::for_buffer(Bytes(1 << 20), Bytes(LEN.into()), QdiscParams::MARK);
        let blueprint = leaf_spine::blueprint(QdiscKind::DropTail, params);
        let mut network = Network::new(blueprint, &Rng::new(1));
        let (dst, flags) = (HostId(2), Flags::NONE);
        for handle in 0..20 {
            let packet = Packet { handle, dst, hash: 0, len: LEN, trim_len: 64, flags };
            let host = HostId(handle % 2);
            network.inject(host, packet, Instant::ZERO, &mut NoFrames, &mut Vec::new());
        }
        network
    }

    #[test]
    fn each_look_has_the_peaks_since_the_one_before_and_changes_no_peak_of_the_run() {
        let end = Instant::from_ps(10_000_000);
        let mut unseen = network();
        unseen.run_until(end, &mut NoFrames, &mut Vec::new());
        let peak = unseen.totals().data_peak;
        assert_eq!(unseen.look_at_queues()[0].port_peak, peak);
        let mut network = network();
        let mut peaks = Vec::new();
        // A packet takes 41 ns; the last one leaves its host after 410.
        for at in [1_300_000, 1_500_000, 1_700_000, 2_000_000, 10_000_000] {
            network.run_until(Instant::from_ps(at), &mut NoFrames, &mut Vec::new());
            let looked = network.look_at_queues();
            let one = looked[0];
            assert!(one.port_peak >= one.port_bytes && one.sum_bytes == one.port_bytes);
            assert!(looked[1..].iter().all(|other| *other == SwitchQueues::default()));
            peaks.push((one.port_peak, one.port_bytes));
        }
        let [rising, top, falling, over, after] = peaks[..] else { panic!("{peaks:?}") };
        assert!(0 < rising.0 && rising.0 < peak && top.0 == peak, "{peaks:?} {peak}");
        assert!(falling.0 == top.1 && falling.0 < peak && over.0 == falling.1, "{peaks:?}");
        assert_eq!((over.1, after), (0, (0, 0)));
        assert_eq!(network.totals(), unseen.totals());
    }
}
