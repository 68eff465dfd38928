//! Threads as lcores, and what other processes see: a clean standard output, an ordinary user.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;

use transport_dpdk::{
    Eal, EalError, EalOptions, Link, LogLevel, MbufBurst, MemoryError, MemoryFacts, MemoryMode,
    Ring,
};

use crate::Outcome::{self, Passed, Skipped};
use crate::traffic::{self, bytes, frame, packet};

pub(crate) const CHECKS: &[crate::Check] = &[
    ("threads_become_distinct_lcores_and_give_them_back", lcores),
    ("a_thread_registers_once_and_on_a_core_that_exists", registration),
    ("two_threads_pass_100000_packets_over_a_ring", two_threads),
    ("a_second_start_is_the_same_eal", second_start),
    ("standard_output_stays_clean_at_every_log_level", clean_output),
    ("an_ordinary_user_runs_a_ring_link", ordinary_user),
    ("demanded_hugepages_that_are_missing_are_an_error_before_eal_starts", no_hugepages),
];

fn lcores(eal: &Eal) -> Outcome {
    let barrier = Arc::new(std::sync::Barrier::new(4));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            let work = move |thread: &transport_dpdk::RegisteredThread| {
                barrier.wait();
                thread.lcore()
            };
            eal.spawn("test", None, work).unwrap()
        })
        .collect();
    let mut seen: Vec<u32> = threads.into_iter().map(|t| t.join().unwrap().unwrap()).collect();
    seen.sort_unstable();
    seen.dedup();
    assert!(seen.len() == 4 && seen.iter().all(|lcore| *lcore < 128), "{seen:?}");
    // More threads over time than lcores: each must be given back.
    for _ in 0..200 {
        eal.spawn("test", None, |_| ()).unwrap().join().unwrap().unwrap();
    }
    Passed
}

fn registration(eal: &Eal) -> Outcome {
    let twice = eal.spawn("test", None, |thread| thread.eal().register_thread().map(|_| ()));
    let twice = twice.unwrap().join().unwrap().unwrap();
    assert!(matches!(twice, Err(EalError::AlreadyRegistered(_))), "{twice:?}");
    let pinned = eal.spawn("test", Some(0), |_| core_affinity::get_core_ids().unwrap().len());
    let nowhere = eal.spawn("test", Some(1000), |_| ()).unwrap().join().unwrap();
    assert_eq!(nowhere, Err(EalError::Pin(1000)));
    match pinned.unwrap().join().unwrap() {
        Ok(cores) => assert_eq!(cores, 1),
        Err(refused) => return Skipped(refused.to_string()),
    }
    // EAL pins the thread that starts it; ours must be as free as before.
    let allowed = std::thread::available_parallelism().unwrap().get();
    assert_eq!(core_affinity::get_core_ids().unwrap().len(), allowed);
    Passed
}

fn two_threads(eal: &Eal) -> Outcome {
    const COUNT: u32 = 100_000;
    let pool = traffic::pool(eal, 4095);
    let (mut tx, mut rx) = Ring::spsc(eal, 1023).unwrap();
    let source = Arc::clone(&pool);
    let sender = eal.spawn("sender", None, move |_| {
        let mut burst = MbufBurst::new();
        let mut made = 0;
        while made < COUNT || !burst.is_empty() {
            while made < COUNT && burst.room() > 0 {
                let Some(packet) = packet(&source, &frame(made, 60)) else { break };
                burst.push(packet).unwrap();
                made += 1;
            }
            if tx.tx_burst(&mut burst) == 0 {
                std::thread::yield_now();
            }
        }
    });
    let receiver = eal.spawn("receiver", None, move |_| {
        let mut burst = MbufBurst::new();
        let mut arrived = 0;
        while arrived < COUNT {
            if rx.rx_burst(&mut burst) == 0 {
                std::thread::yield_now();
            }
            for packet in burst.drain() {
                assert!(bytes(&packet) == frame(arrived, 60), "frame {arrived}");
                arrived += 1;
            }
        }
    });
    sender.unwrap().join().unwrap().unwrap();
    receiver.unwrap().join().unwrap().unwrap();
    assert_eq!(pool.in_use(), 0);
    Passed
}

fn second_start(eal: &Eal) -> Outcome {
    let other = EalOptions { memory_mb: 1, ..EalOptions::default() };
    assert_eq!(Eal::start(&other).unwrap().memory(), eal.memory());
    Passed
}

fn clean_output(_eal: &Eal) -> Outcome {
    for level in ["error", "debug"] {
        let child = child(level).output().unwrap();
        let errors = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{level}: {errors}");
        assert_eq!(String::from_utf8_lossy(&child.stdout), "", "{level}");
        // The debug level must have said something, or this check would see nothing go wrong.
        assert!(level == "error" || errors.contains("EAL"), "{errors}");
        let prefix = errors.lines().find_map(|line| line.strip_prefix("runtime directory "));
        let left = std::path::Path::new(prefix.expect("the child names its directory"));
        assert!(!left.exists(), "{} is left behind", left.display());
    }
    Passed
}

fn ordinary_user(_eal: &Eal) -> Outcome {
    const OTHER_USER: u32 = 65_534;
    let mut child = child("error");
    // Before the user changes nothing can be said by the child, so a refusal is seen here.
    match child.uid(OTHER_USER).gid(OTHER_USER).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{errors}");
            Passed
        }
        Err(refused) => Skipped(format!("cannot run a child as user {OTHER_USER}: {refused}")),
    }
}

fn no_hugepages(_eal: &Eal) -> Outcome {
    let wanted = u32::try_from(MemoryFacts::read().hugepage_bytes() >> 20).unwrap() + 1;
    let refused = MemoryFacts::read().choose(MemoryMode::Hugepages, wanted);
    assert!(matches!(refused, Err(MemoryError::TooFewHugepages { .. })), "{refused:?}");
    Passed
}

fn child(level: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--probe", level]).stdin(Stdio::null());
    command
}

/// The child: one packet over one ring link, in an EAL with the given log level.
pub(crate) fn probe(arguments: &[String]) -> ExitCode {
    let log_level = match arguments.first().map(String::as_str) {
        Some("debug") => LogLevel::Debug,
        _ => LogLevel::Error,
    };
    let options = EalOptions { memory_mb: 128, log_level, ..EalOptions::default() };
    let eal = Eal::start(&options).unwrap_or_else(|error| panic!("{error}"));
    eprintln!("runtime directory {}", eal.runtime_dir().unwrap().display());
    let config = traffic::link_config(&eal, 1514);
    let mut link = Link::ring(&eal, &config).unwrap();
    let mut burst = MbufBurst::new();
    burst.push(packet(&config.host_pool, &frame(0, 60)).unwrap()).unwrap();
    link.host.tx_burst(&mut burst);
    let arrived = link.switch_side.rx_burst(&mut burst);
    if arrived == 1 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
