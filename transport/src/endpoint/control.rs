//! Packets of the scheduler's own protocol, in and out.

use super::outgoing::Outgoing;
use super::timers::{DueTimer, Timed, rearm};
use super::{Endpoint, tx_context};
use crate::flow::tx::{TxContext, TxFlow};
use crate::sched::{Reported, Scheduler};
use crate::segment::{Burst, RxSegment, TxSegment};
use crate::stats::DropReason;
use crate::time::Instant;
use crate::units::FlowId;
use crate::wire::note::is_for_host;
use crate::wire::{Allowance, Body, ExtRefusal, Extensions, Note};

impl<S: Scheduler> Endpoint<S> {
    /// A packet of the scheduler's own protocol, or a note for a host or a controller. This is not
    /// inlined, so that a change in a scheduler does not slow the handling of acknowledgements.
    #[inline(never)]
    pub(super) fn on_control(&mut self, rx: &RxSegment, ext: Extensions<'_>, now: Instant) {
        let flow = match &rx.hdr.body {
            Body::Note(note) => return self.on_note(rx, note, ext, now),
            Body::Request(request) => self.requesting_flow(rx, request),
            Body::Credit(credit) => self.credited_flow(rx, credit),
            _ => Err(DropReason::BadSegment),
        };
        match flow {
            Ok(flow) if self.sched.on_control(flow, rx.from, &rx.hdr, now) => {
                self.stats.control_received += 1;
            }
            Ok(_) => self.stats.drops.count(DropReason::BadSegment),
            Err(reason) => {
                self.stats.drops.count(reason);
                if matches!(rx.hdr.body, Body::Request(_)) {
                    self.disown(rx, now);
                }
            }
        }
    }

    /// A note: for this host's scheduler, or for the controller of one of its outgoing flows.
    #[cold]
    fn on_note(&mut self, rx: &RxSegment, note: &Note, ext: Extensions<'_>, now: Instant) {
        let flow = rx.hdr.dst_flow;
        let used = if is_for_host(flow) {
            let used = self.sched.on_host_control(rx.from, &rx.hdr, note, rx.at);
            self.take_reported(now);
            used
        } else {
            self.stats.switch_notes += 1;
            self.on_note_of_flow(rx, note, ext, now)
        };
        match used {
            Ok(()) => self.stats.control_received += 1,
            Err(reason) => self.stats.drops.count(reason),
        }
    }

    /// A note for the controller of an outgoing flow.
    fn on_note_of_flow(
        &mut self,
        rx: &RxSegment,
        note: &Note,
        ext: Extensions<'_>,
        now: Instant,
    ) -> Result<(), DropReason> {
        let open = self.sending_flow(rx)?.open_mut().ok_or(DropReason::UnknownFlow)?;
        let refusal = open.on_note(note, ext, now).err();
        self.update_tx(rx.hdr.dst_flow, now);
        self.stats.refuse(refusal);
        if refusal == Some(ExtRefusal::Note) { Err(DropReason::BadSegment) } else { Ok(()) }
    }

    /// Segments have arrived that no packet acknowledges, or are to be sent again.
    pub(super) fn take_reported(&mut self, now: Instant) {
        // Bounded by what one packet reports, or by the flows.
        while let Some(reported) = self.sched.next_reported() {
            let (Reported::Segments { flow, .. } | Reported::Before { flow, .. }) = reported;
            let mut cx = tx_context!(self);
            let Some(open) = self.tx_flows.get_mut(flow).and_then(Timed::open_mut) else {
                continue;
            };
            match reported {
                Reported::Before { sent_before, .. } => open.send_again_before(sent_before),
                Reported::Segments { first, arrived, again: true, .. } => {
                    open.send_again(first, arrived, now);
                }
                Reported::Segments { first, arrived, again: false, .. } => {
                    open.on_reported(first, arrived, &mut cx);
                }
            }
            self.update_tx(flow, now);
        }
    }

