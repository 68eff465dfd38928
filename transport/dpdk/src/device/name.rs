//! Devices by the names that people give them.
//!
//! | written | is |
//! |---|---|
//! | `0000:3b:00.0`, `3b:00.0`, with `,key=value` behind it | the card at that PCI address |
//! | `net_memif0,role=client,id=1` | a virtual device: driver, any suffix, its arguments |
//! | `eth1` | a network interface of the kernel |
//!
//! An interface whose card lets the kernel and DPDK share it (NVIDIA's) is driven as that card; any
//! other is used through AF_PACKET, and its MTU stays as its owner has set it. Source: DPDK's
//! guides to mlx5, memif and AF_PACKET. Frame lengths are bytes without FCS.

use std::fmt;
use std::fs;
use std::path::Path;
use std::str::FromStr;

use thiserror::Error;

use crate::eal::EalOptions;

/// A device, named but not opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// A card: its address with domain, and arguments for its driver (`key=value,...`, or nothing).
    Pci {
        /// Domain, bus, device, function.
        address: String,
        /// Arguments for the driver.
        arguments: String,
    },
    /// A virtual device.
    Virtual {
        /// Driver and suffix.
        name: String,
        /// Arguments for the driver.
        arguments: String,
    },
    /// An interface of the kernel.
    Interface(String),
}

/// Why a text names no device.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeviceNameError {
    /// Neither an address, nor a virtual device, nor what an interface may be called.
    #[error(
        "`{0}` names no device; write a PCI address (0000:3b:00.0), an interface (eth1) or a \
         virtual device (net_memif0,role=client)"
    )]
    Malformed(String),
    /// An argument that the driver would take for another in silence.
    #[error("`{0}` is no number, and the driver of net_null devices would read it as 0; write one")]
    NoNumber(String),
    /// No such interface.
    #[error("there is no interface `{name}`; there are {known}")]
    NoInterface {
        /// The name that was asked for.
        name: String,
        /// All interfaces of this network namespace.
        known: String,
    },
    /// No such card.
    #[error("there is no PCI device {0}; `headrace doctor` lists those that there are")]
    NoCard(String),
}

/// Drivers of the kernel beside which DPDK may use the same card.
const SHARING_DRIVERS: [&str; 2] = ["mlx5_core", "mlx4_core"];

/// Arguments of net_null that are numbers, decimal or 0x with hexadecimal digits. Its driver does
/// not check them; others refuse what they do not understand.
const NULL_NUMBERS: [&str; 3] = ["size", "copy", "no-rx"];

/// The cards of this machine, by address.
const PCI_DEVICES: &str = "/sys/bus/pci/devices";

/// The longest name of an interface (IFNAMSIZ less its NUL).
const INTERFACE_MAX: usize = 15;

impl FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Self, DeviceNameError> {
        let text = text.trim();
        let (name, arguments) = text.split_once(',').unwrap_or((text, ""));
        let arguments = arguments.to_owned();
        if let Some(address) = pci_address(name) {
            return Ok(Self::Pci { address, arguments });
        }
        let is_word = |c: char| c.is_ascii_alphanumeric() || "_-.@".contains(c);
        let is_name = !name.is_empty() && name.chars().all(is_word);
        if is_name && name.starts_with("net_") && !arguments.contains('\0') {
            if let Some(wrong) = no_number(name, &arguments) {
                return Err(DeviceNameError::NoNumber(wrong.chars().take(80).collect()));
            }
            return Ok(Self::Virtual { name: name.to_owned(), arguments });
        }
        if is_name && name.len() <= INTERFACE_MAX && name == text && !name.starts_with(['.', '-']) {
            return Ok(Self::Interface(name.to_owned()));
        }
        Err(DeviceNameError::Malformed(text.chars().take(80).collect()))
    }
}

/// The first argument of a net_null device that should be a number and is none.
fn no_number<'a>(name: &str, arguments: &'a str) -> Option<&'a str> {
    let is_number = |value: &str| match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).is_ok(),
        None => value.parse::<u32>().is_ok(),
    };
    let is_wrong = |argument: &&str| {
        let pair = argument.split_once('=');
        pair.is_some_and(|(key, value)| NULL_NUMBERS.contains(&key) && !is_number(value))
    };
    arguments.split(',').find(is_wrong).filter(|_| name.starts_with("net_null"))
}

/// `bb:dd.f` or `dddd:bb:dd.f` in hexadecimal, with its domain and in lower case.
fn pci_address(text: &str) -> Option<String> {
    let long =
        if text.matches(':').count() == 1 { format!("0000:{text}") } else { text.to_owned() };
    let (bus, function) = long.split_once('.')?;
    let parts: Vec<&str> = bus.split(':').chain([function]).collect();
    let hex = |part: &&str, len| part.len() == len && part.chars().all(|c| c.is_ascii_hexdigit());
    let sound =
        parts.len() == 4 && parts.iter().zip([4, 2, 2, 1]).all(|(part, len)| hex(part, len));
    sound.then(|| long.to_ascii_lowercase())
}

