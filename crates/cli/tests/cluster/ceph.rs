//! CephFS instead of GlusterFS, by hand: `ENTREPOT_ENGINE=ceph`, with the packages ceph-mon, ceph-mgr, ceph-osd,
//! ceph-mds and ceph-fuse.
//!
//! Not all facts hold on it: see `docs/internals/testing.md`.

use crate::hosts::{Host, SHARED};

/// One daemon of each kind, whose disk is memory; clients that are believed, and keep no written bytes: those would be
/// lost with a client. Through the page cache clients have old bytes, and leave zeros where records share a page.
const SETTINGS: &str = "auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = 1
osd pool default min size = 1
mon allow pool size one = true
osd crush chooseleaf type = 0
osd objectstore = memstore
memstore device bytes = 2147483648
log file = /run/log/$name.log
mon data = /run/ceph-$name
osd data = /run/ceph-$name
mgr data = /run/ceph-$name
mds data = /run/ceph-$name
client oc max dirty = 0
fuse disable pagecache = true
";

/// Without one the size that a client shows shrinks as pools fill, and a volume takes names for missing whose servers
/// are away.
const QUOTA: &str = "1500000000";

/// Starts the monitor and the disk.
const STORE: &str = "
monmaptool --create --addv a [v2:$address:3300,v1:$address:6789] --fsid $fsid /run/monmap
ceph-mon --mkfs -i a --monmap /run/monmap
ceph-mon -i a
mkdir -p /run/ceph-osd.0 /run/ceph-mgr.a /run/ceph-mds.a
ceph osd new $fsid
ceph-osd -i 0 --mkfs --osd-uuid $fsid
ceph osd crush add osd.0 1.0 host=server root=default
ceph-osd -i 0
";

/// Starts the file system.
const FILES: &str = "
ceph-mgr -i a
ceph osd pool create names 4
ceph osd pool create bytes 4
ceph fs new shared names bytes
ceph-mds -i a
until ceph mds stat | grep -q up:active; do sleep 0.1; done
ceph fs set shared session_timeout 30
";

/// Whether `ENTREPOT_ENGINE` requests Ceph.
pub fn is_wanted() -> bool {
    std::env::var("ENTREPOT_ENGINE").is_ok_and(|engine| engine == "ceph")
}

/// Starts it on the server, and mounts it on the hosts.
pub fn start(server: &Host, hosts: &[Host]) {
    let (address, fsid) = (server.address(), "5b0e0a51-6a77-4b6b-8f0e-3a1e1f1f0c0d");
    let place = format!("[global]\nfsid = {fsid}\nmon host = [v2:{address}:3300,v1:{address}:6789]\n");
    let network = "public network = 10.79.0.0/24\n";
    let file = format!(
        "mount -t tmpfs tmpfs /etc/ceph; mkdir -p /run/ceph; echo '{place}{network}{SETTINGS}' >/etc/ceph/ceph.conf"
    );
    server.must("bash", &["-ec", &file]);
    // Each has the time of a command: under load one does not have it for both.
    for script in [STORE, FILES] {
        server.daemon("bash", &["-ec", &format!("address={address} fsid={fsid}\n{script}")]);
    }
    let mount = |host: &Host| {
        host.must("bash", &["-ec", &file]);
        mount(host, SHARED, "/run/ceph/client.pid");
    };
    let (first, others) = hosts.split_first().expect("hosts");
    mount(first);
    first.must("setfattr", &["-n", "ceph.quota.max_bytes", "-v", QUOTA, SHARED]);
    std::thread::scope(|scope| {
        for host in others {
            scope.spawn(move || mount(host));
        }
    });
}

/// Mounts it on a host that has its `ceph.conf`.
pub fn mount(host: &Host, at: &str, pid_file: &str) {
    host.daemon("ceph-fuse", &["--pid-file", pid_file, at]);
}
