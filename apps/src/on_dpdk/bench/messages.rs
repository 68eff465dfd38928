//! `headrace bench messages`: small messages over net_ring, as a rate and as round trips.

use std::num::NonZeroU32;

use live::datapath::{Bench, Case, DeviceKind, RoundTrip};
use serde::Serialize;
use serde_json::{Map, Value};

use super::datapath::unfit;
use super::report::stages;
use crate::args::MessagesArgs;
use crate::bench::shown::round;
use crate::console::Console;
use crate::exit::Exit;
use crate::failure::Failure;

/// The result. Nanoseconds.
#[derive(Debug, Serialize)]
struct Messages {
    device: &'static str,
    message_bytes: u16,
    /// Messages that one core posts, sends, sees acknowledged and reports, millions a second.
    headrace_mmps: f64,
    ns_per_message: f64,
    /// Millions a second while counters and histograms are kept for readers.
    observed_ns: f64,
    stages_ns: Map<String, Value>,
    round_trip: Option<Trip>,
}

/// The round trip of a message that another answers, on two cores.
#[derive(Debug, Serialize)]
struct Trip {
    p50_ns: f64,
    p99_ns: f64,
    p999_ns: f64,
    /// The round trip of one mbuf between the same devices and cores.
    device_floor_ns: f64,
    /// The round trip of a frame as long as the message's, taken from the pool, written, read and
    /// freed each way.
    frame_floor_ns: f64,
    /// The floor with an acknowledgement's frame before it: all cache lines that a trip moves.
    exchange_floor_ns: f64,
    /// The round trip of one cache line between the same cores.
    line_floor_ns: f64,
    /// `p50_ns` over the sum of `line_floor_ns` and `device_floor_ns`: what two cores and the
    /// device cost without a stack.
    ratio: f64,
    count: u64,
}

impl From<RoundTrip> for Trip {
    fn from(trip: RoundTrip) -> Self {
        Self {
            p50_ns: round(trip.p50_ns),
            p99_ns: round(trip.p99_ns),
            p999_ns: round(trip.p999_ns),
            device_floor_ns: round(trip.device_floor_ns),
            frame_floor_ns: round(trip.frame_floor_ns),
            exchange_floor_ns: round(trip.exchange_floor_ns),
            line_floor_ns: round(trip.line_floor_ns),
            ratio: round(trip.p50_ns / (trip.line_floor_ns + trip.device_floor_ns).max(1.0)),
            count: trip.count,
        }
    }
}

/// Measures both.
///
/// # Errors
/// A machine that is not fit.
pub(super) fn run(args: &MessagesArgs, console: &mut Console<'_>) -> Result<Exit, Failure> {
    let bench = Bench::start_observed(&args.observe.wanted()).map_err(unfit)?;
    let bytes = NonZeroU32::new(args.bytes.into()).unwrap_or(NonZeroU32::MIN);
    let case = Case {
        device: DeviceKind::Ring,
        segment_bytes: 1024,
        message_bytes: bytes,
        segments: args.count,
        attach: false,
        ack_every: 1,
        code: None,
        transport: None,
    };
    let cost = bench.measure(&case).map_err(unfit)?;
    let mut trip = None;
    if args.trips > 0 {
        trip = bench.round_trip(bytes, args.trips).map_err(unfit)?;
        if trip.is_none() {
            writeln!(console.err, "one core: round trips between two are not measured")?;
        }
    }
    let messages = Messages {
        device: case.device.name(),
        message_bytes: args.bytes,
        headrace_mmps: round(1000.0 / cost.ns_per_segment),
        ns_per_message: round(cost.ns_per_segment),
        observed_ns: round(cost.observed_ns),
        stages_ns: stages(&cost, bench.policies()),
        round_trip: trip.map(Trip::from),
    };
    if args.json {
        let text = serde_json::to_string_pretty(&messages).map_err(std::io::Error::from)?;
        writeln!(console.out, "{text}")?;
    } else {
        write_text(&messages, console)?;
    }
    Ok(Exit::Finished)
}

fn write_text(messages: &Messages, console: &mut Console<'_>) -> Result<(), Failure> {
    let Messages { message_bytes, headrace_mmps, ns_per_message, observed_ns, stages_ns, .. } =
        messages;
    writeln!(
        console.out,
        "{message_bytes} B messages, one core: {headrace_mmps:.2} M/s, {ns_per_message:.1} ns \
         each, {observed_ns:.1} ns observed"
    )?;
    let part = |(name, ns): (&String, &Value)| format!("{name} {:.1}", ns.as_f64().unwrap_or(0.0));
    let parts: Vec<String> = stages_ns.iter().map(part).collect();
    writeln!(console.out, "  ns by stage: {}", parts.join(", "))?;
    if let Some(trip) = &messages.round_trip {
        writeln!(
            console.out,
            "  round trip: p50 {:.0} ns, p99 {:.0} ns, p99.9 {:.0} ns; its frames alone {:.0} ns, \
             without acknowledgements {:.0} ns, one mbuf {:.0} ns, one line of cache {:.0} ns; \
             {:.2} times the last two",
            trip.p50_ns,
            trip.p99_ns,
            trip.p999_ns,
            trip.exchange_floor_ns,
            trip.frame_floor_ns,
            trip.device_floor_ns,
            trip.line_floor_ns,
            trip.ratio
        )?;
    }
    Ok(())
}
