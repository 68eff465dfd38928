//! Virtual links of every kind, both ways, with the content checked and the pools audited.

use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;

use rustix::net;
use transport::{Duration, Instant};
use transport_dpdk::{
    BURST, DeviceName, DevicePort, Eal, FrameLimit, Link, LinkConfig, LinkEnd, MbufBurst, Netns,
    PortConfig, PortError, QuietHold, Side, SocketError,
};

use crate::Outcome::{self, Passed, Skipped};
use crate::traffic::{self, Pump, frame, packet};

pub(crate) const CHECKS: &[crate::Check] = &[
    ("a_ring_link_carries_10000_frames_each_way_intact", ring),
    ("a_memif_link_carries_10000_frames_each_way_intact", memif),
    ("a_tap_link_carries_frames_of_an_ethernet_each_way_intact", tap),
    ("a_tap_refuses_jumbo_frames_with_the_limit", tap_limit),
    ("a_null_link_swallows_what_is_sent_and_refuses_what_it_cannot_send", null),
    ("a_ring_link_refuses_frames_beyond_its_limit_and_sends_the_rest", oversize),
    ("a_full_link_keeps_the_unsent_in_the_burst", full),
    ("sixteen_links_share_a_process_and_the_33rd_port_is_an_error", many),
    ("a_memif_that_came_before_its_listener_was_ready_asks_again", refused),
    ("a_memif_outlives_a_process_that_is_gone_before_it_is_taken_in", knocked),
    ("a_memif_that_has_listened_is_not_attached_at_another_socket", elsewhere),
    ("a_memif_at_a_file_can_be_reached_there_alone_and_shares_it_with_another", at_a_file),
    ("no_other_process_can_connect_to_a_memif_link_of_this_one", out_of_reach),
    ("a_memif_waits_where_others_wait_to_be_taken_in_and_its_arguments_are_checked", behind),
    ("an_unknown_device_is_an_error_that_says_how_to_bind_it", unknown),
];

/// Both directions, then the audit after the link is gone.
fn exercise(mut link: Link, config: &LinkConfig, (count, window): (u32, u32), lengths: &[usize]) {
    let (host, switch) = (&mut link.host, &mut link.switch_side);
    Pump {
        send: &mut |burst| host.tx_burst(burst),
        receive: &mut |burst| switch.rx_burst(burst),
        pool: &config.host_pool,
        window,
    }
    .run(count, lengths);
    Pump {
        send: &mut |burst| switch.tx_burst(burst),
        receive: &mut |burst| host.rx_burst(burst),
        pool: &config.switch_pool,
        window,
    }
    .run(count, lengths);
    let stats = host.stats();
    assert_eq!((stats.tx_packets, stats.rx_packets), (u64::from(count), u64::from(count)));
    assert_eq!(host.refused(), 0);
    assert!(host.xstats().iter().any(|x| *x == ("tx_good_packets".into(), u64::from(count))));
    drop(link);
    assert_eq!((config.host_pool.in_use(), config.switch_pool.in_use()), (0, 0));
}

const MIXED: [usize; 7] = [60, 1514, 64, 9014, 128, 4170, 2049];

fn ring(eal: &Eal) -> Outcome {
    let config = traffic::link_config(eal, 9014);
    let link = Link::ring(eal, &config).unwrap();
    assert_eq!(link.host.caps().driver, "net_ring");
    assert_eq!(link.host.caps().max_frame, FrameLimit::Unproven(9014));
    assert!(link.wait_up(1000));
    println!("     {}", link.host.caps());
    exercise(link, &config, (10_000, u32::MAX), &MIXED);
    Passed
}

fn memif(eal: &Eal) -> Outcome {
    let config = traffic::link_config(eal, 9014);
    let link = Link::memif(eal, &config).unwrap();
    assert!(link.wait_up(10_000), "memif connects within seconds");
    println!("     {}", link.host.caps());
    exercise(link, &config, (10_000, u32::MAX), &MIXED);
    Passed
}

