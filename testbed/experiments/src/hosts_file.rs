//! `hosts.toml`: the hosts of a real network, one `[[host]]` each, in the order of their numbers in
//! the matrix.
//!
//! ```toml
//! udp_port = 4797                  # optional: where all hosts expect packets; 4797 unless given
//!
//! [[host]]
//! name = "node0"                   # how --host and reports call it
//! address = "10.0.0.1/24"          # of the device: IPv4 or IPv6, one version for all hosts
//! device = "0000:3b:00.0"          # a PCI address, an interface, or a virtual device
//! control = "192.168.1.10:4798"    # where the first host waits for the others, TCP
//! mac = "0c:42:a1:00:00:01"        # optional: its peers do not ask for it then
//! gateway = "10.0.0.254"           # optional: the way to hosts of other subnets
//! site = "east"                    # optional: its site, where there are several
//! role = "scheduler"               # optional: no host of the matrix, but Zeropod's scheduler
//! core = 2                         # optional: the core that polls the device
//! memory_mb = 1024                 # optional: memory for packet buffers
//! hugepages = true                 # optional: demand them, or do without
//! ```
//!
//! The file is the same on all hosts. Reading it opens no device and asks no name server.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;

use crate::input::table::{Document, Table, bytes_of, text_of};
use crate::input::{InputError, Located, did_you_mean};

/// Seconds of silence that hosts and flows of a real network survive, unless set otherwise: longer
/// than a switch takes to start again, or a hypervisor to move a machine.
pub const SILENCE_S: u64 = 90;

/// The hosts of a real network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostsFile {
    /// The name of the file in errors.
    pub file: String,
    /// Hosts by number, `2..=`[`HOSTS_MAX`].
    pub hosts: Vec<HostEntry>,
    /// The scheduler of Zeropod's pod, which has no number.
    pub scheduler: Option<HostEntry>,
    /// The UDP port of all hosts, where the file names one; not 0.
    pub udp_port: Option<u16>,
}

/// One host of a real network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostEntry {
    /// The name of the host, unique in the file.
    pub name: String,
    /// The address of the host's device, unique.
    pub ip: IpAddr,
    /// Leading bits that its subnet has in common.
    pub prefix: u8,
    /// The router that forwards to other subnets; in the host's subnet.
    pub gateway: Option<IpAddr>,
    /// The MAC of the host's device, so that peers need not ask for it.
    pub mac: Option<[u8; 6]>,
    /// The device, in the words of the file.
    pub device: Located<String>,
    /// The address at which the host waits for other hosts, `HOST:PORT`; the first host has one.
    pub control: Option<String>,
    /// The site of the host, where there are several.
    pub site: Option<String>,
    /// The core that polls.
    pub core: Option<usize>,
    /// Memory for packet buffers, MiB.
    pub memory_mb: Option<u32>,
    /// Hugepages demanded, or done without.
    pub hugepages: Option<bool>,
}

/// The most hosts of a real network.
pub const HOSTS_MAX: usize = 1024;

const BYTES_MAX: usize = 1 << 20;
const NAME_MAX: usize = 64;
const KEYS: [&str; 11] = [
    "name",
    "address",
    "device",
    "control",
    "mac",
    "gateway",
    "site",
    "role",
    "core",
    "memory_mb",
    "hugepages",
];
const EXAMPLE: &str = "a [[host]] has name = \"node0\", address = \"10.0.0.1/24\", \
    device = \"0000:3b:00.0\", and the first one control = \"192.168.1.10:4798\"";

impl HostsFile {
    /// Where the first host waits for the others.
    #[must_use]
    pub fn control(&self) -> &str {
        self.hosts.first().and_then(|host| host.control.as_deref()).unwrap_or_default()
    }

    /// Checks that the file has a host for each of the `nodes` of a matrix.
    ///
    /// # Errors
    /// When it has fewer: no topology changes that.
    pub fn check_matrix(&self, nodes: u32) -> Result<(), InputError> {
        let hosts = self.hosts.len();
        if u64::from(nodes) <= hosts as u64 {
            return Ok(());
        }
        let found = format!("{hosts} hosts for a matrix of {nodes}");
        let error = InputError::new(found, "a [[host]] for each host of the matrix");
        let help = "run a matrix of fewer hosts (headrace gen ... --hosts N), or add hosts";
        Err(error.at(&self.file, 0, 0).help(help))
    }

