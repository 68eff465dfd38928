//! Machines that are not at hand: trees of files, and the doctor's findings for each.

use std::fs;
use std::path::Path;

use super::*;

/// A machine on which vdev runs, as root, with hugepages.
struct Tree(tempfile::TempDir);

impl Tree {
    fn healthy() -> Self {
        let tree = Self(tempfile::tempdir().unwrap());
        let status =
            "Name:\tx\nUid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\nCpus_allowed_list:\t0-3\n";
        tree.put("proc/self/status", status);
        tree.put("proc/self/limits", "Max locked memory unlimited unlimited bytes\n");
        tree.put("proc/meminfo", "MemTotal: 8000000 kB\nMemAvailable: 6000000 kB\n");
        tree.put("proc/cpuinfo", "flags\t: fpu sse4_2 constant_tsc nonstop_tsc avx\n");
        tree.put("proc/mounts", "none /dev/hugepages hugetlbfs rw 0 0\n");
        tree.put("proc/sys/kernel/osrelease", "6.1.0\n");
        tree.put("sys/devices/system/cpu/online", "0-3\n");
        tree.put("etc/os-release", "ID=debian\n");
        tree.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
        tree.put("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "512\n");
        tree.put("dev/net/tun", "");
        let lib = "usr/lib/x86_64-linux-gnu";
        tree.put(&format!("{lib}/librte_eal.so.23.0"), "");
        for name in ["bus_vdev", "bus_pci", "mempool_ring", "net_ring", "net_memif", "net_tap"] {
            tree.put(&format!("{lib}/dpdk/pmds-23.0/librte_{name}.so.23.0"), "");
        }
        for name in ["net_null", "net_af_packet", "net_pcap"] {
            tree.put(&format!("{lib}/dpdk/pmds-23.0/librte_{name}.so"), "");
        }
        tree
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn remove(&self, path: &str) {
        let path = self.0.path().join(path);
        if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
    }

    fn machine(&self) -> Machine {
        Machine::at(self.0.path())
    }

    fn examine(&self) -> Diagnosis {
        examine(&self.machine())
    }
}

fn find<'a>(diagnosis: &'a Diagnosis, id: &str) -> &'a Finding {
    diagnosis.findings.iter().find(|finding| finding.id == id).unwrap()
}

/// The finding, its status, and its mending command.
fn says<'a>(diagnosis: &'a Diagnosis, id: &str) -> (Status, &'a str, &'a str) {
    let finding = find(diagnosis, id);
    (finding.status, &finding.what, finding.mend.as_deref().unwrap_or(""))
}

#[test]
fn a_machine_with_everything_is_fit_for_vdev_and_nothing_fails() {
    let diagnosis = Tree::healthy().examine();
    let failing: Vec<&Finding> =
        diagnosis.findings.iter().filter(|finding| finding.status == Status::Fail).collect();
    assert!(failing.is_empty(), "{failing:?}");
    assert!(diagnosis.fit.sim && diagnosis.fit.vdev);
}

#[test]
fn every_finding_that_is_not_fine_has_a_mending_command() {
    let empty = tempfile::tempdir().unwrap();
    let diagnosis = examine(&Machine::at(empty.path()));
    assert!(diagnosis.fit.sim && !diagnosis.fit.vdev && !diagnosis.fit.nic);
    for finding in &diagnosis.findings {
        let bad = matches!(finding.status, Status::Warn | Status::Fail);
        assert_eq!(bad, finding.mend.is_some(), "{finding:?}");
        assert!(!finding.why.is_empty() && !finding.what.is_empty(), "{finding:?}");
    }
}

