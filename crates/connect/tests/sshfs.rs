//! Connections over sshfs to a real sshd on loopback: another engine than GlusterFS, with inode numbers of its own per
//! mount.

#[path = "../../source/tests/server/port.rs"]
mod port;
#[allow(dead_code)]
mod world;

use connect::Recipe;
use policy::connections::Policy;
use std::fs::{self, OpenOptions};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use world::{Behind, clients, options};

/// An sshd with its own keys, which ends with the test.
struct Sshd {
    dir: tempfile::TempDir,
    port: u16,
    running: Child,
}

impl Sshd {
    fn start() -> Option<Sshd> {
        let there = |tool: &str| {
            Command::new("sh").args(["-c", &format!("command -v {tool}")]).output().is_ok_and(|o| o.status.success())
        };
        let sshd = "/usr/sbin/sshd";
        let missing = ["sshfs", "ssh", "ssh-keygen", sshd].into_iter().find(|tool| !there(tool));
        if !rustix::process::geteuid().is_root() || missing.is_some() {
            eprintln!("skipped: root and sshfs are needed; missing: {missing:?}");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().display();
        for key in ["host", "user"] {
            let file = dir.path().join(key);
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&file).status();
            assert!(made.unwrap().success());
        }
        let port = port::free_port();
        drop(fs::create_dir("/run/sshd")); // where sshd separates its privileges
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {path}/host\nPidFile {path}/pid\nUsePAM no\n\
             AuthorizedKeysFile {path}/user.pub\nStrictModes no\nPermitRootLogin yes\n\
             PasswordAuthentication no\nSubsystem sftp internal-sftp\n"
        );
        fs::write(dir.path().join("conf"), text).unwrap();
        let key = fs::read_to_string(dir.path().join("host.pub")).unwrap();
        fs::write(dir.path().join("known_hosts"), format!("[127.0.0.1]:{port} {key}")).unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        let mut command = Command::new(sshd);
        command.args(["-D", "-e", "-f"]).arg(dir.path().join("conf")).stderr(Stdio::null());
        let running = command.spawn().unwrap();
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "sshd does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some(Sshd { dir, port, running })
    }

    fn behind(&self, connections: u16, servers: &[&str]) -> Result<Option<Behind>, node::control::Problem> {
        let path = self.dir.path();
        let option = |name: &str, value: String| format!("{name}={value}");
        let recipe = Recipe {
            kind: "sshfs".into(),
            servers: servers.iter().map(|dir| format!("root@127.0.0.1:{}/{dir}", path.display())).collect(),
            options: vec![
                option("port", self.port.to_string()),
                option("IdentityFile", path.join("user").display().to_string()),
                option("UserKnownHostsFile", path.join("known_hosts").display().to_string()),
            ],
        };
        let at = tempfile::tempdir().unwrap();
        Behind::try_start(at, recipe, options(connections, Policy::Load, "sshfs"))
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        drop(self.running.kill());
        drop(self.running.wait());
    }
}

fn block(number: u64) -> Vec<u8> {
    (0..256 << 10).map(|at: u64| (at * 7 + number * 13) as u8).collect()
}

#[test]
fn files_go_over_several_connections_and_survive_one() {
    let Some(sshd) = Sshd::start() else { return };
    let Some(behind) = sshd.behind(3, &["data"]).unwrap() else { return };
    let (at, below) = (behind.at().to_path_buf(), sshd.dir.path().join("data"));
    fs::create_dir(at.join("d")).unwrap();
    let open = |name: &str| OpenOptions::new().read(true).write(true).create_new(true).open(at.join(name)).unwrap();
    let file = open("d/a");
    assert!(OpenOptions::new().write(true).create_new(true).open(at.join("d/a")).is_err(), "O_EXCL");
    for number in 0..32 {
        if number == 12 {
            let pid = rustix::process::Pid::from_raw(clients(3)[1].expect("it is there")).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
        file.write_all_at(&block(number), number * (256 << 10)).unwrap();
    }
    fs::rename(at.join("d/a"), at.join("d/b")).unwrap();
    file.sync_all().unwrap();
    let there = fs::read(below.join("d/b")).unwrap();
    assert_eq!(there.len(), 32 * (256 << 10));
    assert!((0..32).all(|n| there[n as usize * (256 << 10)..][..256 << 10] == block(n)), "what the server has");
    behind.whole_again(1);
    let mut bytes = vec![0; 256 << 10];
    for number in 0..32 {
        file.read_exact_at(&mut bytes, number * (256 << 10)).unwrap();
        assert!(bytes == block(number), "block {number}");
    }
    file.set_len(5).unwrap();
    assert_eq!(fs::metadata(below.join("d/b")).unwrap().len(), 5);
    fs::remove_file(at.join("d/b")).unwrap();
    assert!(!below.join("d/b").exists());
}

#[test]
fn servers_that_show_other_directories_are_refused() {
    let Some(sshd) = Sshd::start() else { return };
    fs::create_dir(sshd.dir.path().join("other")).unwrap();
    let refused = match sshd.behind(2, &["data", "other"]) {
        Ok(None) => return, // skipped
        Ok(Some(_)) => panic!("they are two directories"),
        Err(error) => error.to_string(),
    };
    assert!(refused.contains("does not show the same directory"), "{refused}");
    assert_eq!(fs::read_dir(sshd.dir.path().join("data")).unwrap().count(), 0, "nothing is left behind");
}
