//! The octet that switches read and write: ECN and DSCP of the IP header.
//!
//! Source: RFC 3168 (ECN), RFC 2474 (DSCP), \[dcsim\] section 2.3 (four classes). Queues decide
//! priority, not this code.

/// The ECN field of the IP header, RFC 3168.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ecn {
    /// The sender is not capable of ECN.
    NotEct,
    /// Capable, codepoint 1.
    Ect1,
    /// Capable, codepoint 0: the value of Headrace data.
    Ect0,
    /// Congestion experienced.
    Ce,
}

/// The traffic class, by which a switch separates queues. Code points lie in the local-use pool
/// (RFC 2474 section 6, xxxx11) and are two bit flips apart. Their high three bits rise with
/// priority. The three bits of unscheduled data are 1, which networks have for less than best
/// effort.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TrafficClass {
    /// Segments with payload; also how an unknown code point is read.
    Data,
    /// Copies of segments that a scheduler has not let leave yet: a switch with a queue for them
    /// serves them last and drops them first.
    Unscheduled,
    /// Data that lost its payload on the way.
    Trimmed,
    /// Acknowledgements, refusals, grants. DCsim's DATA-ACK.
    Control,
    /// Answers to probes. DCsim's SIM-ACK.
    ProbeAck,
    /// Probes. DCsim's SIM, which its switches serve first and at a limited rate.
    Probe,
}

impl Ecn {
    pub(super) const fn bits(self) -> u8 {
        match self {
            Self::NotEct => 0,
            Self::Ect1 => 1,
            Self::Ect0 => 2,
            Self::Ce => 3,
        }
    }

    pub(super) const fn of_tos(tos: u8) -> Self {
        match tos & 3 {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

impl TrafficClass {
    /// All classes.
    pub const ALL: [Self; 6] =
        [Self::Data, Self::Unscheduled, Self::Trimmed, Self::Control, Self::ProbeAck, Self::Probe];

    /// Whether its packets carry payload.
    #[must_use]
    pub const fn is_data(self) -> bool {
        matches!(self, Self::Data | Self::Unscheduled)
    }

    /// The ECN field of a packet of this class when a host sends it: data alone may be marked.
    #[must_use]
    pub const fn ecn(self) -> Ecn {
        match self {
            Self::Data | Self::Unscheduled => Ecn::Ect0,
            _ => Ecn::NotEct,
        }
    }

    /// The DSCP value, 0..=63.
    #[must_use]
    pub const fn dscp(self) -> u8 {
        match self {
            Self::Data => 0b00_0011,
            Self::Unscheduled => 0b00_1111,
            Self::Trimmed => 0b01_0111,
            Self::Control => 0b01_1011,
            Self::ProbeAck => 0b10_0111,
            Self::Probe => 0b10_1011,
        }
    }

    /// The octet of the IP header with this DSCP, and the ECN field of the octet `ecn`.
    pub(super) const fn tos(self, ecn: u8) -> u8 {
        self.dscp() << 2 | ecn & 3
    }

    /// The class of a DSCP value. Networks that assign no meaning to ours may reset it: unknown
    /// values are data.
    #[must_use]
    pub const fn of_dscp(dscp: u8) -> Self {
        match dscp {
            0b00_1111 => Self::Unscheduled,
            0b01_0111 => Self::Trimmed,
            0b01_1011 => Self::Control,
            0b10_0111 => Self::ProbeAck,
            0b10_1011 => Self::Probe,
            _ => Self::Data,
        }
    }
}
