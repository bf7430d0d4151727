//! Recovery against a plain range download of the same bytes, and the delay of the first lost stripe against one fetch.
//!
//! A loopback nginx holds the source. For each round a file is staged in, a target is failed, and either `check
//! --repair` fetches what was lost, or a reader meets the loss. The plain download asks the same server for as many
//! bytes in ranges of one stripe, over as many connections, and throws them away into a file beside the targets.

use super::report::Report;
use super::subject::{entrepot_volume, ok};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

const STRIPE: u64 = 1 << 20;
const CONNECTIONS: u64 = 4;

/// Measures and adds the facts; leaves a line instead where nginx is missing.
pub fn measure(base: &Path, rounds: usize, report: &mut Report) {
    let Some(server) = Nginx::start(base) else {
        println!("bench: no nginx here, recovery is left out");
        return;
    };
    let volume = entrepot_volume(base, super::ENTREPOT.as_ref(), "recovery", "");
    let toml = base.join("volume-recovery/volume.toml");
    for mib in [64_u64, 256] {
        fill(&server.root.join("data"), mib);
        let (mut ratios, mut delays, mut fetches, mut shares) = (vec![], vec![], vec![], vec![]);
        for round in 0..rounds {
            let offline = one(&server, volume.dir(), &toml, &format!("off{mib}-{round}"), true);
            let plain = download(&server, offline.fetched, base);
            ratios.push(plain / offline.secs);
            shares.push(offline.fetched as f64 / (mib * STRIPE) as f64);
            let reader = one(&server, volume.dir(), &toml, &format!("fly{mib}-{round}"), false);
            delays.push(reader.secs);
            fetches.push(download(&server, STRIPE, base));
        }
        report.fact(format!("repair rate / plain range download, {mib} MiB file"), median(&mut ratios), "");
        report.fact(format!("share of the file fetched, {mib} MiB file"), median(&mut shares), "(lost: 1/4)");
        report.fact(format!("slowest 1 MiB read during recovery, {mib} MiB file"), median(&mut delays) * 1e3, "ms");
        report.fact(format!("one plain fetch of a stripe, {mib} MiB file"), median(&mut fetches) * 1e3, "ms");
    }
}

struct Outcome {
    secs: f64,
    fetched: u64,
}

/// Stages a file in, fails the target of its second object, and repairs it offline or by reading it.
fn one(server: &Nginx, at: &Path, toml: &Path, name: &str, offline: bool) -> Outcome {
    let entrepot = || {
        let mut command = std::process::Command::new(super::ENTREPOT);
        command.arg("--volume").arg(toml);
        command
    };
    let path = at.join(name);
    ok(entrepot().args(["stage", "in"]).arg(server.uri("data")).arg(&path));
    let layout = ok(entrepot().args(["layout", "--output", "json"]).arg(&path));
    let layout: serde_json::Value = serde_json::from_str(&layout).expect("layout prints json");
    let target =
        layout["mirrors"][0]["segments"][0]["objects"][1]["target"].as_str().expect("a target's name").to_string();
    ok(entrepot().args(["target", "fail", &target]));
    let outcome = if offline {
        let start = Instant::now();
        let out = ok(entrepot().args(["check", "--repair", "--output", "json"]).arg(&path));
        let secs = start.elapsed().as_secs_f64();
        let out: serde_json::Value = serde_json::from_str(&out).expect("check prints json");
        Outcome { secs, fetched: out["repaired_bytes"].as_u64().expect("repaired_bytes") }
    } else {
        let file = File::open(&path).expect("open");
        let size = file.metadata().expect("stat").len();
        let mut block = vec![0_u8; STRIPE as usize];
        let mut slowest = Duration::ZERO;
        for offset in (0..size).step_by(STRIPE as usize) {
            let start = Instant::now();
            file.read_exact_at(&mut block, offset).expect("read under recovery");
            slowest = slowest.max(start.elapsed());
        }
        Outcome { secs: slowest.as_secs_f64(), fetched: 0 }
    };
    fs::remove_file(&path).expect("remove");
    ok(entrepot().args(["target", "restore", &target]));
    outcome
}

/// Seconds for a plain download of `bytes`, in ranges of one stripe, into a file.
fn download(server: &Nginx, bytes: u64, base: &Path) -> f64 {
    let path = base.join("plain");
    let file = File::create(&path).expect("create");
    let stripes = bytes.div_ceil(STRIPE);
    let connections = CONNECTIONS.min(stripes).max(1);
    let start = Instant::now();
    thread::scope(|scope| {
        for c in 0..connections {
            let file = &file;
            scope.spawn(move || {
                let stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connect");
                let mut replies = BufReader::with_capacity(1 << 16, stream.try_clone().expect("clone"));
                let (mut stream, mut block) = (stream, vec![0_u8; STRIPE as usize]);
                for k in (c..stripes).step_by(connections as usize) {
                    let first = k * STRIPE;
                    let request =
                        format!("GET /data HTTP/1.1\r\nHost: x\r\nRange: bytes={first}-{}\r\n\r\n", first + STRIPE - 1);
                    stream.write_all(request.as_bytes()).expect("request");
                    let mut line = String::new();
                    while line != "\r\n" {
                        line.clear();
                        replies.read_line(&mut line).expect("header");
                    }
                    replies.read_exact(&mut block).expect("body");
                    file.write_all_at(&block, first).expect("write");
                }
            });
        }
    });
    file.sync_all().expect("sync");
    start.elapsed().as_secs_f64()
}

fn fill(path: &Path, mib: u64) {
    let mut file = File::create(path).expect("create");
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut block = vec![0_u8; STRIPE as usize];
    for _ in 0..mib {
        for word in block.chunks_exact_mut(8) {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            word.copy_from_slice(&seed.to_le_bytes());
        }
        file.write_all(&block).expect("write");
    }
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// An nginx of our own on a free loopback port, ended by its pid.
struct Nginx {
    root: std::path::PathBuf,
    port: u16,
    child: Child,
}

impl Nginx {
    fn start(base: &Path) -> Option<Nginx> {
        let home = base.join("nginx");
        let root = home.join("root");
        fs::create_dir_all(&root).expect("mkdir");
        let port = std::net::TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let h = home.display();
        let user = if rustix::process::geteuid().is_root() { "user root;\n" } else { "" };
        let conf = format!(
            "{user}daemon off;\nworker_processes 1;\npid {h}/pid;\nerror_log {h}/error.log;\nevents {{}}\nhttp {{\n\
             access_log off; sendfile on;\nclient_body_temp_path {h}/b; proxy_temp_path {h}/p; fastcgi_temp_path {h}/f;\n\
             uwsgi_temp_path {h}/u; scgi_temp_path {h}/s;\nserver {{ listen 127.0.0.1:{port}; root {}; }}\n}}\n",
            root.display()
        );
        let path = home.join("nginx.conf");
        fs::write(&path, conf).expect("write");
        let child = Command::new("/usr/sbin/nginx").arg("-c").arg(&path).spawn().ok()?;
        let server = Nginx { root, port, child };
        let limit = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < limit, "nginx did not start, see {}/error.log", home.display());
            thread::sleep(Duration::from_millis(20));
        }
        Some(server)
    }

    fn uri(&self, name: &str) -> String {
        format!("http://127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // Asked politely, so that its worker ends with it.
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}
