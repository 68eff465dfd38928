//! The ports that hosts listen on in case the leading host fails.

use std::net::{IpAddr, SocketAddr};

use super::control_port::ControlPort;
use super::message::SuccessorAddress;
use crate::workers::random;

/// The addresses at which hosts can be reached when they lead, and the socket of this host.
#[derive(Debug, Default)]
pub(super) struct SuccessorPort {
    pub(super) listener: Option<ControlPort>,
    pub(super) own: Option<SuccessorAddress>,
    /// By host, once hosts have introduced themselves.
    pub(super) all: Vec<Option<SuccessorAddress>>,
}

impl SuccessorPort {
    /// Listens at `ip`. Without a port no host can follow this one, and it ends with the leading
    /// host.
    pub(super) fn open(&mut self, ip: IpAddr) {
        let listener = ControlPort::open(&SocketAddr::new(ip, 0).to_string());
        let listener = listener.and_then(|listener| Ok((listener.address()?, listener)));
        let opened = listener.map_err(|error| error.to_string());
        match opened.and_then(|it| Ok((it, random().map_err(|error| error.to_string())?))) {
            Ok(((address, listener), pass)) => {
                (self.listener, self.own) =
                    (Some(listener), Some(SuccessorAddress { address, pass }));
            }
            Err(why) => tracing::warn!(%ip, why, "cannot listen: the run needs its first host"),
        }
    }
}
