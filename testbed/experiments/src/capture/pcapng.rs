//! Captures in the format that Wireshark and its tools read.
//!
//! Source: draft-ietf-opsawg-pcapng (PCAP Next Generation). One section in the machine's byte
//! order, stamps of one unit, packets with their direction, statistics at the end. Lengths are
//! bytes without FCS; a packet may have been longer than what is written of it.

use std::io::{self, Write};

/// Writes one section.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    /// The block in the making.
    block: Vec<u8>,
    interfaces: u32,
    unit: StampUnit,
}

/// The unit of all stamps of a file: 10 to the power of minus this, seconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StampUnit {
    /// For stamps since 1970.
    Nanosecond = 9,
    /// For network time since the start of a run, which is exact then.
    Picosecond = 12,
}

/// The description of an interface.
#[derive(Clone, Debug, Default)]
pub struct Interface<'a> {
    /// The name that `tshark -T fields -e frame.interface_name` shows.
    pub name: &'a str,
    /// A description for human readers.
    pub description: &'a str,
    /// bit/s; 0 is unknown.
    pub speed: u64,
    /// Bytes kept of a packet.
    pub snap: u32,
}

/// The direction of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// The packet went to the host.
    Received = 1,
    /// The packet left the host.
    Sent = 2,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The number of the interface, from 0 in the order of [`Writer::interface`].
    pub interface: u32,
    /// The stamp, in the file's unit.
    pub at: u64,
    /// The direction.
    pub direction: Direction,
    /// Bytes of the whole frame.
    pub len: u32,
    /// The frame's first bytes, or all.
    pub bytes: &'a [u8],
}

/// Counters of an interface.
#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    /// When the capture began and ended, in the file's unit.
    pub span: (u64, u64),
    /// Packets that passed.
    pub seen: u64,
    /// Packets that should have been captured, but there was no room.
    pub lost: u64,
}

const SECTION: u32 = 0x0A0D_0D0A;
const INTERFACE: u32 = 1;
const STATISTICS: u32 = 5;
const PACKET: u32 = 6;
const ORDER: u32 = 0x1A2B_3C4D;
const ETHERNET: u16 = 1;

impl<W: Write> Writer<W> {
    /// Begins a section with the name of this program, and `comment`; stamps are in `unit`.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(out: W, comment: &str, unit: StampUnit) -> io::Result<Self> {
        let mut writer = Self { out, block: Vec::new(), interfaces: 0, unit };
        writer.begin(SECTION);
        writer.u32(ORDER);
        writer.u16(1);
        writer.u16(0);
        // The length of the section is not known yet.
        writer.u64(u64::MAX);
        writer.option(1, comment.as_bytes());
        writer.option(4, concat!("headrace ", env!("CARGO_PKG_VERSION")).as_bytes());
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface; its number.
    ///
    /// # Errors
    /// When writing fails.
    pub fn interface(&mut self, interface: &Interface<'_>) -> io::Result<u32> {
        self.begin(INTERFACE);
        self.u16(ETHERNET);
        self.u16(0);
        self.u32(interface.snap);
        self.option(2, interface.name.as_bytes());
        self.option(3, interface.description.as_bytes());
        if interface.speed > 0 {
            self.option(8, &interface.speed.to_ne_bytes());
        }
        self.option(9, &[self.unit as u8]);
        self.end()?;
        self.interfaces += 1;
        Ok(self.interfaces - 1)
    }

    /// Adds a packet.
    ///
    /// # Errors
    /// When writing fails.
    pub fn packet(&mut self, packet: &Packet<'_>) -> io::Result<()> {
        self.begin(PACKET);
        self.u32(packet.interface);
        self.stamp(packet.at);
        let kept = u32::try_from(packet.bytes.len()).unwrap_or(u32::MAX);
        self.u32(kept);
        self.u32(packet.len.max(kept));
        self.padded(packet.bytes);
        self.option(2, &(packet.direction as u32).to_ne_bytes());
        self.end()
    }

