//! The hosts on both sides of a border switch: their addresses, and behind which device they are.
//!
//! Hosts of the site have the first numbers. MACs that the hosts file leaves out, and the device of
//! a host of the site, are learnt from its frames. MACs of the file stay: any host can send frames
//! under the address of another one.

use experiments::hosts_file::{HostEntry, HostsFile};
use experiments::input::InputError;
use transport::HostId;
use transport::wire::addressing::{Addressing, UDP_PORT};

use crate::switching::LearntAddresses;

/// The hosts of all sites.
#[derive(Debug)]
pub(super) struct Stations {
    addresses: LearntAddresses,
    near: u32,
    far: u32,
    /// For each host: whether the file has its MAC.
    given: Vec<bool>,
    /// For each host of the site: its device, by place, once a frame of it has come.
    devices: Vec<Option<usize>>,
}

impl Stations {
    /// The hosts of `file`; those of `site` are near.
    ///
    /// # Errors
    /// Hosts without a site, or none on one side. The file's reader checks that none is on both.
    pub(super) fn new(file: &HostsFile, site: &str) -> Result<Self, InputError> {
        let wrong = |found: String, expected: &str| {
            let help =
                "site = \"east\" in each [[host]], and --site east at the switch of that site";
            InputError::new(found, expected).at(&file.file, 0, 0).help(help)
        };
        if let Some(host) = file.hosts.iter().find(|host| host.site.is_none()) {
            return Err(wrong(format!("host `{}` without `site`", host.name), "one each"));
        }
        let is_near = |host: &&HostEntry| host.site.as_deref() == Some(site);
        let (near, far): (Vec<&HostEntry>, Vec<&HostEntry>) = file.hosts.iter().partition(is_near);
        if near.is_empty() || far.is_empty() {
            let found = format!("{} hosts at `{site}`, {} elsewhere", near.len(), far.len());
            return Err(wrong(found, "hosts on both sides of the switch"));
        }
        let all = near.iter().chain(&far).map(|host| (host.ip, host.mac));
        let addresses = LearntAddresses::new(all, file.udp_port.unwrap_or(UDP_PORT))
            .map_err(|error| wrong(error.to_string(), "addresses of machines"))?;
        let given = near.iter().chain(&far).map(|host| host.mac.is_some()).collect();
        let far = u32::try_from(far.len()).unwrap_or(u32::MAX);
        let devices = vec![None; near.len()];
        let near = u32::try_from(near.len()).unwrap_or(u32::MAX);
        Ok(Self { addresses, near, far, given, devices })
    }

    /// Hosts of the site, and others.
    pub(super) fn counts(&self) -> (u32, u32) {
        (self.near, self.far)
    }

    /// How hosts are addressed.
    pub(super) const fn addressing(&self) -> &Addressing {
        self.addresses.addressing()
    }

    /// Whether `host` is of the site.
    pub(super) const fn is_near(&self, host: HostId) -> bool {
        host.0 < self.near
    }

    /// The device of a host of the site, by place.
    pub(super) fn device_of(&self, host: HostId) -> Option<usize> {
        self.devices.get(host.0 as usize).copied().flatten()
    }

    /// A frame of `host` that begins with `head` has come by the LAN device `device`, or from
    /// another site. O(1).
    #[inline]
    pub(super) fn learn(&mut self, host: HostId, head: &[u8], device: Option<usize>) {
        if let Some(place) = self.devices.get_mut(host.0 as usize) {
            *place = device;
        }
        if self.given.get(host.0 as usize) == Some(&false) {
            self.addresses.learn(host, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(hosts: &[(&str, &str)]) -> Result<HostsFile, InputError> {
        let one = |(number, (site, mac)): (usize, &(&str, &str))| {
            format!(
                "[[host]]\nname = \"h{number}\"\naddress = \"10.0.0.{}/24\"\ndevice = \"eth0\"\n\
                 control = \"10.1.0.1:4798\"\n{mac}\n{site}\n",
                number + 1
            )
        };
        let text: String = hosts.iter().enumerate().map(one).collect();
        HostsFile::read(text.as_bytes(), "hosts.toml")
    }

    fn file(hosts: &[(&str, &str)]) -> HostsFile {
        read(hosts).unwrap()
    }

    const EAST: &str = "site = \"east\"";
    const WEST: &str = "site = \"west\"";

    #[test]
    fn hosts_of_the_site_come_first_and_are_learnt() {
        let mut stations = Stations::new(&file(&[(WEST, ""), (EAST, ""), (EAST, "")]), "east");
        let stations = stations.as_mut().unwrap();
        assert_eq!(stations.counts(), (2, 1));
        assert_eq!(stations.addressing().host_of_v4([10, 0, 0, 1]), Some(HostId(2)));
        assert_eq!(stations.device_of(HostId(1)), None);
        let mut head = [0; 14];
        head[6..12].copy_from_slice(&[2, 1, 1, 1, 1, 1]);
        stations.learn(HostId(1), &head, Some(3));
        stations.learn(HostId(2), &head, None);
        assert_eq!((stations.device_of(HostId(1)), stations.device_of(HostId(2))), (Some(3), None));
        assert_eq!(stations.addressing().addr(HostId(1)).unwrap().mac, [2, 1, 1, 1, 1, 1]);
        head[6] = 1;
        stations.learn(HostId(1), &head, Some(3));
        assert_eq!(stations.addressing().addr(HostId(1)).unwrap().mac[0], 2, "no group");
    }

    #[test]
    fn a_mac_of_the_file_stays() {
        let file = file(&[(EAST, "mac = \"02:00:00:00:00:07\""), (WEST, "")]);
        let mut stations = Stations::new(&file, "east").unwrap();
        let mut head = [0; 14];
        head[6..12].copy_from_slice(&[2, 1, 1, 1, 1, 1]);
        stations.learn(HostId(0), &head, Some(0));
        stations.learn(HostId(1), &head, None);
        let mac = |host| stations.addressing().addr(HostId(host)).unwrap().mac;
        assert_eq!((mac(0), mac(1)), ([2, 0, 0, 0, 0, 7], [2, 1, 1, 1, 1, 1]));
        assert_eq!(stations.device_of(HostId(0)), Some(0), "the device is learnt all the same");
    }

    #[test]
    fn a_host_on_both_sides_and_sides_without_hosts_are_refused() {
        let mac = "mac = \"02:00:00:00:00:07\"";
        let wrong = |hosts: &[(&str, &str)], site| {
            Stations::new(&file(hosts), site).unwrap_err().to_string()
        };
        let both = read(&[(EAST, mac), (WEST, mac)]).unwrap_err().to_string();
        assert!(both.contains("this MAC again") && both.contains("hosts.toml"), "{both}");
        assert!(wrong(&[(EAST, ""), (WEST, "")], "north").contains("0 hosts at `north`"));
        assert!(wrong(&[(EAST, ""), (EAST, "")], "east").contains("0 elsewhere"));
        assert!(wrong(&[(EAST, ""), ("", "")], "east").contains("host `h1` without `site`"));
    }
}
