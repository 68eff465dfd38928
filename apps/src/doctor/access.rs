//! The permissions of this process: user, capabilities, TAP, VFIO and the cards bound to it,
//! runtime directory.
//!
//! Source: /proc/self/status, /dev/net/tun, /sys/kernel/iommu_groups, /sys/bus/pci,
//! capabilities(7).

use super::finding::Finding;
use super::machine::Machine;

const CAP_NET_ADMIN: u32 = 12;
const CAP_NET_RAW: u32 = 13;
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;

const CAPABILITIES: [(&str, u32, &str); 4] = [
    ("cap_net_admin", CAP_NET_ADMIN, "makes TAP devices"),
    ("cap_net_raw", CAP_NET_RAW, "opens packet sockets: net_af_packet, net_pcap"),
    ("cap_ipc_lock", CAP_IPC_LOCK, "locks memory for a network card"),
    ("cap_sys_admin", CAP_SYS_ADMIN, "makes network namespaces, so that TAP runs leave no trace"),
];

/// All findings about permissions and devices.
pub(crate) fn probe(machine: &Machine) -> Vec<Finding> {
    let mut findings = vec![user(machine)];
    findings.extend(CAPABILITIES.iter().map(|(name, bit, why)| {
        let id = format!("user.{name}");
        match machine.has_capability(*bit) {
            true => Finding::ok(&id, format!("{name} is held"), why),
            false => Finding::warn(&id, format!("{name} is not held"), why, setcap()),
        }
    }));
    findings.push(runtime_dir(machine));
    findings.push(tun(machine));
    findings.push(iommu(machine));
    findings.push(vfio(machine));
    findings.push(cards(machine));
    findings
}

fn setcap() -> String {
    let names: Vec<&str> = CAPABILITIES.iter().map(|(name, ..)| *name).collect();
    format!(
        "sudo setcap {}+ep \"$(command -v headrace || echo target/release/headrace)\"",
        names.join(",")
    )
}

fn user(machine: &Machine) -> Finding {
    const WHY: &str = "net_ring, net_memif and net_null work for every user; net_tap, \
                       net_af_packet and network cards want root or capabilities";
    let id = "user";
    match machine.euid() {
        Some(0) => Finding::ok(id, "root", WHY),
        Some(uid) => {
            Finding::warn(id, format!("not root: user {uid}"), WHY, "sudo headrace doctor")
        }
        None => Finding::info(id, "the user is unknown", WHY),
    }
}

fn runtime_dir(machine: &Machine) -> Finding {
    const WHY: &str = "DPDK keeps its runtime files there; without it, it warns and uses /tmp";
    const MEND: &str = "mkdir -p -m 700 \"$HOME/.run\" && export XDG_RUNTIME_DIR=\"$HOME/.run\"";
    let id = "user.runtime_dir";
    match &machine.runtime_dir {
        _ if machine.euid() == Some(0) => Finding::ok(id, "root uses /var/run", WHY),
        None => Finding::warn(id, "XDG_RUNTIME_DIR is not set", WHY, MEND),
        Some(dir) if machine.exists(dir) => Finding::ok(id, dir.as_str(), WHY),
        Some(dir) => {
            Finding::warn(id, format!("XDG_RUNTIME_DIR names {dir}, which is not there"), WHY, MEND)
        }
    }
}

fn tun(machine: &Machine) -> Finding {
    const WHY: &str = "net_tap links are made through it";
    let id = "device.tun";
    match machine.mode("/dev/net/tun") {
        None => Finding::warn(
            id,
            "/dev/net/tun is not there",
            WHY,
            "sudo modprobe tun || \
             (sudo mkdir -p /dev/net && sudo mknod -m 666 /dev/net/tun c 10 200)",
        ),
        Some(mode) if mode & 0o006 == 0o006 || machine.euid() == Some(0) => {
            Finding::ok(id, "/dev/net/tun can be opened", WHY)
        }
        Some(_) => {
            let what = "/dev/net/tun is there, but not for this user";
            Finding::warn(id, what, WHY, "sudo chmod 666 /dev/net/tun")
        }
    }
}

fn iommu(machine: &Machine) -> Finding {
    const WHY: &str = "VFIO gives a card to a process safely only behind an IOMMU";
    let id = "nic.iommu";
    match machine.names("/sys/kernel/iommu_groups").len() {
        0 => Finding::info(id, "no IOMMU; its kernel parameters: intel_iommu=on iommu=pt", WHY),
        count => Finding::ok(id, format!("{count} IOMMU groups"), WHY),
    }
}

fn vfio(machine: &Machine) -> Finding {
    const WHY: &str = "cards other than NVIDIA's are driven through VFIO";
    let id = "nic.vfio";
    if machine.exists("/dev/vfio/vfio") {
        return Finding::ok(id, "/dev/vfio/vfio is there", WHY);
    }
    let absent = Finding::warn(id, "/dev/vfio/vfio is not there", WHY, "sudo modprobe vfio-pci");
    let shared = network_cards(machine).iter().any(|(_, driver)| driver == SHARED);
    if shared { absent } else { absent.blocks_nic() }
}

/// The kernel's driver of cards that need no VFIO.
const SHARED: &str = "mlx5_core";

/// Network cards and their drivers: (PCI address, driver).
fn network_cards(machine: &Machine) -> Vec<(String, String)> {
    let devices = "/sys/bus/pci/devices";
    let is_network = |address: &String| {
        let class = machine.text(&format!("{devices}/{address}/class"));
        class.is_some_and(|class| class.trim().starts_with("0x02"))
    };
    let with_driver = |address: String| {
        let driver = machine.link_name(&format!("{devices}/{address}/driver"));
        (address, driver.unwrap_or_else(|| "no driver".to_owned()))
    };
    machine.names(devices).into_iter().filter(is_network).map(with_driver).collect()
}

fn cards(machine: &Machine) -> Finding {
    const WHY: &str = "a nic run needs a card that DPDK may drive";
    let id = "nic.cards";
    let cards = network_cards(machine);
    let shown: Vec<String> =
        cards.iter().map(|(address, driver)| format!("{address} ({driver})")).collect();
    let is_ours = |driver: &str| driver == "vfio-pci" || driver == SHARED;
    match (cards.first(), cards.iter().any(|(_, driver)| is_ours(driver))) {
        (None, _) => Finding::info(id, "no network card on the PCI bus", WHY).blocks_nic(),
        (Some(_), true) => Finding::ok(id, shown.join(", "), WHY),
        (Some((address, _)), false) => Finding::warn(
            id,
            format!("none is bound to vfio-pci: {}", shown.join(", ")),
            WHY,
            format!(
                "sudo dpdk-devbind.py --bind=vfio-pci {address}   # not the card that you \
                 are logged in over: the kernel loses it"
            ),
        )
        .blocks_nic(),
    }
}
