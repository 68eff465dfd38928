//! Why the application's request was refused.

use core::fmt;

/// Why [`crate::Endpoint::open_flow`] or [`crate::Endpoint::post_send`] refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PostError {
    /// `Settings::tx_flows_max` flows are open or closing.
    FlowTableFull,
    /// `Settings::msgs_max` messages are unfinished.
    MsgTableFull,
    /// No such flow: never opened, closed, or another endpoint's.
    NoSuchFlow,
    /// The flow's peer was given up; open another.
    FlowFailed,
    /// The peer is the endpoint's own host.
    SelfSend,
}

impl fmt::Display for PostError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FlowTableFull => "flow table full: close flows or raise tx_flows_max",
            Self::MsgTableFull => "message table full: wait for Sent events or raise msgs_max",
            Self::NoSuchFlow => "no such flow at this endpoint",
            Self::FlowFailed => "the flow's peer fell silent: open another flow",
            Self::SelfSend => "a host cannot open a flow to itself",
        })
    }
}

impl core::error::Error for PostError {}