impl DeviceName {
    /// This device by DPDK's name: an interface becomes the card behind it, where both may use it.
    /// To be called before EAL starts, which needs the cards' names.
    ///
    /// # Errors
    /// [`DeviceNameError::NoInterface`], [`DeviceNameError::NoCard`].
    pub fn resolved(self) -> Result<Self, DeviceNameError> {
        let name = match self {
            Self::Interface(name) => name,
            Self::Pci { address, .. } if !Path::new(PCI_DEVICES).join(&address).exists() => {
                return Err(DeviceNameError::NoCard(address));
            }
            other => return Ok(other),
        };
        let known = interfaces();
        if !known.contains(&name) {
            return Err(DeviceNameError::NoInterface { name, known: known.join(", ") });
        }
        let device = format!("/sys/class/net/{name}/device");
        let last = |path: &str| {
            let target = fs::read_link(path).ok()?;
            Some(target.file_name()?.to_str()?.to_owned())
        };
        let shares = last(&format!("{device}/driver"))
            .is_some_and(|driver| SHARING_DRIVERS.contains(&driver.as_str()));
        match last(&device).as_deref().and_then(pci_address).filter(|_| shares) {
            Some(address) => Ok(Self::Pci { address, arguments: String::new() }),
            None => Ok(Self::Interface(name)),
        }
    }

    /// Whether the device is a card.
    #[must_use]
    pub const fn is_card(&self) -> bool {
        matches!(self, Self::Pci { .. })
    }

    /// `options` with what EAL needs for this device.
    #[must_use]
    pub fn allowed_in(&self, mut options: EalOptions) -> EalOptions {
        if let Self::Pci { address, arguments } = self {
            options.pci = true;
            let comma = if arguments.is_empty() { "" } else { "," };
            let allow = format!("{address}{comma}{arguments}");
            options.extra_args.extend(["-a".to_owned(), allow]);
        }
        options
    }

    /// The NUMA node of the device, for the pools of its buffers; -1 when there is none.
    #[must_use]
    pub fn socket(&self) -> i32 {
        let node = match self {
            Self::Pci { address, .. } => format!("{PCI_DEVICES}/{address}/numa_node"),
            Self::Interface(name) => format!("/sys/class/net/{name}/device/numa_node"),
            Self::Virtual { .. } => return -1,
        };
        fs::read_to_string(node).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(-1)
    }
}

/// The interfaces of the calling thread's network namespace.
fn interfaces() -> Vec<String> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    let name = |line: &str| line.split_once(':').map(|(name, _)| name.trim().to_owned());
    text.lines().filter_map(name).collect()
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, arguments) = match self {
            Self::Pci { address, arguments } => (address, arguments.as_str()),
            Self::Virtual { name, arguments } => (name, arguments.as_str()),
            Self::Interface(name) => (name, ""),
        };
        let comma = if arguments.is_empty() { "" } else { "," };
        write!(f, "{name}{comma}{arguments}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> DeviceName {
        text.parse().unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn every_kind_of_device_is_known_by_how_it_is_written() {
        let (address, arguments) = ("0000:3b:00.1".to_owned(), String::new());
        let card = DeviceName::Pci { address, arguments };
        assert_eq!([parsed("3b:00.1"), parsed(" 0000:3B:00.1 ")], [card.clone(), card]);
        let shown =
            ["0000:3b:00.0,mprq_en=1", "net_memif0,role=client,id=1", "net_null0", "eth1.7"];
        assert_eq!(shown.map(|text| parsed(text).to_string()), shown);
        assert_eq!(parsed("eth1.7"), DeviceName::Interface("eth1.7".to_owned()));
        assert!(parsed("3b:00.1").is_card() && !parsed("net_null0").is_card());
    }

    #[test]
    fn what_names_no_device_is_refused_with_examples() {
        for text in ["", ",", "eth0,x=1", "../etc", "a name", "3b:00.10", "averyveryverylongname"] {
            let error = text.parse::<DeviceName>().unwrap_err().to_string();
            assert!(error.contains("0000:3b:00.0") && error.contains("net_memif0"), "{error}");
        }
    }

    #[test]
    fn an_argument_that_net_null_would_read_as_0_is_refused() {
        for wrong in ["copy=xy", "size=", "size=64k", "no-rx=yes", "copy=0x"] {
            let error = format!("net_null0,{wrong},copy=1").parse::<DeviceName>().unwrap_err();
            assert_eq!(error, DeviceNameError::NoNumber(wrong.to_owned()));
            assert!(error.to_string().contains(wrong), "{error}");
        }
        for right in ["net_null0,copy=1,size=0x40", "net_null1,no-rx=1", "net_ring0,copy=xy"] {
            assert_eq!(parsed(right).to_string(), right);
        }
    }

    #[test]
    fn a_device_that_is_not_there_differs_from_those_that_are() {
        let error = parsed("nosuchif0").resolved().unwrap_err().to_string();
        assert!(error.contains("nosuchif0") && error.contains("lo"), "{error}");
        assert_eq!(parsed("lo").resolved(), Ok(DeviceName::Interface("lo".to_owned())));
        let error = parsed("ffff:ff:1f.7").resolved().unwrap_err().to_string();
        assert!(error.contains("no PCI device ffff:ff:1f.7"), "{error}");
    }

    #[test]
    fn a_card_is_allowed_with_its_arguments_and_nothing_else_changes_eal() {
        let options = parsed("3b:00.0,mprq_en=1").allowed_in(EalOptions::default());
        assert!(options.pci && options.extra_args == ["-a", "0000:3b:00.0,mprq_en=1"]);
        let options = parsed("net_null0").allowed_in(EalOptions::default());
        assert!(!options.pci && options.extra_args.is_empty());
    }
}
