//! Two processes that close their ends of a memif at the same time.
//!
//! The driver of DPDK 22.11 takes a memif apart on the interrupt thread when the other end is gone,
//! and on the thread that closes its own end. Both at once would free the same memory twice.
#![allow(clippy::disallowed_types, reason = "two processes meet by the wall clock")]

use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use transport_dpdk::{DeviceName, Eal, EalOptions, PortConfig, Side};

use crate::Outcome::{self, Passed};
use crate::traffic;

pub(crate) const CHECKS: &[crate::Check] =
    &[("two_processes_close_a_memif_at_the_same_time", at_once)];

/// How long both open and close.
const LASTS: Duration = Duration::from_secs(3);

/// How many links each process closes at least.
const CLOSED: u32 = 10;

/// Milliseconds within which a link comes up.
const UP_MS: u32 = 50;

/// Both close at the next multiple of this that is at least half of it away.
const TICK: Duration = Duration::from_millis(20);

fn at_once(_eal: &Eal) -> Outcome {
    let socket = format!("hr-closing-{}", std::process::id());
    let children = ["server", "client"].map(|role| {
        let child = start(role, &socket);
        // Each is read by a thread: a process that has much to say would wait for its reader.
        thread::spawn(move || child.wait_with_output().unwrap())
    });
    for child in children {
        let ended = child.join().unwrap();
        let errors = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{:?}: {errors}", ended.status);
    }
    Passed
}

fn start(role: &str, socket: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--closes", role, socket]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The child: opens its end of a memif and closes it, again and again.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    let [role, socket] = arguments else { return ExitCode::FAILURE };
    let options = EalOptions { memory_mb: 128, ..EalOptions::default() };
    let eal = Eal::start(&options).unwrap_or_else(|error| panic!("{error}"));
    let (config, pool) =
        (PortConfig { max_frame: 2000, ..PortConfig::default() }, traffic::pool(&eal, 1023));
    let text = format!("net_memif90,role={role},id=90,socket={socket},socket-abstract=yes");
    let device: DeviceName = text.parse().unwrap();
    let side = device.side();
    let device = device.completed(side, &config);
    let (begun, mut closed) = (Instant::now(), 0_u32);
    while begun.elapsed() < LASTS {
        // Where no process listens, or the one that does is about to close, there is no link.
        let Ok(port) = device.open(&eal, &config, Arc::clone(&pool)) else { continue };
        if port.wait_link(UP_MS) {
            // The interrupt thread acts some time after the other process has closed.
            let later = if side == Side::Connects { 0 } else { 10 * (closed % 32) };
            wait_for_tick(later.into());
            closed += 1;
        }
        drop(port);
        assert_eq!(pool.in_use(), 0);
    }
    assert!(closed >= CLOSED, "{closed} links");
    ExitCode::SUCCESS
}

/// Waits until so many microseconds after a tick.
fn wait_for_tick(later: u128) {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros();
    let tick = TICK.as_micros();
    let at = (now() + tick / 2).next_multiple_of(tick);
    while now() < at + later {
        std::hint::spin_loop();
    }
}