    /// How many sites the file names; 1 where it names none.
    #[must_use]
    pub fn sites(&self) -> u32 {
        let named: BTreeSet<&String> =
            self.hosts.iter().filter_map(|host| host.site.as_ref()).collect();
        u32::try_from(named.len()).unwrap_or(u32::MAX).max(1)
    }

    /// How many hosts the first of two sites has. These are the first ones of the file, and no
    /// fewer than those of the other site. `None` where the file does not name a site for each
    /// host, or names a single one.
    ///
    /// # Errors
    /// When sites are more than two, or hosts are in another order.
    pub fn of_first_site(&self) -> Result<Option<u32>, InputError> {
        let site = |host: &HostEntry| host.site.clone();
        let Some(sites) = self.hosts.iter().map(site).collect::<Option<Vec<_>>>() else {
            return Ok(None);
        };
        let first = sites.iter().take_while(|site| **site == sites[0]).count();
        let rest = &sites[first..];
        if rest.is_empty() {
            return Ok(None);
        }
        if rest.len() <= first && rest.iter().all(|site| *site == rest[0]) {
            return Ok(Some(u32::try_from(first).unwrap_or(u32::MAX)));
        }
        let found = format!("hosts of the sites {}", sites.join(", "));
        let expected = "two sites, all hosts of the larger one before those of the other";
        let help = "list the hosts in that order (matrices name hosts by their number in it), or \
                    describe the network with --topo";
        Err(InputError::new(found, expected).at(&self.file, 0, 0).help(help))
    }

    /// Checks that every host has a site.
    ///
    /// # Errors
    /// Names the first host without one.
    pub fn check_sited(&self) -> Result<(), InputError> {
        let Some(host) = self.hosts.iter().find(|host| host.site.is_none()) else {
            return Ok(());
        };
        let found = format!("host `{}` without a site", host.name);
        let expected = "a site for each host: border switches are between two sites";
        let help = "add site = \"NAME\" to its [[host]], or describe the network with --topo";
        Err(InputError::new(found, expected).at(&self.file, 0, 0).help(help))
    }

    /// Checks that a network has two hosts at different sites exactly where the file says so.
    /// `crosses` is true of two hosts, by number, that the network has at different sites. Hosts
    /// without a site are anywhere.
    ///
    /// # Errors
    /// Names the first two hosts that the network has elsewhere.
    pub fn check_sites(&self, crosses: impl Fn(u32, u32) -> bool) -> Result<(), InputError> {
        let sited = (0..).zip(&self.hosts).filter(|(_, host)| host.site.is_some());
        let sited: Vec<(u32, &HostEntry)> = sited.collect();
        for (place, (second, b)) in sited.iter().enumerate() {
            let wrong = sited[..place].iter().find(|(first, a)| {
                let is_across = a.site != b.site;
                crosses(*first, *second) != is_across
            });
            let Some((_, a)) = wrong else { continue };
            let is_one = if a.site == b.site { "one site" } else { "two sites" };
            let found = format!("hosts `{}` and `{}` of {is_one}", a.name, b.name);
            let expected = "hosts at the sites where the topology has their numbers";
            let help = "list the hosts of its first site first, or give another --topo";
            return Err(InputError::new(found, expected).at(&self.file, 0, 0).help(help));
        }
        Ok(())
    }

    /// Reads the file at `path`.
    ///
    /// # Errors
    /// As [`HostsFile::read`], and when the file cannot be read.
    pub fn read_path(path: &Path) -> Result<Self, InputError> {
        Self::read(&bytes_of(path, BYTES_MAX)?, &path.display().to_string())
    }