/// Another device listens at the same socket first, so the driver refuses, as it does between a
/// listener's socket and its start.
fn refused(eal: &Eal) -> Outcome {
    let config = PortConfig { max_frame: 2000, ..PortConfig::default() };
    let pool = traffic::link_config(eal, 2000).host_pool;
    let socket = format!("socket=hr-refused-{},socket-abstract=yes", std::process::id());
    let device = |text: &str| format!("{text},{socket}").parse::<DeviceName>().unwrap();
    let opened = |text| device(text).open(eal, &config, Arc::clone(&pool)).unwrap();
    let other = opened("net_memif70,role=server,id=70");
    let mut late = None;
    let late_enough = || {
        late.get_or_insert_with(|| opened("net_memif71,role=server,id=71"));
        Ok::<(), PortError>(())
    };
    let connects = device("net_memif72,role=client,id=71");
    assert_eq!((connects.side(), device("net_memif73").side()), (Side::Connects, Side::Listens));
    let patience = (connects.side(), Duration::from_s(20));
    let one = connects.open_with_patience(eal, &config, &pool, patience, late_enough).unwrap();
    let mut one = one.expect("the listener was there in the end");
    let mut late = late.expect("it was refused at first");
    assert!(one.wait_link(0) && late.wait_link(5000) && !other.wait_link(0));
    one.tie_to(&mut late);
    drop((one, late, other));
    // A process that comes when listeners are over does no harm, answered or not.
    for id in [70, 71, 72] {
        let connects = device(&format!("net_memif73,role=client,id={id}"));
        let patience = (Side::Connects, Duration::from_ms(300));
        let meanwhile = || Ok::<(), PortError>(());
        let found = connects.open_with_patience(eal, &config, &pool, patience, meanwhile).unwrap();
        assert!(id != 72 || found.is_none());
    }
    assert_eq!(pool.in_use(), 0);
    Passed
}

/// The interrupt thread stands still while a process connects and goes, as it does while a worker
/// polls or the whole process is stopped. The driver would end this process when it goes on.
fn knocked(eal: &Eal) -> Outcome {
    let config = PortConfig { max_frame: 2000, ..PortConfig::default() };
    let pool = traffic::link_config(eal, 2000).host_pool;
    let name = format!("hr-knocked-{}", std::process::id());
    let device = |text: &str| {
        let text = format!("{text},id=80,socket={name},socket-abstract=yes");
        text.parse::<DeviceName>().unwrap()
    };
    let listens = device("net_memif80,role=server");
    let mut listens = listens.open(eal, &config, Arc::clone(&pool)).unwrap();
    let mut hold = QuietHold::new(eal, Instant::ZERO);
    for _ in 0..2 {
        let (family, kind) = (net::AddressFamily::UNIX, net::SocketType::SEQPACKET);
        let socket = net::socket(family, kind, None).unwrap();
        let address = net::SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        net::connect(&socket, &address).unwrap();
        drop(socket);
        hold.let_through();
    }
    drop(hold);
    // One that stays is served.
    let side = (Side::Connects, Duration::from_s(20));
    let meanwhile = || Ok::<(), PortError>(());
    let one = device("net_memif81,role=client");
    let one = one.open_with_patience(eal, &config, &pool, side, meanwhile).unwrap();
    let mut one = one.expect("the listener goes on");
    assert!(listens.wait_link(5000));
    one.tie_to(&mut listens);
    drop((one, listens));
    assert_eq!(pool.in_use(), 0);
    Passed
}

fn elsewhere(eal: &Eal) -> Outcome {
    let config = PortConfig { max_frame: 2000, ..PortConfig::default() };
    let pool = traffic::link_config(eal, 2000).host_pool;
    let socket = |which: &str| format!("hr-{which}-{}", std::process::id());
    let open = |socket: &str| {
        let text = format!("net_memif82,role=server,id=82,socket={socket},socket-abstract=yes");
        text.parse::<DeviceName>().unwrap().open(eal, &config, Arc::clone(&pool))
    };
    let (one, other) = (socket("one"), socket("other"));
    drop(open(&one).unwrap());
    let refused = open(&other).unwrap_err();
    assert!(matches!(refused, PortError::Socket(SocketError::Kept { .. })), "{refused}");
    let text = refused.to_string();
    assert!(text.contains(&format!("`net_memif82` listens at socket={one},")), "{text}");
    assert!(text.contains(&format!("another name with socket={other},")), "{text}");
    drop(open(&one).unwrap());
    Passed
}

fn behind(eal: &Eal) -> Outcome {
    let config = PortConfig { max_frame: 2000, ..PortConfig::default() };
    let pool = traffic::link_config(eal, 2000).host_pool;
    let path = std::env::temp_dir().join(format!("hr-behind-{}", std::process::id()));
    let listener = UnixListener::bind(&path).unwrap();
    let _waits = UnixStream::connect(&path).unwrap();
    let open = |text: &str| {
        let device: DeviceName = format!("net_memif94,role=client,{text}").parse().unwrap();
        let patience = (Side::Connects, Duration::from_ms(300));
        let meanwhile = || Ok::<(), PortError>(());
        device.open_with_patience(eal, &config, &pool, patience, meanwhile)
    };
    let found = open(&format!("socket={}", path.display()));
    assert!(matches!(found, Ok(None)), "{found:?}");
    for wrong in ["socket=x,socket-abstract=no", "socket=/none/x,owner-uid=abc"] {
        let refused = open(wrong);
        let is_refused = matches!(refused, Err(PortError::Socket(SocketError::Argument { .. })));
        assert!(is_refused, "{refused:?}");
    }
    drop(listener);
    std::fs::remove_file(&path).unwrap();
    Passed
}

