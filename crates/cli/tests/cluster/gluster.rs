//! GlusterFS over three bricks, and the options without which a host does not see at once what another did.

use crate::hosts::{Host, SHARED};
use crate::real::until;

/// The volume's name there.
const NAME: &str = "shared";

pub const BRICKS: [&str; 3] = ["/run/brick/1", "/run/brick/2", "/run/brick/3"];
/// And that of one with the options that volumes have by themselves.
const PLAIN: &str = "plain";

/// File with the pid of the first mount's client on a host.
pub const CLIENT_PID: &str = "/run/gluster/client.pid";

/// Options of the volume. Without each of the first three a test of `facts` fails; see
/// `docs/results/appendix.md`.
const OPTIONS: &[(&str, &str)] = &[
    // Attributes, sizes and names are remembered by each client.
    ("performance.stat-prefetch", "off"),
    // The bytes of small files are.
    ("performance.quick-read", "off"),
    // A write is acknowledged before a brick has it.
    ("performance.write-behind", "off"),
    // Bytes are kept or read ahead of what others write, files opened at their first use. No test needed these.
    ("performance.io-cache", "off"),
    ("performance.read-ahead", "off"),
    ("performance.readdir-ahead", "off"),
    ("performance.open-behind", "off"),
    // A server that does not answer is over after this many seconds; the default is 42.
    ("network.ping-timeout", "5"),
    // The kernel sends bytes of a closed connection for half a minute. No more than the 3 s after which a client
    // connects again, so that a failed write replaces no later one.
    ("client.tcp-user-timeout", "3"),
];

fn gluster(server: &Host, words: &[&str]) -> String {
    server.must("gluster", &[&["--mode=script"], words].concat())
}

/// Starts it on the server, and mounts it on the hosts.
pub fn start(server: &Host, hosts: &[Host]) {
    server.daemon("glusterd", &["-p", "/run/gluster/glusterd.pid", "-L", "ERROR"]);
    until("glusterd answers", || server.run("gluster", &["--mode=script", "volume", "list"]).status.success());
    let bricks = BRICKS.map(|brick| format!("{}:{brick}", server.address()));
    let bricks = bricks.each_ref().map(String::as_str);
    gluster(server, &[&["volume", "create", NAME, "transport", "tcp"][..], &bricks, &["force"]].concat());
    // All in one command, each takes a while.
    let options: Vec<&str> = OPTIONS.iter().flat_map(|(option, value)| [*option, *value]).collect();
    gluster(server, &[&["volume", "set", NAME][..], &options].concat());
    gluster(server, &["volume", "start", NAME]);
    let address = server.address();
    std::thread::scope(|scope| {
        hosts.iter().for_each(|host| drop(scope.spawn(|| mount(host, &address, SHARED, CLIENT_PID))))
    });
}

/// Mounts it without caches of names and bytes in the kernel. `mount` cannot pass on
/// `fopen-keep-cache=off`; without that option a file that is opened, not created, goes through the page cache in spite
/// of `direct-io-mode`.
pub fn mount(host: &Host, server: &str, at: &str, pid_file: &str) {
    let names = ["--entry-timeout=0"];
    let bytes = ["--direct-io-mode=enable", "--fopen-keep-cache=off"];
    let from = [format!("--volfile-server={server}"), format!("--volfile-id=/{NAME}")];
    let from = from.each_ref().map(String::as_str);
    let pid = format!("--pid-file={pid_file}");
    host.daemon("glusterfs", &[&names[..], &bytes, &from, &[&pid, at]].concat());
}

/// The brick that has a file, by the path of the file in the volume.
pub fn brick_of(server: &Host, path: &str) -> &'static str {
    // Other bricks may have an empty file of that name that points to the right brick.
    let has = |brick: &&&str| server.run("test", &["-s", &format!("{brick}/{path}")]).status.success();
    BRICKS.iter().find(has).expect("a brick has it")
}

/// Ends the server of a brick as a crash would.
pub fn kill_brick(server: &Host, brick: &str) {
    let pid_file = format!("/run/gluster/vols/{NAME}/{}{}.pid", server.address(), brick.replace('/', "-"));
    server.must("sh", &["-c", &format!("kill -9 $(cat {pid_file})")]);
}

/// Starts what was killed.
pub fn restart_bricks(server: &Host) {
    server.daemon("gluster", &["--mode=script", "volume", "start", NAME, "force"]);
}

/// A second volume beside the first on the same file systems, with the options that it has by itself, mounted as a user
/// mounts it.
pub fn start_plain(server: &Host, hosts: &[Host], at: &str) {
    let bricks = BRICKS.map(|brick| format!("{}:{brick}.plain", server.address()));
    let bricks = bricks.each_ref().map(String::as_str);
    gluster(server, &[&["volume", "create", PLAIN, "transport", "tcp"][..], &bricks, &["force"]].concat());
    gluster(server, &["volume", "start", PLAIN]);
    for host in hosts {
        host.must("mkdir", &["-p", at]);
        host.daemon("mount", &["-t", "glusterfs", &format!("{}:/{PLAIN}", server.address()), at]);
    }
}