    /// Reads a file; `name` is what errors call it.
    ///
    /// # Errors
    /// The first thing that is wrong, with its line and column.
    pub fn read(bytes: &[u8], name: &str) -> Result<Self, InputError> {
        let text = text_of(bytes, name, ("a hosts file", BYTES_MAX))?;
        let document = Document::new(name, text);
        let parsed = document.parse()?;
        let root = Table::root(&document, "a hosts file", &parsed);
        root.expect_only(&["host", "udp_port"])?;
        let udp_port = bounded(root, "udp_port", 1..=u64::from(u16::MAX))?;
        let tables = root.tables("host", "[[host]]")?;
        let wrong_count = |found: String| {
            let error = InputError::new(found, format!("2 to {HOSTS_MAX} of them"));
            root.error("host", error.help(EXAMPLE))
        };
        if !(2..=HOSTS_MAX + 1).contains(&tables.len()) {
            let s = if tables.len() == 1 { "" } else { "s" };
            return Err(wrong_count(format!("{} host{s}", tables.len())));
        }
        let mut hosts: Vec<HostEntry> = Vec::with_capacity(tables.len());
        let mut scheduler: Option<HostEntry> = None;
        for table in tables {
            let schedules = is_scheduler(table)?;
            let host = entry(table, hosts.is_empty() && !schedules)?;
            check_against(table, &host, hosts.iter().chain(&scheduler))?;
            match (schedules, &scheduler) {
                (false, _) => hosts.push(host),
                (true, None) => scheduler = Some(host),
                (true, Some(other)) => {
                    let error = InputError::new("a second scheduler", "one in the file, or none");
                    let help = format!("host `{}` has that role already", other.name);
                    return Err(table.error("role", error.help(help)));
                }
            }
        }
        if !(2..=HOSTS_MAX).contains(&hosts.len()) {
            let besides = if scheduler.is_some() { " beside the scheduler" } else { "" };
            return Err(wrong_count(format!("{} hosts{besides}", hosts.len())));
        }
        let udp_port = udp_port.and_then(|port| u16::try_from(port).ok());
        Ok(Self { file: name.to_owned(), hosts, scheduler, udp_port })
    }

    /// The number of the host called `name`.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn number_of(&self, name: &str) -> Result<u32, InputError> {
        if self.scheduler.as_ref().is_some_and(|host| host.name == name) {
            let found = format!("`{name}`, the scheduler of {}", self.file);
            let error = InputError::new(found, "a host that has flows");
            return Err(
                error.help(format!("start it with headrace scheduler --hosts {}", self.file))
            );
        }
        let at = self.hosts.iter().position(|host| host.name == name);
        at.and_then(|at| u32::try_from(at).ok()).ok_or_else(|| {
            let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
            let expected = format!("a host of {}: {}", self.file, shown(&names));
            InputError::new(format!("host `{name}`"), expected).help(did_you_mean(name, &names))
        })
    }
}

/// The first few of many.
fn shown(names: &[&str]) -> String {
    const MOST: usize = 8;
    let more = if names.len() > MOST { ", ..." } else { "" };
    format!("{}{more}", names.iter().take(MOST).copied().collect::<Vec<_>>().join(", "))
}

/// Whether a host is the scheduler of Zeropod's pod.
fn is_scheduler(table: Table<'_>) -> Result<bool, InputError> {
    let Some(role) = table.string("role")? else { return Ok(false) };
    if role.value == "scheduler" {
        return Ok(true);
    }
    let error = InputError::new(format!("the role `{}`", role.value), "`scheduler`, or no role");
    Err(table.error("role", error))
}

fn entry(table: Table<'_>, is_first: bool) -> Result<HostEntry, InputError> {
    table.expect_only(&KEYS)?;
    let needed = |key: &str| -> Result<Located<String>, InputError> {
        table.string(key)?.ok_or_else(|| {
            let error = InputError::new(format!("a host without `{key}`"), "all that a host needs");
            table.error(key, error.help(EXAMPLE))
        })
    };
    let name = needed("name")?.value;
    let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || name.len() > NAME_MAX || !name.chars().all(is_word) {
        let expected = format!("1 to {NAME_MAX} letters, digits, dots, - and _");
        return Err(table.error("name", InputError::new("this name", expected)));
    }
    let (ip, prefix) = subnet(table, &needed("address")?.value)?;
    let device = needed("device")?;
    let control = table.string("control")?.map(|text| text.value);
    if is_first && control.is_none() {
        let error = InputError::new("the first host without `control`", "where it can be reached");
        return Err(table.error("control", error.help("control = \"192.168.1.10:4798\"")));
    }
    if let Some(text) = &control {
        let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.and_then(|(_, port)| port.parse::<u16>().ok()).is_none_or(|port| port == 0) {
            let error = InputError::new(format!("`{text}`"), "HOST:PORT, as in 192.168.1.10:4798");
            return Err(table.error("control", error));
        }
    }
    let core = bounded(table, "core", 0..=4095)?.and_then(|core| usize::try_from(core).ok());
    let memory_mb = bounded(table, "memory_mb", 64..=1 << 20)?;
    Ok(HostEntry {
        name,
        ip,
        prefix,
        gateway: gateway(table, (ip, prefix))?,
        mac: mac(table)?,
        device,
        control,
        site: table.string("site")?.map(|text| text.value),
        core,
        memory_mb: memory_mb.and_then(|mb| u32::try_from(mb).ok()),
        hugepages: table.boolean("hugepages")?.map(|flag| flag.value),
    })
}