fn out_of_reach(eal: &Eal) -> Outcome {
    let before = own_sockets();
    let link = Link::memif(eal, &traffic::link_config(eal, 2000)).unwrap();
    assert!(link.wait_up(5000));
    let new: Vec<_> = own_sockets().into_iter().filter(|name| !before.contains(name)).collect();
    assert!(!new.is_empty());
    let can_reach = |name: &&String| !name.starts_with('/') || Path::new(name).exists();
    assert_eq!(new.iter().find(can_reach), None, "another process can connect");
    Passed
}

/// The names of sockets of this process: abstract ones begin with @, others are paths.
fn own_sockets() -> Vec<String> {
    let links = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    let links = links.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    let own: Vec<String> = links.map(|link| link.display().to_string()).collect();
    let text = std::fs::read_to_string("/proc/net/unix").unwrap();
    let named = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let named = named.filter(|fields| fields.len() == 8);
    let named = named.filter(|fields| own.contains(&format!("socket:[{}]", fields[6])));
    named.map(|fields| fields[7].to_owned()).collect()
}

fn at_a_file(eal: &Eal) -> Outcome {
    let config = PortConfig { max_frame: 2000, ..PortConfig::default() };
    let pool = traffic::link_config(eal, 2000).host_pool;
    let path = std::env::temp_dir().join(format!("hr-file-{}", std::process::id()));
    let open = |text: &str| {
        let device: DeviceName = format!("{text},socket={}", path.display()).parse().unwrap();
        let (side, patience) = (device.side(), Duration::from_s(20));
        let meanwhile = || Ok::<(), PortError>(());
        let port = device.open_with_patience(eal, &config, &pool, (side, patience), meanwhile);
        port.map(|port| port.expect("the other end is there"))
    };
    let before = own_sockets();
    let one = open("net_memif90,id=90").unwrap();
    let mut two = open("net_memif91,role=server,id=91").unwrap();
    let new: Vec<_> = own_sockets().into_iter().filter(|name| !before.contains(name)).collect();
    assert_eq!(new.len(), 2, "{new:?}");
    for name in &new {
        // The driver's own file is gone.
        assert!(name.starts_with('/'), "any process can reach {name}");
        assert_eq!(Path::new(name).exists(), Path::new(name) == path, "{name}");
    }
    let wrong = open("net_memif92,role=server,id=92,owner-uid=abc").unwrap_err();
    assert!(matches!(wrong, PortError::Socket(SocketError::Argument { .. })), "{wrong}");
    let mut peer = open("net_memif93,role=client,id=91").unwrap();
    assert!(peer.wait_link(5000) && two.wait_link(5000) && !one.wait_link(0));
    peer.tie_to(&mut two);
    drop((one, two, peer));
    assert!(!path.exists());
    assert_eq!(pool.in_use(), 0);
    Passed
}

fn tap(eal: &Eal) -> Outcome {
    if !Path::new("/dev/net/tun").exists() {
        return Skipped("there is no /dev/net/tun; `modprobe tun` makes it".into());
    }
    let netns = match Netns::private() {
        Ok(netns) => Arc::new(netns),
        Err(refused) => return Skipped(refused.to_string()),
    };
    let config = traffic::link_config(eal, 1514);
    let link = Link::tap(eal, &netns, &config).unwrap();
    assert!(link.wait_up(5000));
    println!("     {}", link.host.caps());
    let here = std::fs::read_to_string("/proc/self/net/dev").unwrap();
    assert!(!here.lines().any(|line| line.trim_start().starts_with("thr")), "{here}");
    exercise(link, &config, (5000, 64), &[60, 1514, 64, 1000, 500]);
    let inside =
        netns.run(|| std::fs::read_to_string("/proc/thread-self/net/dev").unwrap()).unwrap();
    assert!(!inside.contains("thr"), "the device is gone with its link: {inside}");
    Passed
}

