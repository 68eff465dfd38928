//! A network of the kernel for a case: a bridge in a namespace of its own, and a namespace with a
//! veth to it for each host. All of it goes when the lab does.
#![allow(clippy::print_stdout, reason = "the output of a test harness")]

use std::path::Path;
use std::process::Command;

use crate::netns::{self, ip, run};

/// Namespaces of one case.
#[derive(Debug)]
pub struct Lab {
    names: Vec<String>,
}

/// The control network, which the kernel uses on the same links.
const CONTROL: &str = "192.168.177";

impl Lab {
    /// Namespaces for `hosts` hosts on one bridge; `mtu` is that of the bridge and its ports.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn new(hosts: u32, mtu: u32) -> Result<Self, String> {
        let stem = format!("hr{}", std::process::id());
        let bridge = format!("{stem}sw");
        let mut lab = Self { names: Vec::new() };
        lab.add(&bridge)?;
        ip(&format!("-n {bridge} link add br0 mtu {mtu} type bridge"))?;
        for host in 0..hosts {
            let name = format!("{stem}h{host}");
            lab.add(&name)?;
            // A host's own end takes any frame; whether it passes is the network's affair.
            ip(&format!("-n {bridge} link add p{host} type veth peer name eth0 netns {name}"))?;
            ip(&format!("-n {name} link set eth0 mtu 9000 up"))?;
            ip(&format!("-n {bridge} link set p{host} mtu {mtu} master br0 up"))?;
            let own = format!("{CONTROL}.{}", host + 1);
            ip(&format!("-n {name} address add {own}/24 dev eth0"))?;
            // The kernel's packets fit in any case.
            let route = format!("{CONTROL}.0/24 dev eth0 src {own} mtu 1400");
            ip(&format!("-n {name} route replace {route}"))?;
        }
        ip(&format!("-n {bridge} link set br0 mtu {mtu} up"))?;
        Ok(lab)
    }

    /// Has frames to `host` pass a queue, as `tc qdisc add dev DEVICE root` takes it. The bridge
    /// has an address then, and the host's kernel says of every packet that it is for no process.
    ///
    /// # Errors
    /// What `tc` or `ip` says.
    pub fn limit(&self, host: u32, queue: &str) -> Result<(), String> {
        let bridge = &self.names[0];
        run("tc", &format!("-n {bridge} qdisc add dev p{host} root {queue}"))?;
        ip(&format!("-n {bridge} address add {CONTROL}.250/24 dev br0"))?;
        let limit = "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit";
        let said = netns::command(self.name(host), Path::new("sh")).args(["-c", limit]).status();
        match said {
            Ok(status) if status.success() => Ok(()),
            _ => Err(format!("`{limit}` cannot be said in a namespace")),
        }
    }

    /// `program` inside the namespace of the bridge.
    #[must_use]
    pub fn at_bridge(&self, program: &Path) -> Command {
        netns::command(&self.names[0], program)
    }

    /// Takes the link of `host` down, or up again.
    ///
    /// # Errors
    /// What `ip` says.
    pub fn link(&self, host: u32, up: bool) -> Result<(), String> {
        let bridge = &self.names[0];
        ip(&format!("-n {bridge} link set p{host} {}", if up { "up" } else { "down" }))
    }

    fn add(&mut self, name: &str) -> Result<(), String> {
        ip(&format!("netns add {name}"))?;
        self.names.push(name.to_owned());
        ip(&format!("-n {name} link set lo up"))
    }

    /// The address at which other hosts reach the first host.
    #[must_use]
    pub fn control() -> String {
        format!("{CONTROL}.1:4798")
    }

    /// The namespace of `host`.
    ///
    /// # Panics
    /// Where there is no such host.
    #[must_use]
    pub fn name(&self, host: u32) -> &str {
        &self.names[host as usize + 1]
    }

    /// `program` inside the namespace of `host`.
    ///
    /// # Panics
    /// Where there is no such host.
    #[must_use]
    pub fn command(&self, host: u32, program: &Path) -> Command {
        netns::command(self.name(host), program)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in self.names.drain(..) {
            if let Err(error) = ip(&format!("netns delete {name}")) {
                println!("{error}");
            }
        }
    }
}
