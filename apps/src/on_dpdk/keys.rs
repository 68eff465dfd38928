//! The file of keys of `--security`: whether a run would take it, and how old it is. For `headrace
//! doctor`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::doctor::Finding;

/// Days after which keys are to be changed, if there is no earlier reason: a key that has leaked
/// unnoticed then opens packets for no longer than that.
const OLD_DAYS: u64 = 90;

/// Findings about the keys of `psk:FILE` or `psk-auth:FILE`.
pub(crate) fn look_at(text: &str) -> Vec<Finding> {
    let why = "what can be read here opens every packet, and what can be changed seals them";
    let path = text.split_once(':').map_or(text, |(_, path)| path);
    let keys = match live::peers::SharedKeys::read(text) {
        Ok(keys) => keys,
        Err(error) => {
            let mend = format!("chmod 600 {path}   # or as the finding says, on every host");
            return vec![Finding::fail("security.keys", error.to_string(), why, mend).blocks_nic()];
        }
    };
    let Ok(facts) = fs::metadata(path) else { return Vec::new() };
    let (mode, owner) = (facts.mode() & 0o777, facts.uid());
    let numbers = keys.keys();
    let line = format!("{path}: keys {numbers:?}, the first seals; mode {mode:03o}, user {owner}");
    let mut found = vec![Finding::ok("security.keys", line, why)];
    let own = fs::metadata("/proc/self").map_or(owner, |facts| facts.uid());
    if owner != own && owner != 0 {
        let line = format!("{path} belongs to user {owner}, who may change it");
        let mend = format!("chown {own} {path}");
        found.push(Finding::warn("security.owner", line, why, mend));
    }
    let age = facts.modified().ok().and_then(|changed| changed.elapsed().ok());
    let days = age.unwrap_or_default().as_secs() / 86_400;
    let (line, why) = (
        format!("the file was last changed {days} days ago"),
        "a key that has leaked opens packets until it is removed",
    );
    found.push(if days < OLD_DAYS {
        Finding::ok("security.age", line, why)
    } else {
        let mend = format!(
            "echo \"N $(openssl rand -hex 32)\" >> {path}   # on every host; the order of a \
             rotation: docs/OPERATING.md, Shared keys"
        );
        Finding::warn("security.age", line, why, mend)
    });
    found
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;

    use super::*;
    use crate::doctor::Status;

    #[test]
    fn a_file_of_keys_is_judged_by_mode_format_and_age() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("keys");
        let text = format!("psk:{}", path.display());
        let found = |text: &str| {
            let all = look_at(text).into_iter();
            all.map(|found| (found.id, found.status, found.what)).collect::<Vec<_>>()
        };
        let refused = |words: &str| {
            let found = found(&text);
            assert_eq!((found.len(), found[0].1), (1, Status::Fail), "{found:?}");
            assert!(found[0].2.contains(words), "{found:?}");
        };
        refused("openssl rand");
        fs::write(&path, format!("7 {}\n", "5a3c".repeat(16))).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        refused("mode 640");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let good = found(&text);
        assert!(good.iter().all(|(_, status, _)| *status == Status::Ok), "{good:?}");
        assert!(good[0].2.contains("keys [7]") && good[0].2.contains("mode 600"), "{good:?}");
        let file = File::options().write(true).open(&path).unwrap();
        let changed = file.metadata().unwrap().modified().unwrap();
        file.set_modified(changed - Duration::from_secs(OLD_DAYS * 86_400 + 60)).unwrap();
        let old = found(&text);
        let id = "security.age".to_owned();
        assert_eq!((&old[1].0, old[1].1), (&id, Status::Warn), "{old:?}");
        fs::write(&path, "7 5a3c\n").unwrap();
        refused("line 1: no key of 32 octets");
    }
}
