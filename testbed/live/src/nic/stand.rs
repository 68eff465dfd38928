//! Where other hosts find this one when the leading host fails.

use std::net::{IpAddr, SocketAddr};

use super::doorway::Doorway;
use super::message::StandAddress;
use crate::workers::random;

/// The places of all hosts, and the socket of this one.
#[derive(Debug, Default)]
pub(super) struct Stand {
    pub(super) door: Option<Doorway>,
    pub(super) own: Option<StandAddress>,
    /// By host, once hosts have introduced themselves.
    pub(super) places: Vec<Option<StandAddress>>,
}

impl Stand {
    /// Listens at `ip`. Without a place no host can follow this one, and it ends with the leading
    /// host.
    pub(super) fn open(&mut self, ip: IpAddr) {
        let door = Doorway::open(&SocketAddr::new(ip, 0).to_string());
        let door = door.and_then(|door| Ok((door.address()?, door)));
        let opened = door.map_err(|error| error.to_string());
        match opened.and_then(|it| Ok((it, random().map_err(|error| error.to_string())?))) {
            Ok(((address, door), pass)) => {
                (self.door, self.own) = (Some(door), Some(StandAddress { address, pass }));
            }
            Err(why) => tracing::warn!(%ip, why, "cannot listen: the run needs its first host"),
        }
    }
}
