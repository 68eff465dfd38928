//! All hosts of a measured pod at the far end of its scheduler's device: they ask, and note when
//! they are answered.

use std::fmt::Write as _;
use std::sync::Arc;

use transport::sched::zeropod::timing::Timing;
use transport::sched::zeropod::{Unreported, turn_from};
use transport::wire::addressing::{AddressTable, Addressing, HostAddr};
use transport::wire::checksum::Checksum;
use transport::wire::frame::{self, FrameSpec};
use transport::wire::pod::{ClockState, DemandEnd, Grant, Invite, Join, Rts, Schd, hosts_a_switch};
use transport::wire::{Body, Ext, Header, Note};
use transport::{BURST, Duration, EntropyValue, HostId, Instant, Key, Rng};
use transport_dpdk::{DilatedClock, LinkEnd, MbufBurst, Pool};

use super::load::{FlowSource, HostFlows};
use super::{FRAME_MAX, PodCase};

/// Epochs whose requests are kept.
const KEPT: usize = 64;
/// Epochs of cells that a host asks for and is not granted at most.
const OPEN_MAX: u32 = 64;
/// Between two introductions.
const JOIN_EVERY: Duration = Duration::from_ms(10);

/// One host.
struct PodHost {
    /// The key of its notes.
    key: Key,
    /// Whether a scheduler has answered the host, and so takes its requests.
    answered: bool,
    /// Receivers, and the bytes asked for so far.
    receivers: Vec<(u16, u32)>,
    /// Epochs of cells asked for and not granted.
    open: u32,
    /// The last requests by their epoch modulo [`KEPT`], and when they left.
    asked: [(u64, Instant); KEPT],
    flows: HostFlows,
    arrivals: Unreported,
}

/// The hosts.
pub(super) struct PodHosts {
    join: Join,
    timing: Timing,
    addressing: Addressing,
    scheduler: HostId,
    hosts: Vec<PodHost>,
    /// Where flows come; `None` where every host asks for the cells of an epoch in every epoch.
    source: Option<FlowSource>,
    /// Epochs among which a host that asks for nothing sends one request.
    ask_every: u64,
    /// Frames to and from the scheduler.
    frames: u64,
    /// Hosts in the order of their slots.
    by_slot: Vec<u16>,
    term: u16,
    granted: u64,
    /// Thousandths of an epoch that requests waited for their answers.
    waited: Vec<u32>,
    rng: Rng,
    end: LinkEnd,
    pool: Arc<Pool>,
    out: MbufBurst,
}

/// The address of a host; the scheduler's is behind the last one.
fn address(host: u16) -> ([u8; 4], [u8; 6]) {
    let [high, low] = (host + 1).to_be_bytes();
    ([10, 0, high, low], [2, 0, 0, 0, high, low])
}

/// The hosts file of a pod of `hosts` hosts.
pub(super) fn file(hosts: u16) -> String {
    let mut text = String::new();
    for host in 0..=hosts {
        let ([a, b, c, d], [.., high, low]) = address(host);
        let role = if host == hosts { "role = \"scheduler\"\n" } else { "" };
        // A `String` takes any text.
        let _ = write!(
            text,
            "[[host]]\nname = \"h{host}\"\naddress = \"{a}.{b}.{c}.{d}/16\"\n\
             mac = \"02:00:00:00:{high:02x}:{low:02x}\"\ndevice = \"net_ring0\"\n\
             control = \"10.1.0.1:4798\"\n{role}"
        );
    }
    text
}

/// The control slot of a host: its number under its switch.
fn slot(join: &Join, host: u16) -> u16 {
    host % hosts_a_switch(join.hosts)
}

impl PodHosts {
    /// The hosts of `case` in the pod that `join` introduces; `None` where they have no addresses.
    pub(super) fn new(
        case: &PodCase,
        join: Join,
        (end, pool): (LinkEnd, Arc<Pool>),
    ) -> Option<Self> {
        let addr = |host: u16| {
            let (ip, mac) = address(host);
            HostAddr { mac, ip: ip.into() }
        };
        let table = AddressTable::new((0..=case.hosts).map(addr).collect()).ok()?;
        let mut rng = Rng::new(case.seed).fork("pod hosts", 0);
        let timing = Timing::new(&join.timing_inputs());
        let lag = timing.to_receipt;
        let hosts = (0..case.hosts).map(|host| PodHost::new(host, (case, lag), &mut rng)).collect();
        let bytes = u32::from(join.cells) * u32::from(join.payload);
        let source = match case.load {
            Some(percent) => Some(FlowSource::new(percent, bytes)?),
            None => None,
        };
        let mut by_slot: Vec<u16> = (0..case.hosts).collect();
        by_slot.sort_by_key(|host| slot(&join, *host));
        Some(Self {
            join,
            timing,
            addressing: Addressing::table(table),
            scheduler: HostId(case.hosts.into()),
            hosts,
            source,
            ask_every: case.params.ask_every.max(1).into(),
            frames: 0,
            by_slot,
            term: 0,
            granted: 0,
            waited: Vec::new(),
            rng,
            end,
            pool,
            out: MbufBurst::new(),
        })
    }

