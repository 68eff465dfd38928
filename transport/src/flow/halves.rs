//! State of receiving flows whose packets carry extensions: the half of the flow's controller, and
//! the telemetry of its newest segment, which acknowledgements echo.
//!
//! A place is lent when the first segment with extensions arrives and taken back when the flow is
//! at rest or forgotten: a half goes on from one message to the next. Each flow has one place at
//! most. Places are reserved at once, and a place is first touched when that many flows receive at
//! the same time; nothing is allocated after [`Halves::new`]. An endpoint whose configuration has
//! no extensions has no places.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use crate::config::Config;
use crate::rc::{HalfSetup, Rc, RcKind, RcParams, ReceiverHalf as _, SegmentArrival};
use crate::time::{Duration, Instant, Rate};
use crate::units::{Bytes, FlowId, Psn};
use crate::wire::advice::Advice;
use crate::wire::half::Half;
use crate::wire::int::Int;
use crate::wire::{Ext, ExtRefusal, Extent};

/// The places of all incoming flows.
#[derive(Debug)]
pub(crate) struct Halves {
    params: RcParams,
    line_rate: Rate,
    base_rtt: Duration,
    mtu: Bytes,
    /// By slab index of an incoming flow: the index of its state in `places`, counted from 1; 0
    /// without one.
    of: Box<[u32]>,
    places: Vec<HalfState>,
    free: Vec<u32>,
}

/// One transmission of a segment: its PSN, and when it left, as its header says. A segment that was
/// resent arrives with telemetry that an acknowledgement of its first transmission may not echo.
type Transmission = (Psn, u32);

/// The half of one flow, and the newest telemetry that has arrived.
#[derive(Clone, Debug)]
struct HalfState {
    /// The half with its name on the wire; `None` when the sender names none that is known here.
    half: Option<(Half, Rc)>,
    /// The transmission that arrived last, and what switches wrote into it.
    echo: Option<(Transmission, Int)>,
}

const _: () = assert!(size_of::<HalfState>() <= 448);

impl Halves {
    /// Places for the incoming flows that `config` allows.
    pub(crate) fn new(config: &Config) -> Self {
        let flows = config.rx_flows_max as usize;
        Self {
            params: config.rc_params.clone(),
            line_rate: config.line_rate,
            base_rtt: config.base_rtt,
            mtu: config.mtu(),
            of: vec![0; flows].into_boxed_slice(),
            places: Vec::with_capacity(flows),
            free: Vec::with_capacity(flows),
        }
    }

    /// A segment of `flow` arrived whose header gives `sent_at` as its departure. Returns what of
    /// its extensions the half refuses.
    pub(crate) fn on_segment(
        &mut self,
        flow: FlowId,
        sent_at: u32,
        arrival: &SegmentArrival<'_>,
    ) -> Option<ExtRefusal> {
        let extensions = arrival.extensions;
        if extensions.is_some() {
            self.lend(flow, extensions.half());
        }
        let place = self.place(flow)?;
        place.echo = extensions.int().and_then(Int::echo).map(|int| ((arrival.psn, sent_at), int));
        let (_, half) = place.half.as_mut()?;
        half.on_segment(arrival)
    }

    /// What switches wrote into the transmission `of` of a segment of `flow`, if that arrived last.
    pub(crate) fn echo(&mut self, flow: FlowId, of: Transmission) -> Option<Int> {
        let (newest, int) = self.place(flow)?.echo?;
        (newest == of).then_some(int)
    }

    /// Writes into `ext` the content of an acknowledgement of `flow` that is made at `now`: the
    /// report of its half, and the telemetry `echo`.
    pub(crate) fn answer(
        &mut self,
        flow: FlowId,
        now: Instant,
        echo: Option<Int>,
        ext: &mut Ext,
    ) -> Extent {
        let mut extent = Extent::NONE;
        if let Some(HalfState { half: Some((name, half)), .. }) = self.place(flow)
            && let Some(report) = half.report(now)
        {
            ext.advice = Advice { half: *name, number: report.number, values: report.values };
            extent = extent.with_advice();
        }
        if let Some(int) = echo {
            ext.int = int;
            extent = extent.with_int(&int);
        }
        extent
    }

    /// `flow` rests, or is forgotten: its place is free.
    pub(crate) fn end(&mut self, flow: FlowId) {
        let Some(of) = self.of.get_mut(flow.index()) else { return };
        if *of != 0 {
            self.free.push(*of);
            *of = 0;
        }
    }

