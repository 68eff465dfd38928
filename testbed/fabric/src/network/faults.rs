//! Faults of links, added to a network.

use super::Network;
use crate::calendar::Flight;
use crate::elements::{Node, PortId};
use crate::fault::{FaultError, FaultKind, FaultSpec, LinkFaults};
use crate::frames::{Driver, NoFrames};
use crate::program::Surroundings;
use crate::transit::NO_FAULT;

impl Network {
    /// Adds a fault to the links that `ports` transmit on. It acts on transmissions that start from
    /// now on; packets on links have their next port already.
    ///
    /// # Errors
    /// When the fault makes no sense; nothing is added then. Ports that do not exist are skipped.
    pub fn add_fault(&mut self, ports: &[PortId], spec: FaultSpec) -> Result<(), FaultError> {
        spec.check()?;
        let spec = self.crash(ports, spec);
        for PortId(port) in ports {
            let links = &mut self.links;
            let Some(state) = self.ports.get_mut(*port as usize) else { continue };
            let blueprint = &self.blueprint.ports[*port as usize];
            if state.fault == NO_FAULT {
                state.fault = u32::try_from(links.faults.len()).unwrap_or(NO_FAULT);
                links.fault_of[*port as usize] = state.fault;
                let rng = self.fault_rng.fork("link", u64::from(*port));
                links.faults.push(LinkFaults::new(blueprint.rate, rng));
            }
            let rate = links.faults[state.fault as usize].add(spec, self.now);
            if rate != state.port.rate() {
                state.port.set_rate(rate, self.now);
            }
            if let (Node::Switch(owner), FaultKind::Down) = (blueprint.owner, spec.kind) {
                for (from, until) in links.faults[state.fault as usize].outages(links.detection) {
                    links.switches[owner as usize].widen_outage(from, until);
                    if let Some(mesh) = &mut links.mesh {
                        mesh.widen_outage(from, until);
                    }
                }
            }
            self.expect_turn(*port);
        }
        Ok(())
    }

    /// If the fault is a crash, schedules it for each switch that has all of its ports among
    /// `ports`; returns the fault as it acts on their links.
    fn crash(&mut self, ports: &[PortId], spec: FaultSpec) -> FaultSpec {
        if spec.kind != FaultKind::Crash {
            return spec;
        }
        for program in &mut self.programs {
            let mut own = self.blueprint.switches[program.switch as usize].ports();
            if own.all(|port| ports.contains(&PortId(port))) {
                program.crashes.push(spec.from);
                let flight = Flight::crash(program.target(), spec.from.max(self.now));
                self.links.calendar.push(flight);
            }
        }
        FaultSpec { kind: FaultKind::Down, ..spec }
    }

    /// Makes sure that `port`, whose next turn may have moved, gets this turn: by itself, or with
    /// its switch where that runs a program.
    fn expect_turn(&mut self, port: u32) {
        let place = match self.blueprint.ports[port as usize].owner {
            Node::Switch(owner) => {
                self.programs.binary_search_by_key(&owner, |program| program.switch).ok()
            }
            Node::Host(_) => None,
        };
        let Some(place) = place else {
            self.links.wake_for_departure(&mut self.ports[port as usize]);
            return;
        };
        // No packet moves here.
        let driver = Driver { out: &mut Vec::new(), frames: &mut NoFrames };
        let (ports, transit, wiring) = (&mut self.ports[..], &mut self.links, &self.wiring);
        let around = Surroundings { ports, transit, wiring, driver };
        self.programs[place].expect(around, port);
    }
}