/// An address with the length of its subnet's prefix.
fn subnet(table: Table<'_>, text: &str) -> Result<(IpAddr, u8), InputError> {
    let parsed = text.split_once('/').and_then(|(ip, prefix)| {
        let (ip, prefix) = (ip.parse::<IpAddr>().ok()?, prefix.parse::<u8>().ok()?);
        (1..=bits(ip)).contains(&prefix).then_some((ip, prefix))
    });
    let sound = parsed.filter(|(ip, _)| is_one_machines(*ip));
    sound.ok_or_else(|| {
        let expected = "one machine's address and the length of its subnet's prefix";
        let error = InputError::new(format!("`{text}`"), expected);
        table.error("address", error.help("10.0.0.1/24, or fd00::1/64"))
    })
}

const fn bits(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { 32 } else { 128 }
}

fn is_one_machines(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_multicast() || ip.is_unspecified() || ip.is_loopback() || broadcast)
}

fn gateway(table: Table<'_>, (own, prefix): (IpAddr, u8)) -> Result<Option<IpAddr>, InputError> {
    let Some(text) = table.string("gateway")? else { return Ok(None) };
    let near = |ip: &IpAddr| match (own, ip) {
        (IpAddr::V4(own), IpAddr::V4(ip)) => {
            (own.to_bits() ^ ip.to_bits()).leading_zeros() >= u32::from(prefix)
        }
        (IpAddr::V6(own), IpAddr::V6(ip)) => {
            (own.to_bits() ^ ip.to_bits()).leading_zeros() >= u32::from(prefix)
        }
        _ => false,
    };
    let ip = text.value.parse().ok().filter(near).filter(|ip| *ip != own && is_one_machines(*ip));
    ip.map(Some).ok_or_else(|| {
        let expected = format!("another address of the subnet of {own}/{prefix}");
        table.error("gateway", InputError::new(format!("`{}`", text.value), expected))
    })
}

fn mac(table: Table<'_>) -> Result<Option<[u8; 6]>, InputError> {
    let Some(text) = table.string("mac")? else { return Ok(None) };
    let octets: Option<Vec<u8>> = text
        .value
        .split([':', '-'])
        .map(|part| u8::from_str_radix(part, 16).ok().filter(|_| part.len() == 2))
        .collect();
    let mac = octets.and_then(|octets| <[u8; 6]>::try_from(octets).ok());
    let sound = mac.filter(|mac| mac[0] & 1 == 0 && *mac != [0; 6]);
    sound.map(Some).ok_or_else(|| {
        let expected = "one machine's MAC, as in 0c:42:a1:00:00:01";
        table.error("mac", InputError::new(format!("`{}`", text.value), expected))
    })
}

fn bounded(
    table: Table<'_>,
    key: &str,
    range: std::ops::RangeInclusive<u64>,
) -> Result<Option<u64>, InputError> {
    let Some(number) = table.integer(key)? else { return Ok(None) };
    if range.contains(&number.value) {
        return Ok(Some(number.value));
    }
    let expected = format!("{}..={}", range.start(), range.end());
    Err(table.error(key, InputError::new(format!("{key} = {}", number.value), expected)))
}

