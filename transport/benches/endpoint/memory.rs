//! Bytes that flows take, as the allocator sees them.

use std::num::NonZeroU32;

use transport::cc::CcKind;
use transport::{Config, Endpoint, HostId, Instant, MsgSpec, Rng, Settings};

use crate::exchange::config;

const FLOWS: u32 = 4096;

/// Prints the bytes that a flow takes.
pub(crate) fn print() {
    println!("bytes a flow (SMaRTT; tables are reserved at once and first touched when used):");
    let both = config(CcKind::Smartt, FLOWS);
    let more = |change: fn(&mut Settings)| {
        let mut settings = (*both).clone();
        change(&mut settings);
        let more = Config::new(settings).expect("legal");
        (table(&more) - table(&both)) / i64::from(FLOWS)
    };
    println!("    place of an outgoing flow       {:>6}", more(|s| s.tx_flows_max += FLOWS));
    println!("    place of an incoming flow       {:>6}", more(|s| s.rx_flows_max += FLOWS));
    println!("    place of a message, both ways   {:>6}", more(|s| s.msgs_max += FLOWS));
    println!("    open, beside its place          {:>6}", open(0));
    println!("    open, 64 KiB to send            {:>6}", open(64 << 10));
    println!("    open, 2 MiB to send             {:>6}", open(2 << 20));
}

/// Bytes of an endpoint with nothing open.
fn table(config: &Config) -> i64 {
    let mut kept = None;
    let counted = allocation_counter::measure(|| {
        kept = Some(Endpoint::new(config, HostId(0), Rng::new(1)));
    });
    drop(kept);
    counted.bytes_current
}

/// Bytes that a flow takes when opened with a message of `bytes`, if any.
fn open(bytes: u32) -> i64 {
    let config = config(CcKind::Smartt, FLOWS);
    let mut endpoint = Endpoint::new(&config, HostId(0), Rng::new(1));
    let counted = allocation_counter::measure(|| {
        for _ in 0..FLOWS {
            let flow = endpoint.open_flow(HostId(1), config.default_path()).expect("room");
            if let Some(len) = NonZeroU32::new(bytes) {
                let spec = MsgSpec { flow, len, tag: 0 };
                endpoint.post_send(Instant::ZERO, spec).expect("room");
            }
        }
    });
    counted.bytes_current / i64::from(FLOWS)
}