    /// Gives `flow` a place unless it has one, with the half that its sender names.
    fn lend(&mut self, flow: FlowId, named: Option<Half>) {
        let Some(of) = self.of.get_mut(flow.index()) else { return };
        if *of != 0 {
            return;
        }
        let setup = HalfSetup {
            params: &self.params,
            line_rate: self.line_rate,
            base_rtt: self.base_rtt,
            mtu: self.mtu,
        };
        // A half that is not known here reports nothing; its controller works without reports.
        let known = named.and_then(|name| Some((name, RcKind::by_number(name)?)));
        let half = known.map(|(name, kind)| (name, Rc::new(kind, &setup)));
        let place = HalfState { half, echo: None };
        if let Some(number) = self.free.pop() {
            self.places[number as usize - 1] = place;
            *of = number;
        } else {
            // As many as there are flows at most, which is what was reserved.
            self.places.push(place);
            *of = u32::try_from(self.places.len()).unwrap_or(0);
        }
    }

    fn place(&mut self, flow: FlowId) -> Option<&mut HalfState> {
        let number = *self.of.get(flow.index())? as usize;
        self.places.get_mut(number.checked_sub(1)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;
    use crate::wire::Extensions;
    use crate::wire::int::Hop;

    fn arrives(
        halves: &mut Halves,
        flow: FlowId,
        (psn, sent_at): (u32, u32),
        (extent, ext): (Extent, &Ext),
    ) {
        let extensions = Extensions::new(extent, ext);
        let (at, psn, bytes) = (Instant::from_ps(1), Psn(psn), Bytes(4096));
        let arrival =
            SegmentArrival { at, psn, bytes, ce: false, trimmed: false, sharers: 1, extensions };
        halves.on_segment(flow, sent_at, &arrival);
    }

    /// Telemetry of one port, and the half `half`.
    fn named(half: Half) -> (Extent, Ext) {
        let mut int = Int::with_room(3);
        int.stamp(Hop::new(Instant::ZERO, Bytes(0), Bytes(0), Rate::from_gbps(100), 5));
        let ext = Ext { int, half, ..Ext::VACANT };
        (Extent::NONE.with_int(&int).with_half(), ext)
    }

    #[test]
    fn a_flow_has_a_place_from_its_first_extensions_until_it_rests() {
        let config = Settings { rx_flows_max: 2, ..Settings::default() };
        let mut halves = Halves::new(&Config::new(config).unwrap());
        let (a, b) = (FlowId::new(0, 1), FlowId::new(1, 1));
        arrives(&mut halves, a, (0, 5), (Extent::NONE, &Ext::VACANT));
        assert!(halves.places.is_empty(), "a segment without extensions");
        let (extent, ext) = named(RcKind::ArrivalRate.half());
        for (flow, psn) in [(a, 1), (b, 7), (a, 2)] {
            arrives(&mut halves, flow, (psn, 5), (extent, &ext));
        }
        assert_eq!(halves.places.len(), 2);
        assert_eq!(halves.echo(a, (Psn(1), 5)), None, "not the newest");
        assert_eq!(halves.echo(a, (Psn(2), 4)), None, "another transmission");
        let echo = halves.echo(a, (Psn(2), 5));
        assert_eq!(echo.map(|int| (int.hops().len(), int.wire_len())), Some((1, 4 + 16)));
        let mut answer = Ext::VACANT;
        let carried = halves.answer(a, Instant::from_ps(2), echo, &mut answer);
        assert!(carried.has_int() && carried.advice(&answer).is_some());
        halves.end(a);
        halves.end(a);
        assert!(!halves.answer(a, Instant::from_ps(3), None, &mut answer).is_some());
        let (c, places) = (FlowId::new(0, 2), halves.places.capacity());
        arrives(&mut halves, c, (0, 5), (extent, &ext));
        assert_eq!((halves.places.len(), halves.places.capacity()), (2, places), "lent again");
    }

    #[test]
    fn a_half_that_is_not_known_reports_nothing_and_telemetry_is_echoed_all_the_same() {
        let mut halves = Halves::new(&Config::new(Settings::default()).unwrap());
        let flow = FlowId::new(3, 1);
        let (extent, ext) = named(Half::MAX);
        arrives(&mut halves, flow, (9, 5), (extent, &ext));
        let echo = halves.echo(flow, (Psn(9), 5));
        let mut answer = Ext::VACANT;
        let carried = halves.answer(flow, Instant::ZERO, echo, &mut answer);
        assert!(carried.has_int() && carried.advice(&answer).is_none());
    }
}