/// Names, addresses and MACs are unique, and there is one IP version.
fn check_against<'a>(
    table: Table<'_>,
    host: &HostEntry,
    others: impl Iterator<Item = &'a HostEntry>,
) -> Result<(), InputError> {
    let taken = |key: &str, what: String, other: &HostEntry| {
        let help = format!("host `{}` has it already", other.name);
        Err(table.error(key, InputError::new(what, "another for each host").help(help)))
    };
    for other in others {
        if other.name == host.name {
            return taken("name", format!("the name `{}` again", host.name), other);
        }
        if other.ip == host.ip {
            return taken("address", format!("the address {} again", host.ip), other);
        }
        if other.mac.is_some() && other.mac == host.mac {
            return taken("mac", "this MAC again".to_owned(), other);
        }
        if bits(other.ip) != bits(host.ip) {
            let found = format!("{} beside {}", host.ip, other.ip);
            let error = InputError::new(found, "one IP version for all hosts");
            return Err(table.error("address", error));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::workload::{FlowSpec, cm};

    const TWO: &str = "\
[[host]]
name = \"a\"
address = \"10.0.0.1/24\"
device = \"eth1\"
control = \"127.0.0.1:4798\"
[[host]]
name = \"b\"
address = \"10.0.0.2/24\"
device = \"eth1\"
";

    fn read(text: &str) -> Result<HostsFile, InputError> {
        HostsFile::read(text.as_bytes(), "hosts.toml")
    }

    #[test]
    fn hosts_are_numbered_in_the_order_of_the_file() {
        let file = read(TWO).unwrap();
        assert_eq!((file.number_of("a"), file.number_of("b")), (Ok(0), Ok(1)));
        let error = file.number_of("c").unwrap_err().to_string();
        assert!(error.contains("`c`") && error.contains("a, b"), "{error}");
        assert_eq!(file.hosts[1].device.line, 9);
    }

    #[test]
    fn everything_a_host_may_say_is_understood() {
        let more = "mac = \"0C-42-a1-00-00-01\"\ngateway = \"10.0.0.254\"\ncore = 2\n\
                    memory_mb = 512\nhugepages = false\n";
        let host = read(&format!("{TWO}{more}")).unwrap().hosts.remove(1);
        assert_eq!(host.mac, Some([0x0c, 0x42, 0xa1, 0, 0, 1]));
        assert_eq!(host.gateway, Some(IpAddr::from([10, 0, 0, 254])));
        assert_eq!((host.core, host.memory_mb, host.hugepages), (Some(2), Some(512), Some(false)));
        let elsewhere = read(&format!("udp_port = 5000\n{TWO}")).unwrap();
        assert_eq!((elsewhere.udp_port, read(TWO).unwrap().udp_port), (Some(5000), None));
        let v6 = TWO.replace("10.0.0.1/24", "fd00::1/64").replace("10.0.0.2/24", "fd00::2/64");
        assert_eq!(read(&v6).unwrap().hosts[1].prefix, 64);
    }

    #[test]
    fn sites_are_those_of_a_network_where_hosts_are_in_its_order() {
        let sited = |sites: &[&str]| {
            let one = |(number, site): (usize, &&str)| {
                let site =
                    if site.is_empty() { String::new() } else { format!("site = \"{site}\"") };
                format!(
                    "[[host]]\nname = \"h{number}\"\naddress = \"10.0.0.{}/24\"\n\
                     device = \"eth1\"\ncontrol = \"127.0.0.1:1\"\n{site}\n",
                    number + 1
                )
            };
            let text: String = sites.iter().enumerate().map(one).collect();
            read(&text).unwrap()
        };
        let first = |sites: &[&str]| sited(sites).of_first_site();
        let named = [&["", ""][..], &["e", ""], &["e", "w", "e"], &["e", "w", "n", ""]];
        assert_eq!(named.map(|sites| sited(sites).sites()), [1, 1, 2, 3]);
        assert_eq!(first(&["e", "e", "w", "w"]), Ok(Some(2)));
        assert_eq!(first(&["e", "e", "w"]), Ok(Some(2)));
        for one in [&["e", "e"][..], &["", ""], &["e", "w", ""]] {
            assert_eq!(first(one), Ok(None), "{one:?}");
        }
        for wrong in [&["e", "w", "w"][..], &["e", "w", "e"], &["e", "e", "w", "n"]] {
            let said = first(wrong).unwrap_err().to_string();
            let words = ["hosts.toml", "the larger one before", "--topo"];
            assert!(words.iter().all(|word| said.contains(word)), "{said}");
        }
        let said = sited(&["e", "", "w", ""]).check_sited().unwrap_err().to_string();
        assert!(said.contains("`h1` without a site") && said.contains("site = "), "{said}");
        let file = sited(&["e", "w", "e", "w"]);
        assert_eq!(file.check_sited(), Ok(()));
        assert_eq!(file.check_sites(|a, b| a % 2 != b % 2), Ok(()));
        let said = file.check_sites(|a, b| a / 2 != b / 2).unwrap_err().to_string();
        assert!(said.contains("`h0` and `h1` of two sites") && said.contains("--topo"), "{said}");
        assert_eq!(sited(&["", "w", ""]).check_sites(|_, _| true), Ok(()));
    }

    #[test]
    fn the_files_of_the_demonstration_name_two_sites_and_flows_between_them() {
        let file = read(include_str!("../../../docs/nic/sites.toml")).unwrap();
        assert_eq!((file.of_first_site(), file.check_sited()), (Ok(Some(2)), Ok(())));
        let text = include_bytes!("../../../docs/nic/sites.cm");
        let matrix = cm::read(&text[..], "sites.cm", cm::StartUnit::Us).unwrap().matrix;
        assert_eq!(file.check_matrix(matrix.nodes), Ok(()));
        let is_across = |flow: &FlowSpec| (flow.src.0 < 2) != (flow.dst.0 < 2);
        assert!(matrix.flows.iter().any(is_across) && !matrix.flows.iter().all(is_across));
    }

    #[test]
    fn a_scheduler_has_no_number_and_there_is_one_at_most() {
        let third = |name: &str, last: u8| {
            format!(
                "[[host]]\nname = \"{name}\"\naddress = \"10.0.0.{last}/24\"\ndevice = \"eth1\"\n"
            )
        };
        let role = "role = \"scheduler\"\n";
        let first = format!("{}{role}{TWO}", third("s", 9));
        let file = read(&first).unwrap();
        assert_eq!(file.hosts.len(), 2, "the scheduler needs no control address");
        assert_eq!(file.number_of("a"), Ok(0));
        assert_eq!(file.scheduler.as_ref().map(|host| host.name.as_str()), Some("s"));
        let said = file.number_of("s").unwrap_err().to_string();
        assert!(said.contains("headrace scheduler --hosts hosts.toml"), "{said}");
        let said = read(&format!("{first}{}{role}", third("t", 8))).unwrap_err().to_string();
        assert!(
            said.starts_with("hosts.toml:19:8") && said.contains("`s` has that role"),
            "{said}"
        );
        let said = read(&format!("{first}{}", third("t", 9))).unwrap_err().to_string();
        assert!(said.contains("10.0.0.9 again"), "{said}");
    }

    #[test]
    fn every_mistake_is_named_with_its_place() {
        let cases = [
            ("name = \"b\"", "name = \"a\"", "7:8", "host `a` has it"),
            ("name = \"b\"", "name = \"a b\"", "7:8", "letters"),
            ("10.0.0.2/24", "10.0.0.1/24", "8:11", "10.0.0.1 again"),
            ("10.0.0.2/24", "10.0.0.2", "8:11", "10.0.0.1/24"),
            ("10.0.0.2/24", "224.0.0.2/24", "8:11", "one machine's"),
            ("10.0.0.2/24", "10.0.0.2/33", "8:11", "prefix"),
            ("10.0.0.2/24", "fd00::2/64", "8:11", "one IP version"),
            ("control = \"127.0.0.1:4798\"\n", "", "1:", "control"),
            ("127.0.0.1:4798", "127.0.0.1", "5:11", "HOST:PORT"),
            ("127.0.0.1:4798", ":4798", "5:11", "HOST:PORT"),
            ("name = \"b\"", "nam = \"b\"", "7:1", "did you mean `name`"),
            ("device = \"eth1\"\ncontrol", "control", "1:", "without `device`"),
            ("name = \"b\"", "name = \"b\"\nmac = \"01:00:00:00:00:01\"", "8:7", "MAC"),
            ("name = \"b\"", "name = \"b\"\ngateway = \"10.0.1.1\"", "8:11", "10.0.0.2/24"),
            ("name = \"b\"", "name = \"b\"\ncore = 9999", "8:8", "0..=4095"),
            ("name = \"b\"", "name = \"b\"\nudp_port = 5000", "8:1", "udp_port"),
            ("[[host]]", "udp_port = 0\n[[host]]", "1:12", "1..=65535"),
            ("[[host]]", "udp_port = 65536\n[[host]]", "1:12", "1..=65535"),
            ("name = \"b\"", "name = \"b\"\nrole = \"core\"", "8:8", "`scheduler`, or no role"),
            ("name = \"b\"", "name = \"b\"\nrole = \"scheduler\"", "1:", "1 hosts beside"),
        ];
        for (right, wrong, place, words) in cases {
            let text = TWO.replacen(right, wrong, 1);
            let error = read(&text).unwrap_err().to_string();
            let named = error.starts_with(&format!("hosts.toml:{place}"));
            assert!(named && error.contains(words), "{wrong}: {error}");
        }
        let alone = read("[[host]]\nname = \"a\"\n").unwrap_err().to_string();
        assert!(alone.contains("found 1 host, expected 2 to 1024"), "{alone}");
        assert!(HostsFile::read(b"\xff", "hosts.toml").is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(bytes: Vec<u8>, cut in 0..TWO.len(), with in ".{0,8}") {
            let _ = HostsFile::read(&bytes, "hosts.toml");
            let text = format!("{}{with}{}", &TWO[..cut], &TWO[cut..]);
            let _ = read(&text);
            let _ = read(&TWO[..cut]);
        }
    }
}
