//! Two network namespaces of a test, connected, and removed when it ends.

use std::process::Command;

use system_tests::netns::ip;

/// `NAME-a` and `NAME-b` with interface `veth` each: two ends of one link.
pub(crate) struct Pair {
    pub(crate) names: [String; 2],
}

impl Pair {
    /// Connected by a link of this MTU; why not where that cannot be.
    pub(crate) fn new(case: &str, mtu: u32) -> Result<Self, String> {
        let name = |end| format!("hr{}-{case}-{end}", std::process::id());
        let pair = Self { names: [name('a'), name('b')] };
        let [a, b] = [pair.names[0].as_str(), pair.names[1].as_str()];
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        let link = format!("link add veth mtu {mtu} netns {a} type veth");
        ip(&format!("{link} peer name veth mtu {mtu} netns {b}"))?;
        pair.set([true, true])?;
        Ok(pair)
    }

    /// Takes the ends up or down.
    pub(crate) fn set(&self, up: [bool; 2]) -> Result<(), String> {
        for (name, up) in self.names.iter().zip(up) {
            ip(&format!("-n {name} link set veth {}", if up { "up" } else { "down" }))?;
        }
        Ok(())
    }

    /// The mode of end `end`: how many hold it promiscuous, and whether its flag says so, which
    /// outlives processes.
    pub(crate) fn promiscuity(&self, end: usize) -> (u32, bool) {
        let args = ["-n", &self.names[end], "-d", "link", "show", "veth"];
        let ran = Command::new("ip").args(args).output().unwrap();
        let text = String::from_utf8_lossy(&ran.stdout).into_owned();
        let mut words = text.split_whitespace();
        let count = words.find(|word| *word == "promiscuity").and_then(|_| words.next());
        (count.and_then(|count| count.parse().ok()).expect(&text), text.contains("PROMISC"))
    }

    /// Joins device `tap` of one end to the link, by a bridge.
    pub(crate) fn bridge_tap(&self, end: usize) -> Result<(), String> {
        let name = &self.names[end];
        ip(&format!("-n {name} link add bridge type bridge"))?;
        for port in ["veth", "tap"] {
            ip(&format!("-n {name} link set {port} master bridge"))?;
        }
        ip(&format!("-n {name} link set bridge up"))?;
        ip(&format!("-n {name} link set tap up"))
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for name in &self.names {
            // One of the two namespaces may never have been made.
            let _ = ip(&format!("netns delete {name}"));
        }
    }
}