    /// The outgoing flow that credit is for, from the flow that receives it.
    fn credited_flow(&mut self, rx: &RxSegment, credit: &Allowance) -> Result<FlowId, DropReason> {
        let timed = self.sending_flow(rx)?;
        let meant = timed.open().is_none_or(|open| open.may_be_named(credit.src_flow));
        if meant { Ok(rx.hdr.dst_flow) } else { Err(DropReason::BadSegment) }
    }

    /// The outgoing flow that a packet of its peer names.
    pub(super) fn sending_flow(
        &mut self,
        rx: &RxSegment,
    ) -> Result<&mut Timed<Outgoing>, DropReason> {
        let timed = self.tx_flows.get_mut(rx.hdr.dst_flow).filter(|timed| timed.peer() == rx.from);
        let timed = timed.ok_or(DropReason::UnknownFlow)?;
        if timed.key() == rx.hdr.key { Ok(timed) } else { Err(DropReason::WrongKey) }
    }

    /// The incoming flow of a packet for the scheduler, which may be the flow's first packet.
    fn requesting_flow(
        &mut self,
        rx: &RxSegment,
        request: &Allowance,
    ) -> Result<FlowId, DropReason> {
        let flow = self.rx_flow_of(rx, Some(request.src_flow))?;
        let timed = self.rx_flows.get_mut(flow).ok_or(DropReason::UnknownFlow)?;
        if (timed.flow.from, timed.flow.src_flow) != (rx.from, request.src_flow) {
            return Err(DropReason::UnknownFlow);
        }
        if timed.flow.key != rx.hdr.key {
            return Err(DropReason::WrongKey);
        }
        timed.flow.received_at = rx.at;
        let forget_at = rx.at + self.linger;
        rearm(&mut self.wheel, &mut timed.timer, Some(forget_at), DueTimer::Rx(flow));
        Ok(flow)
    }

    /// Fills `tx` with control packets and acknowledgements only, for a link that takes no data
    /// now. Afterwards ask again as after [`Endpoint::poll_transmit`].
    pub fn poll_control(&mut self, now: Instant, tx: &mut Burst<TxSegment>) {
        while tx.room() > 0
            && let Some(notice) = self.acks.pop_presence()
        {
            self.transmit_presence(&notice, now, tx);
        }
        let before = tx.len();
        let until = now + self.ahead.kept;
        self.sched.poll_control(now, until, tx);
        self.sign(tx, before);
        self.stats.control_sent += (tx.len() - before) as u64;
        self.transmit_acks(now, tx);
        if tx.is_timed() {
            self.note_departures(tx, before, now);
        }
    }

    /// Notes when the packets of `tx` from `first` on leave.
    #[cold]
    fn note_departures(&mut self, tx: &Burst<TxSegment>, first: usize, now: Instant) {
        for at in (first..tx.len()).map(|index| tx.departure(index, now)) {
            debug_assert!(at <= now + self.ahead.kept, "the driver keeps no packet until {at:?}");
            self.ahead.given(at);
        }
    }

    /// Writes into the scheduler's packets, which are those of `tx` from `first` on, the names and
    /// keys of their flows. A NOTE for a flow comes with its key, which its maker has read from
    /// that flow's packets. A flow that is over has neither: schedulers send nothing for it.
    fn sign(&self, tx: &mut Burst<TxSegment>, first: usize) {
        for segment in tx.iter_mut().skip(first) {
            let hdr = &mut segment.hdr;
            match &hdr.body {
                Body::Credit(credit) => {
                    let known = self.rx_flows.get(credit.src_flow);
                    debug_assert!(known.is_some(), "credit of no flow: {credit:?}");
                    hdr.key = known.map_or(hdr.key, |timed| timed.flow.key);
                }
                Body::Request(request) => {
                    let known = self.tx_flows.get(request.src_flow).and_then(Timed::open);
                    debug_assert!(known.is_some(), "a request of no flow: {request:?}");
                    let name = known.map_or((hdr.dst_flow, hdr.key), TxFlow::name);
                    (hdr.dst_flow, hdr.key) = name;
                }
                _ => {}
            }
        }
    }
}
