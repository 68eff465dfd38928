//! Reads a capture back, by another reader than the one whose writing is tested.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator as _};
use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGReader};

/// One packet of a file.
#[derive(Debug)]
#[allow(dead_code, reason = "not every test looks at all of it")]
pub(crate) struct Seen {
    pub(crate) interface: u32,
    pub(crate) sent: bool,
    /// In the file's unit.
    pub(crate) at: u64,
    /// On the wire.
    pub(crate) len: u32,
    pub(crate) bytes: Vec<u8>,
}

/// The content of a capture file.
#[derive(Debug, Default)]
#[allow(dead_code, reason = "as above")]
pub(crate) struct Read {
    pub(crate) interfaces: Vec<String>,
    pub(crate) packets: Vec<Seen>,
    /// Frames seen by all interfaces.
    pub(crate) seen: u64,
    pub(crate) lost: u64,
}

pub(crate) fn read(path: &Path) -> Read {
    let file = fs::File::open(path).unwrap();
    let mut reader = PcapNGReader::new(1 << 20, file).unwrap();
    let mut read = Read::default();
    loop {
        match reader.next() {
            Ok((length, block)) => {
                let PcapBlockOwned::NG(block) = block else { panic!("not pcapng") };
                take(&block, &mut read);
                reader.consume(length);
            }
            Err(PcapError::Incomplete(_)) => reader.refill().unwrap(),
            Err(PcapError::Eof) => return read,
            Err(error) => panic!("{error:?}"),
        }
    }
}

fn take(block: &Block<'_>, read: &mut Read) {
    match block {
        Block::InterfaceDescription(interface) => {
            read.interfaces.push(interface.if_name().unwrap().unwrap().to_owned());
        }
        Block::EnhancedPacket(packet) => {
            let flags = packet.options.iter().find(|o| o.code == OptionCode(2)).unwrap();
            let at = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let kept = usize::try_from(packet.caplen).unwrap();
            let bytes = packet.packet_data()[..kept].to_vec();
            let (interface, len) = (packet.if_id, packet.orig_len());
            let sent = flags.value[0] == 2;
            read.packets.push(Seen { interface, sent, at, len, bytes });
        }
        Block::InterfaceStatistics(statistics) => {
            let number = |code| {
                let option = statistics.options.iter().find(|o| o.code == OptionCode(code));
                u64::from_ne_bytes(option.unwrap().value[..8].try_into().unwrap())
            };
            read.seen += number(4);
            read.lost += number(5);
        }
        _ => {}
    }
}
