//! The control groups whose limits hold for this process: its own, and all around it.
//!
//! Source: cgroups(7). A container without a namespace of its own for control groups names paths of
//! the machine that it does not see. Its group is then the mount's own directory, which is always
//! looked at.

use super::machine::Machine;

/// The directory of a control group.
pub(super) struct Cgroup {
    pub(super) dir: String,
    /// Whether the control group is of version 2, which has one tree for all controllers.
    pub(super) unified: bool,
}

/// The groups that may limit what `controller` counts, innermost first.
pub(super) fn groups(machine: &Machine, controller: &str) -> Vec<Cgroup> {
    let mut groups = Vec::new();
    let text = machine.text("/proc/self/cgroup").unwrap_or_default();
    for line in text.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let unified = controllers.is_empty();
        let mounts = if unified {
            vec!["/sys/fs/cgroup".to_owned(), "/sys/fs/cgroup/unified".to_owned()]
        } else if controllers.split(',').any(|name| name == controller) {
            vec![format!("/sys/fs/cgroup/{controller}")]
        } else {
            continue;
        };
        let dirs = mounts.iter().flat_map(|mount| {
            ancestors(path).map(move |group| Cgroup { dir: format!("{mount}{group}"), unified })
        });
        groups.extend(dirs);
    }
    groups
}

/// `/a/b`, `/a` and the empty path.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    std::iter::successors(Some(path), |path| path.rfind('/').map(|at| &path[..at]))
}