fn tap_limit(eal: &Eal) -> Outcome {
    let Ok(netns) = Netns::private() else {
        return Skipped("no network namespace without root".into());
    };
    let config = traffic::link_config(eal, 1515);
    let refused = Link::tap(eal, &Arc::new(netns), &config).unwrap_err();
    assert!(matches!(refused, PortError::Frame { wanted: 1515, most: 1514 }), "{refused}");
    Passed
}

fn null(eal: &Eal) -> Outcome {
    let config = traffic::link_config(eal, 1514);
    let mut link = Link::null(eal, &config).unwrap();
    assert!(matches!(link.switch_side, LinkEnd::None));
    let mut burst = MbufBurst::new();
    for _ in 0..1000 {
        assert!(config.host_pool.alloc_burst(&mut burst, BURST));
        burst.iter_mut().for_each(|mbuf| mbuf.append(1514).unwrap().fill(0));
        assert_eq!(link.host.tx_burst(&mut burst), BURST);
    }
    assert_eq!((link.host.stats().tx_packets, link.host.rx_burst(&mut burst)), (32_000, 0));
    // This driver does not say that it sends chains: short ones are gathered, long ones refused.
    let mut chain = packet(&config.host_pool, &frame(0, 60)).unwrap();
    chain.chain(packet(&config.host_pool, &frame(1, 60)).unwrap()).unwrap();
    burst.push(chain).unwrap();
    burst.push(packet(&config.host_pool, &frame(2, 1515)).unwrap()).unwrap();
    assert!(!link.host.caps().tx_multi_segs);
    assert_eq!((link.host.tx_burst(&mut burst), burst.len(), link.host.refused()), (1, 0, 1));
    drop(link);
    assert_eq!(config.host_pool.in_use(), 0);
    Passed
}

fn oversize(eal: &Eal) -> Outcome {
    let config = traffic::link_config(eal, 1000);
    let mut link = Link::ring(eal, &config).unwrap();
    let mut burst = MbufBurst::new();
    for (number, length) in [(0, 1000), (1, 1001), (2, 60), (3, 9000), (4, 999)] {
        burst.push(packet(&config.host_pool, &frame(number, length)).unwrap()).unwrap();
    }
    assert_eq!((link.host.tx_burst(&mut burst), burst.len(), link.host.refused()), (3, 0, 2));
    assert_eq!(link.switch_side.rx_burst(&mut burst), 3);
    let lengths: Vec<u32> = burst.iter().map(|mbuf| mbuf.pkt_len()).collect();
    assert_eq!(lengths, [1000, 60, 999]);
    Passed
}

fn full(eal: &Eal) -> Outcome {
    let config = LinkConfig { depth: 64, ..traffic::link_config(eal, 1514) };
    let mut link = Link::ring(eal, &config).unwrap();
    let mut burst = MbufBurst::new();
    let mut sent = 0;
    loop {
        let wanted = burst.room();
        assert!(config.host_pool.alloc_burst(&mut burst, wanted));
        match link.host.tx_burst(&mut burst) {
            0 => break,
            some => sent += some,
        }
    }
    assert_eq!((sent, burst.len(), config.host_pool.in_use()), (127, 32, 127 + 32));
    // Undelivered packets are freed with the link, and counted as out until then.
    drop(burst);
    drop(link);
    assert_eq!(config.host_pool.in_use(), 0);
    Passed
}

fn many(eal: &Eal) -> Outcome {
    let config = traffic::link_config(eal, 1514);
    let mut links: Vec<Link> = (0..32).map(|_| Link::ring(eal, &config).unwrap()).collect();
    for make in [Link::ring, Link::null, Link::memif] {
        let refused = make(eal, &config).unwrap_err();
        assert!(matches!(refused, PortError::TooMany(32)), "{refused}");
    }
    links.truncate(16);
    let macs: std::collections::BTreeSet<_> =
        links.iter().map(|link| link.host.name().to_owned()).collect();
    assert_eq!(macs.len(), 16);
    links.push(Link::null(eal, &config).unwrap());
    for link in &mut links {
        let mut burst = MbufBurst::new();
        assert!(config.host_pool.alloc_burst(&mut burst, BURST));
        assert_eq!(link.host.tx_burst(&mut burst), BURST);
    }
    drop(links);
    assert_eq!(config.host_pool.in_use(), 0);
    Passed
}

fn unknown(eal: &Eal) -> Outcome {
    let pool = traffic::pool(eal, 127);
    let refused = DevicePort::open(eal, "0000:ff:1f.7", &PortConfig::default(), pool).unwrap_err();
    assert!(refused.to_string().contains("dpdk-devbind.py --status"), "{refused}");
    Passed
}