    /// Writes the statistics of an interface.
    ///
    /// # Errors
    /// When writing fails.
    pub fn statistics(&mut self, interface: u32, what: &Statistics) -> io::Result<()> {
        self.begin(STATISTICS);
        self.u32(interface);
        self.stamp(what.span.1);
        for (code, at) in [(2, what.span.0), (3, what.span.1)] {
            let [high, low] = halves(at);
            let stamp = [high.to_ne_bytes(), low.to_ne_bytes()].concat();
            self.option(code, &stamp);
        }
        self.option(4, &what.seen.to_ne_bytes());
        self.option(5, &what.lost.to_ne_bytes());
        self.end()
    }

    /// Writes out buffered octets.
    ///
    /// # Errors
    /// When writing fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.u32(kind);
        // The place of the block's length, filled in when it is known.
        self.u32(0);
    }

    fn end(&mut self) -> io::Result<()> {
        // Every block of ours has options, and this ends them.
        self.u32(0);
        let length = u32::try_from(self.block.len() + 4).unwrap_or(u32::MAX).to_ne_bytes();
        self.block[4..8].copy_from_slice(&length);
        self.block.extend_from_slice(&length);
        self.out.write_all(&self.block)
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        // Texts are short; one that is longer than an option can be is cut.
        let value = &value[..value.len().min(usize::from(u16::MAX) - 3)];
        self.u16(code);
        self.u16(u16::try_from(value.len()).unwrap_or(u16::MAX));
        self.padded(value);
    }

    fn stamp(&mut self, ns: u64) {
        for half in halves(ns) {
            self.u32(half);
        }
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn u16(&mut self, value: u16) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.block.extend_from_slice(&value.to_ne_bytes());
    }
}

/// The upper and the lower 32 bits.
fn halves(stamp: u64) -> [u32; 2] {
    [stamp >> 32, stamp & u64::from(u32::MAX)].map(|half| u32::try_from(half).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_parser::traits::{PcapNGPacketBlock as _, PcapReaderIterator as _};
    use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapNGReader};

    fn sample() -> Vec<u8> {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, "a comment", StampUnit::Picosecond).unwrap();
        for name in ["host0", "host1"] {
            let interface =
                Interface { name, description: "a worker", speed: 100_000_000_000, snap: 96 };
            writer.interface(&interface).unwrap();
        }
        for (at, len) in [(1 << 40, 60), (7, 61), (8, 9000)] {
            let bytes = vec![0xA5; usize::try_from(len).unwrap().min(96)];
            let direction = if len == 61 { Direction::Sent } else { Direction::Received };
            writer
                .packet(&Packet { interface: len % 2, at, direction, len, bytes: &bytes })
                .unwrap();
        }
        let what = Statistics { span: (5, 1 << 40), seen: 12, lost: 3 };
        writer.statistics(1, &what).unwrap();
        writer.flush().unwrap();
        file
    }

    #[test]
    fn another_reader_finds_every_block_as_it_was_written() {
        let file = sample();
        let mut reader = PcapNGReader::new(65_536, file.as_slice()).unwrap();
        let mut said = Vec::new();
        while let Ok((length, block)) = reader.next() {
            let PcapBlockOwned::NG(block) = block else { panic!("not pcapng") };
            let line = match &block {
                Block::SectionHeader(section) => format!("section {}", section.options.len()),
                Block::InterfaceDescription(interface) => {
                    let name = interface.if_name().unwrap().unwrap();
                    format!("{name} {} {}", interface.snaplen, interface.if_tsresol)
                }
                Block::EnhancedPacket(packet) => {
                    let flags = packet.options.iter().find(|o| o.code == OptionCode(2)).unwrap();
                    let at = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                    let (if_id, flag) = (packet.if_id, flags.value[0]);
                    let (kept, len) = (packet.packet_data().len(), packet.orig_len());
                    format!("{if_id} at {at} way {flag}: {kept} of {len}")
                }
                Block::InterfaceStatistics(what) => {
                    let lost = what.options.iter().find(|o| o.code == OptionCode(5)).unwrap();
                    format!("statistics {} lost {}", what.if_id, lost.value[0])
                }
                other => panic!("{other:?}"),
            };
            said.push(line);
            reader.consume(length);
        }
        assert_eq!(
            said,
            [
                "section 3",
                "host0 96 12",
                "host1 96 12",
                "0 at 1099511627776 way 1: 60 of 60",
                "1 at 7 way 2: 61 of 61",
                "0 at 8 way 1: 96 of 9000",
                "statistics 1 lost 3",
            ]
        );
    }
}