#[test]
fn a_box_without_hugepages_is_warned_and_stays_fit() {
    let tree = Tree::healthy();
    tree.put("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
    tree.put("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "0\n");
    let diagnosis = tree.examine();
    assert_eq!(
        says(&diagnosis, "hugepages"),
        (Status::Warn, "no hugepages", "sudo sysctl vm.nr_hugepages=384")
    );
    assert!(diagnosis.fit.vdev && !diagnosis.fit.nic);
}

#[test]
fn hugepages_are_reported_by_size_and_by_node() {
    let tree = Tree::healthy();
    tree.put("sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "2\n");
    tree.put("sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages", "1\n");
    for (node, free) in [(0, 500), (1, 12)] {
        let dir = format!("sys/devices/system/node/node{node}/hugepages/hugepages-2048kB");
        tree.put(&format!("{dir}/free_hugepages"), &format!("{free}\n"));
    }
    let diagnosis = tree.examine();
    let what = "512 of 512 free of 2048 kB; 1 of 2 free of 1048576 kB; node0 1000 MiB free; \
                node1 24 MiB free";
    assert_eq!(says(&diagnosis, "hugepages"), (Status::Ok, what, ""));
}

#[test]
fn too_little_memory_makes_vdev_unfit() {
    let tree = Tree::healthy();
    tree.remove("sys/kernel");
    tree.put("proc/meminfo", "MemTotal: 500000 kB\nMemAvailable: 204800 kB\n");
    let diagnosis = tree.examine();
    let (status, what, mend) = says(&diagnosis, "memory.available");
    assert_eq!(status, Status::Fail);
    assert_eq!(what, "too little memory: 200 MiB available, 768 MiB needed");
    assert!(mend.starts_with("ps -eo pid,rss,comm"), "{mend}");
    assert!(!diagnosis.fit.vdev);
}

#[test]
fn memory_that_hugepages_hold_is_given_back_by_the_mending_command() {
    let tree = Tree::healthy();
    tree.put("sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "300\n");
    tree.put("proc/meminfo", "MemAvailable: 409600 kB\n");
    let diagnosis = tree.examine();
    let (status, _, mend) = says(&diagnosis, "memory.available");
    assert_eq!((status, mend), (Status::Fail, "sudo sysctl vm.nr_hugepages=0"));
}

#[test]
fn a_tight_cgroup_is_found_in_both_versions_and_in_ancestors() {
    let v2 = Tree::healthy();
    v2.put("proc/self/cgroup", "0::/a/b\n");
    v2.put("sys/fs/cgroup/a/memory.max", "314572800\n");
    v2.put("sys/fs/cgroup/a/memory.current", "209715200\n");
    v2.put("sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 104857600\n");
    v2.put("sys/fs/cgroup/a/b/memory.max", "max\n");
    let diagnosis = v2.examine();
    let (status, what, mend) = says(&diagnosis, "memory.cgroup");
    assert_eq!(status, Status::Fail);
    assert!(what.contains("200 MiB below the limit in /sys/fs/cgroup/a/memory.max"), "{what}");
    assert!(mend.contains("sudo tee /sys/fs/cgroup/a/memory.max"), "{mend}");
    assert!(!diagnosis.fit.vdev);

    let unlimited = Tree::healthy();
    unlimited.put("proc/self/cgroup", "4:memory:/\n");
    let file = "sys/fs/cgroup/memory/memory.limit_in_bytes";
    unlimited.put(file, "9223372036854771712\n");
    assert!(says(&unlimited.examine(), "memory.cgroup").1.starts_with("no limit"));

    let v1 = Tree::healthy();
    v1.put("proc/self/cgroup", "4:memory:/c\n1:cpu:/\n");
    v1.put("sys/fs/cgroup/memory/memory.limit_in_bytes", "104857600\n");
    assert_eq!(says(&v1.examine(), "memory.cgroup").0, Status::Fail);
}

#[test]
fn a_limited_address_space_names_ulimit() {
    let tree = Tree::healthy();
    tree.put("proc/self/limits", "Max address space      1073741824   unlimited   bytes\n");
    let diagnosis = tree.examine();
    let (status, what, mend) = says(&diagnosis, "memory.address_space");
    assert_eq!((status, mend), (Status::Fail, "ulimit -v unlimited"));
    assert!(what.starts_with("limited to 1024 MiB"), "{what}");
}

#[test]
fn the_room_for_a_simulation_is_what_its_limits_leave() {
    let tree = Tree::healthy();
    assert_eq!(room_bytes(&tree.machine()), Some(6_000_000 << 10));
    tree.put("proc/self/limits", "Max address space      1073741824   unlimited   bytes\n");
    tree.put("proc/self/status", "Name:\theadrace\nVmSize:\t  524288 kB\n");
    assert_eq!(room_bytes(&tree.machine()), Some(512 << 20));
}

#[test]
fn a_box_without_drivers_names_the_package_of_its_system() {
    let tree = Tree::healthy();
    tree.remove("usr/lib/x86_64-linux-gnu/dpdk");
    let diagnosis = tree.examine();
    let (status, what, mend) = says(&diagnosis, "dpdk.plugins");
    assert_eq!((status, mend), (Status::Fail, "sudo apt-get install libdpdk-dev"));
    assert!(what.contains("pmds-"), "{what}");
    let (status, what, mend) = says(&diagnosis, "dpdk.pmd.net_ring");
    assert_eq!((status, what), (Status::Fail, "driver net_ring is missing"));
    assert_eq!(mend, "sudo apt-get install '^librte-net-ring[0-9]*'");
    assert_eq!(says(&diagnosis, "dpdk.library").0, Status::Ok);
    assert!(!diagnosis.fit.vdev);

    tree.put("etc/os-release", "ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n");
    assert_eq!(says(&tree.examine(), "dpdk.plugins").2, "sudo dnf install dpdk");
}

#[test]
fn one_missing_driver_that_is_not_needed_is_a_warning() {
    let tree = Tree::healthy();
    tree.remove("usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0/librte_net_tap.so.23.0");
    let diagnosis = tree.examine();
    assert_eq!(says(&diagnosis, "dpdk.pmd.net_tap").0, Status::Warn);
    assert!(diagnosis.fit.vdev);
}

#[test]
fn a_missing_or_old_library_is_named() {
    let tree = Tree::healthy();
    tree.remove("usr/lib/x86_64-linux-gnu/librte_eal.so.23.0");
    assert_eq!(says(&tree.examine(), "dpdk.library").1, "libdpdk is not installed");
    tree.put("usr/lib/x86_64-linux-gnu/librte_eal.so.21.2", "");
    let diagnosis = tree.examine();
    let (status, what, _) = says(&diagnosis, "dpdk.library");
    assert_eq!(status, Status::Fail);
    assert!(what.contains("too old"), "{what}");
}

#[test]
fn a_program_built_without_dpdk_says_how_to_build_it_with() {
    let tree = Tree::healthy();
    let mut machine = tree.machine();
    machine.has_dpdk = false;
    let diagnosis = examine(&machine);
    assert!(says(&diagnosis, "dpdk.built_with").2.ends_with("&& cargo build --release"));
    assert!(!diagnosis.fit.vdev);
}

#[test]
fn a_plain_user_learns_which_capabilities_and_directories_are_missing() {
    let tree = Tree::healthy();
    let status = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000000000000\n";
    tree.put("proc/self/status", status);
    tree.put("proc/self/limits", "Max locked memory     65536    65536   bytes\n");
    let mut machine = tree.machine();
    machine.runtime_dir = Some("/run/user/1000".to_owned());
    let diagnosis = examine(&machine);
    let user = says(&diagnosis, "user");
    assert_eq!(user, (Status::Warn, "not root: user 1000", "sudo headrace doctor"));
    let (status, _, mend) = says(&diagnosis, "user.cap_net_admin");
    assert_eq!(status, Status::Warn);
    assert!(mend.starts_with("sudo setcap cap_net_admin,"), "{mend}");
    assert!(says(&diagnosis, "user.runtime_dir").1.ends_with("which is not there"));
    assert_eq!(says(&diagnosis, "memory.locked").0, Status::Warn);
    let (status, _, mend) = says(&diagnosis, "device.tun");
    assert_eq!((status, mend), (Status::Warn, "sudo chmod 666 /dev/net/tun"));
    assert!(diagnosis.fit.vdev, "a plain user runs vdev over net_ring");
}

#[test]
fn a_plugin_directory_that_all_users_may_write_is_refused_as_dpdk_does() {
    use std::os::unix::fs::PermissionsExt as _;
    let tree = Tree::healthy();
    let dir = "usr/lib/x86_64-linux-gnu/dpdk/pmds-23.0";
    let path: &Path = &tree.0.path().join(dir);
    fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    let diagnosis = tree.examine();
    let mend = format!("sudo chmod o-w /{dir}");
    assert_eq!(says(&diagnosis, "dpdk.plugins").2, mend);
}

#[test]
fn processors_without_what_dpdk_needs_are_named() {
    let tree = Tree::healthy();
    tree.put("proc/cpuinfo", "flags\t: fpu sse\n");
    tree.put("proc/self/cgroup", "2:cpu,cpuacct:/job\n0::/a/b\n");
    tree.put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    tree.put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
    tree.put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    tree.put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "500000\n");
    tree.put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    tree.put("proc/self/status", "Uid:\t0\t0\t0\t0\nCpus_allowed_list:\t2\n");
    let diagnosis = tree.examine();
    assert_eq!(says(&diagnosis, "cpu.simd").0, Status::Fail);
    assert_eq!(says(&diagnosis, "cpu.tsc").0, Status::Warn);
    let (_, what, mend) = says(&diagnosis, "cores.quota");
    assert!(what.contains("150 % of one core"), "{what}");
    assert_eq!(mend, "echo max | sudo tee /sys/fs/cgroup/a/cpu.max");
    let (_, what, mend) = says(&diagnosis, "cores");
    assert_eq!((what, mend), ("1 of 4 cores may be used", "taskset -pc 0-3 $$"));
}

#[test]
fn cards_that_no_dpdk_driver_holds_name_the_binding_command() {
    let tree = Tree::healthy();
    tree.put("sys/bus/pci/devices/0000:01:00.0/class", "0x020000\n");
    tree.put("sys/bus/pci/devices/0000:02:00.0/class", "0x030000\n");
    let diagnosis = tree.examine();
    let (_, what, mend) = says(&diagnosis, "nic.cards");
    assert_eq!(what, "none is bound to vfio-pci: 0000:01:00.0 (no driver)");
    assert!(mend.starts_with("sudo dpdk-devbind.py --bind=vfio-pci 0000:01:00.0 "), "{mend}");
}

#[test]
fn both_reports_have_the_same_findings() {
    let diagnosis = Tree::healthy().examine();
    let (mut text, mut json) = (Vec::new(), Vec::new());
    write_text(&diagnosis, &mut text).unwrap();
    write_json(&diagnosis, &mut json).unwrap();
    let text = String::from_utf8(text).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["schema"], 1);
    assert_eq!(json["fit"]["vdev"], true);
    let findings = json["findings"].as_array().unwrap();
    assert_eq!(findings.len(), diagnosis.findings.len());
    for finding in findings {
        assert!(text.contains(finding["id"].as_str().unwrap()));
        for key in ["status", "what", "why", "mend"] {
            assert!(finding.get(key).is_some(), "{key} in {finding}");
        }
    }
}
