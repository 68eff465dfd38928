//! The two classes that every discipline here is made of: control, strictly above data.
//!
//! Source: [smartt] sec. III: each port has a high-priority queue for control packets such as
//! trims and acknowledgements, and a lower-priority queue for data. Each class has its own limit in
//! bytes. Not registered by itself: it neither marks nor trims.

use std::collections::VecDeque;

use transport::{Bytes, Instant};

use super::{Backlog, Departure, QdiscParams};
use crate::packet::Packet;
use transport::DropReason;

/// Two FIFOs with limits; the control one goes first.
#[derive(Clone, Debug)]
pub struct TwoClass {
    data: Class,
    control: Class,
}

/// One FIFO. Its ring grows to the largest backlog it has had, never beyond `limit`.
#[derive(Clone, Debug)]
struct Class {
    queue: VecDeque<Packet>,
    /// Bytes queued, 0 ..= limit.
    bytes: u64,
    limit: u64,
}

impl TwoClass {
    /// Two empty classes with the limits of `params`.
    #[must_use]
    pub fn new(params: &QdiscParams) -> Self {
        Self { data: Class::new(params.data_limit), control: Class::new(params.control_limit) }
    }

    /// Queues `packet` in its class.
    ///
    /// # Errors
    /// The reason when its class has no room; nothing is queued then.
    #[inline]
    pub fn offer(&mut self, packet: Packet) -> Result<(), DropReason> {
        if packet.is_control() {
            self.control.offer(packet).ok_or(DropReason::ControlQueueFull)
        } else {
            self.data.offer(packet).ok_or(DropReason::DataQueueFull)
        }
    }

    /// The next packet: control first, first in first out within a class.
    #[inline]
    pub fn take(&mut self) -> Option<Packet> {
        match self.control.take() {
            None => self.data.take(),
            control => control,
        }
    }

    /// `Qdisc::dequeue_control`. Nothing marks a control packet.
    #[inline]
    pub fn dequeue_control(&mut self, start: Instant) -> Option<Departure> {
        let packet = self.control.take()?;
        Some(Departure { packet, marked: false, data_left: self.data.bytes, start })
    }

    /// `Qdisc::pass`: a packet within its class's limit that meets two empty queues leaves as it
    /// came. Nothing is left behind it, so nothing could mark it.
    ///
    /// # Errors
    /// The packet back, when it does not fit.
    #[inline]
    pub fn pass(&self, packet: Packet, now: Instant) -> Result<Departure, Packet> {
        let class = if packet.is_control() { &self.control } else { &self.data };
        if packet.wire_bytes() > class.limit {
            return Err(packet);
        }
        Ok(Departure { packet, marked: false, data_left: 0, start: now })
    }

    /// Data bytes queued.
    #[inline]
    #[must_use]
    pub const fn data_bytes(&self) -> u64 {
        self.data.bytes
    }

    /// What waits in both classes.
    #[inline]
    #[must_use]
    pub fn backlog(&self) -> Backlog {
        Backlog {
            data_bytes: self.data.bytes,
            control_bytes: self.control.bytes,
            packets: self.data.queue.len() + self.control.queue.len(),
        }
    }
}

impl Class {
    const fn new(limit: Bytes) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, limit: limit.0 }
    }

    #[inline]
    fn offer(&mut self, packet: Packet) -> Option<()> {
        let bytes = self.bytes + packet.wire_bytes();
        if bytes > self.limit {
            return None;
        }
        self.bytes = bytes;
        self.queue.push_back(packet);
        Some(())
    }

    #[inline]
    fn take(&mut self) -> Option<Packet> {
        let packet = self.queue.pop_front()?;
        self.bytes -= packet.wire_bytes();
        Some(packet)
    }
}