    /// Whether a scheduler has answered every host.
    pub(super) fn is_served(&self) -> bool {
        self.hosts.iter().all(|host| host.answered)
    }

    /// Frames to and from the scheduler.
    pub(super) const fn frames(&self) -> u64 {
        self.frames
    }

    /// Epochs of cells that were granted.
    pub(super) const fn granted(&self) -> u64 {
        self.granted
    }

    /// All hosts that have not been answered introduce themselves.
    pub(super) fn join_all(&mut self) {
        for host in 0..self.join.hosts {
            if !self.hosts[usize::from(host)].answered {
                self.put_of(host, &self.join.note());
            }
        }
        self.flush();
    }

    /// Keeps the frame of a note of `host` for the next burst.
    fn put_of(&mut self, host: u16, note: &Note) {
        let key = self.hosts[usize::from(host)].key;
        self.put(&note.for_host(EntropyValue(host), key));
    }

    /// All hosts send their requests of `epoch`.
    pub(super) fn ask_all(&mut self, epoch: u64, now: Instant) {
        for host in 0..self.join.hosts {
            self.ask(host, (epoch, now));
        }
        self.flush();
    }

    /// Epochs whose arrivals no request reported.
    pub(super) fn unreported(&self) -> u64 {
        self.hosts.iter().map(|host| host.arrivals.given_up()).sum()
    }

    /// A host asks for what it has to ask for in `epoch`, and reports arrivals. Where requests come
    /// on change, it sends none that would ask for nothing, but for its turn and for arrivals that
    /// the request of its turn did not report.
    fn ask(&mut self, host: u16, (epoch, now): (u64, Instant)) {
        let turn = |epoch| turn_from(epoch, self.ask_every, host.into());
        let is_turn = turn(epoch) == epoch;
        let due = self.hosts[usize::from(host)].arrivals.due();
        let reports = self.source.is_some() && due.is_some_and(|due| turn(due) <= epoch);
        let update = self.next_update(host, epoch);
        if !is_turn && update.is_none() && !reports {
            return;
        }
        #[expect(clippy::cast_possible_truncation, reason = "below KEPT")]
        let place = (epoch % KEPT as u64) as usize;
        let of = &mut self.hosts[usize::from(host)];
        of.asked[place] = (epoch, now);
        let (arrived, arrived_in) = match &self.source {
            None => (self.all_cells(), 1),
            Some(_) => of.arrivals.take(epoch),
        };
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        let rts = Rts {
            term: self.term,
            epoch: epoch as u32,
            update,
            arrived,
            arrived_in,
            clock: Some(ClockState { behind_gap: false, settled: true }),
            ..Rts::VACANT
        };
        self.put_of(host, &rts.note());
    }

    /// All slots of an epoch.
    fn all_cells(&self) -> u32 {
        u32::MAX >> (32 - u32::from(self.join.cells))
    }

    /// What a host asks for in `epoch`: a flow that has come, or else the cells of one more epoch.
    fn next_update(&mut self, host: u16, epoch: u64) -> Option<(DemandEnd, u32)> {
        let payload = u32::from(self.join.payload);
        let Self { hosts, rng, source, join, .. } = self;
        let of = &mut hosts[usize::from(host)];
        let (drawn, bytes) = match source {
            Some(source) => {
                let (receivers, now) = (of.receivers.len(), super::precise(epoch));
                of.flows.next((source, rng), (receivers, payload), now)?
            }
            None if of.open >= OPEN_MAX => return None,
            None => {
                let drawn = rng.below(of.receivers.len() as u64);
                (usize::try_from(drawn).unwrap_or(0), u32::from(join.cells) * payload)
            }
        };
        let (to, total) = of.receivers.get_mut(drawn)?;
        (of.open, *total) = (of.open + 1, total.wrapping_add(bytes));
        Some((DemandEnd::Host(*to), *total))
    }

    /// Keeps the frame of a note for the next burst; its entropy value is its host.
    fn put(&mut self, header: &Header) {
        let Body::Note(note) = &header.body else { return };
        let pair = self.addressing.pair(HostId(header.ev.0.into()), self.scheduler);
        let (Some(addrs), Some(mut mbuf)) = (pair, self.pool.alloc()) else { return };
        let Some(out) = mbuf.append(FRAME_MAX) else { return };
        let spec = FrameSpec { addrs, ecn: note.class.ecn(), class: note.class };
        let length = frame::emit(&spec, header, &Ext::VACANT, 0, out);
        frame::finish_udp_checksum(&mut out[..length], Checksum::new());
        let rest = FRAME_MAX - u16::try_from(length).unwrap_or(FRAME_MAX);
        self.frames += 1;
        if mbuf.trim(rest) && self.out.push(mbuf).is_ok() && self.out.len() == BURST {
            self.flush();
        }
    }

    /// Sends the frames that wait. Frames that the device does not take are lost; totals make up
    /// for them.
    fn flush(&mut self) {
        self.end.tx_burst(&mut self.out);
        self.out.clear();
    }

    /// Takes all answers that have come by `now`; whether there were any.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let (mut burst, mut any) = (MbufBurst::new(), false);
        while self.end.rx_burst(&mut burst) > 0 {
            any = true;
            for mbuf in burst.iter() {
                let Ok((header, _)) = frame::header_of(mbuf.data()) else { continue };
                let Body::Note(note) = header.body else { continue };
                if let Some(Invite { proof }) = Invite::of(&note)
                    && let Some(host) = self.hosts.get_mut(usize::from(header.ev.0))
                {
                    host.key = proof;
                    self.put_of(header.ev.0, &self.join.note());
                }
                let Some(schd) = Schd::of(&note) else { continue };
                self.frames += 1;
                self.term = schd.term;
                if let Some(host) = self.hosts.get_mut(usize::from(header.ev.0)) {
                    host.answered = true;
                }
                if let Some(grant) = schd.grant {
                    self.on_grant(header.ev.0, &grant, now);
                }
            }
            burst.clear();
        }
        self.flush();
        any
    }

    /// A host got a grant for `epoch`, by the first decision that took a request of an earlier
    /// epoch into account.
    fn on_grant(&mut self, host: u16, grant: &Grant, now: Instant) {
        let epoch = grant.epoch;
        self.granted += u64::from(grant.epochs);
        if let (Some(_), DemandEnd::Host(to)) = (&self.source, grant.to)
            && let Some(receiver) = self.hosts.get_mut(usize::from(to))
        {
            let slots = u32::MAX >> 32_u32.saturating_sub(grant.cells.into());
            for epoch in (u64::from(epoch)..).take(grant.epochs.into()) {
                receiver.arrivals.note(epoch, slots);
            }
        }
        let Some(of) = self.hosts.get_mut(usize::from(host)) else { return };
        of.open = of.open.saturating_sub(1);
        let asked = u64::from(epoch).wrapping_sub(self.timing.request_to_data());
        #[expect(clippy::cast_possible_truncation, reason = "below KEPT")]
        let (at, left) = of.asked[(asked % KEPT as u64) as usize];
        #[expect(clippy::cast_possible_truncation, reason = "modulo 2^32")]
        if at as u32 == asked as u32 {
            let thousandths = u128::from(now.since(left).as_ps()) * 1000;
            let waited = thousandths / u128::from(self.timing.epoch.as_ps().max(1));
            self.waited.push(u32::try_from(waited).unwrap_or(u32::MAX));
        }
    }

    /// The hosts introduce themselves, and once they are answered ask in each of `epochs` epochs,
    /// each in its slot by `clock`; false when no answer comes for `patience`.
    pub(super) fn run(&mut self, epochs: u64, clock: DilatedClock, patience: Duration) -> bool {
        let until = clock.now() + patience;
        let mut join_at = Instant::ZERO;
        while !self.is_served() {
            let now = clock.now();
            if now >= join_at {
                join_at = now + JOIN_EVERY;
                self.join_all();
            }
            if now >= until {
                return false;
            }
            self.take(now);
        }
        let first = self.timing.epoch_at(clock.now()) + 2;
        let warm = first + epochs / super::WARM_UP;
        for epoch in first..first + epochs {
            if epoch == warm {
                self.waited.clear();
            }
            // Another program had the core: those requests would come too late for any decision.
            if clock.now() > self.timing.start(epoch + 1) {
                continue;
            }
            let mut next = 0;
            while next < self.by_slot.len() {
                let now = clock.now();
                let since = now.since(self.timing.start(epoch).min(now));
                while let Some(host) = self.by_slot.get(next).copied()
                    && now >= self.timing.start(epoch)
                    && self.timing.request_at(slot(&self.join, host), None) <= since
                {
                    self.ask(host, (epoch, now));
                    next += 1;
                }
                self.flush();
                self.take(clock.now());
            }
        }
        true
    }

    /// The thousandths of an epoch that requests waited for their answers.
    pub(super) fn waited(self) -> Vec<u32> {
        self.waited
    }
}

impl PodHost {
    /// A host that reports arrivals `lag` epochs after the one in which the cells were sent.
    fn new(host: u16, (case, lag): (&PodCase, u64), rng: &mut Rng) -> Self {
        let mut others: Vec<u16> = (0..case.hosts).filter(|other| *other != host).collect();
        let wanted = usize::from(case.receivers).clamp(1, others.len());
        for at in 0..wanted {
            let drawn = usize::try_from(rng.below((others.len() - at) as u64)).unwrap_or(0);
            others.swap(at, at + drawn);
        }
        others.truncate(wanted);
        let receivers = others.into_iter().map(|other| (other, 0)).collect();
        let key = Key(rng.next_u64().max(1));
        let asked = [(u64::MAX, Instant::ZERO); KEPT];
        let arrivals = Unreported::new(lag, case.params.ask_every <= 1);
        let flows = HostFlows::default();
        Self { key, answered: false, receivers, open: 0, asked, flows, arrivals }
    }
}
