//! Staging that is cut off in the middle: the device fills up, the user has enough, the network goes. Each time one
//! clear message, nothing half there, and the same command goes on.

use crate::full::{Small, fill};
use crate::real::{Volume, code, err, noise, out, until, until_within};
use crate::server::{self, Nginx};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

fn begin(volume: &Volume, uri: &str) -> Child {
    let mut command = Command::new(&volume.binary);
    command.env("ENTREPOT_VOLUME", &volume.toml).args(["stage", "in", uri, "f"]).current_dir(&volume.at);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs")
}

/// A staging that has come some of its way; how it ended.
fn ended(stage: Child) -> Output {
    stage.wait_with_output().expect("it ends")
}

fn says(output: &Output, words: &[&str]) {
    assert!(output.status.signal().is_none(), "{:?}", output.status);
    for word in words {
        assert!(err(output).contains(word), "{word:?} is not in {}", err(output));
    }
}

fn nothing_is_there(volume: &Volume) {
    assert_eq!(fs::read_dir(&volume.at).expect("ls").count(), 0, "nothing half there");
}

/// Runs the command again, which brings the rest; returns the bytes fetched.
fn goes_on(volume: &Volume, uri: &str, data: &[u8]) -> u64 {
    let staged = volume.json(&["stage", "in", uri, "f"]);
    assert!(fs::read(volume.at.join("f")).expect("read") == data);
    volume.ok(&["check"]);
    staged["fetched_bytes"].as_u64().expect("bytes")
}

/// [S-049]
#[test]
fn space_that_ends_in_the_middle() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(small) = Small::new(64) else { return };
    let targets = |toml: String| {
        ["fast0", "fast1", "fast2", "capacity0", "capacity1", "capacity2"].iter().fold(toml, |toml, name| {
            let dir = small.dir.join(name);
            fs::create_dir(&dir).expect("directory");
            toml.replace(&format!(r#""targets/{name}""#), &format!("{dir:?}"))
        })
    };
    let Some(volume) = Volume::up_with(targets) else { return };
    let (data, uri) = (server::data(40 << 20, 1), nginx.uri("slow/f"));
    fs::write(nginx.root().join("f"), &data).expect("write");
    let stage = begin(&volume, &uri);
    until("it has begun", || nginx.sent_bytes() > 4 << 20);
    let ballast = small.dir.join("ballast");
    fill(&ballast, &noise(1 << 20));
    let ended = ended(stage);
    assert_eq!(code(&ended), 1, "{}", out(&ended));
    says(&ended, &[&uri, "as f:", "No space left", "no file was put in place", "remove files"]);
    nothing_is_there(&volume);
    let list = out(&volume.run(&["target", "list"]));
    assert!(!list.contains("failed") && !list.contains("suspect"), "full is not ill: {list}");
    fs::remove_file(ballast).expect("remove");
    goes_on(&volume, &uri, &data);
}

/// [S-049]
#[test]
fn ctrl_c_in_the_middle() {
    let Some(nginx) = Nginx::start() else { return };
    let Some(volume) = Volume::up() else { return };
    let (data, uri) = (server::data(100_000_000, 2), nginx.uri("slow/f"));
    fs::write(nginx.root().join("f"), &data).expect("write");
    let stage = begin(&volume, &uri);
    until("some of it came", || nginx.sent_bytes() > 20_000_000);
    let pid = rustix::process::Pid::from_child(&stage);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("signal");
    let ended = ended(stage);
    assert_eq!(code(&ended), 130);
    says(&ended, &["interrupted: completed work is kept", "run the same command again"]);
    nothing_is_there(&volume);
    // At once: the daemon may not even have noticed.
    let fetched = goes_on(&volume, &uri, &data);
    assert!(fetched < data.len() as u64, "only the rest: {fetched}");
}

/// A network of one server, beyond a pair of interfaces; taken away at the end.
struct Far {
    name: String,
    server: Option<Child>,
    dir: tempfile::TempDir,
}

impl Far {
    fn start() -> Option<Far> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: needs root to make a network");
            return None;
        }
        if !Path::new("/usr/sbin/nginx").exists() {
            eprintln!("skipped: nginx is not installed");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("entrepot-far").tempdir().expect("temp dir");
        fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("chmod");
        let mut far = Far { name: format!("epf{}", std::process::id()), server: None, dir };
        let name = far.name.clone();
        let made = far.ip(&["netns", "add", &name]);
        if !made.status.success() {
            eprintln!("skipped: no network namespace: {}", err(&made));
            return None;
        }
        let (here, there) = (format!("{name}h"), format!("{name}f"));
        for words in [
            &["link", "add", &here, "type", "veth", "peer", "name", &there][..],
            &["link", "set", &there, "netns", &name],
            &["addr", "add", "10.211.7.1/30", "dev", &here],
            &["link", "set", &here, "up"],
            &["-n", &name, "addr", "add", "10.211.7.2/30", "dev", &there],
            &["-n", &name, "link", "set", &there, "up"],
        ] {
            let done = far.ip(words);
            assert!(done.status.success(), "{words:?}: {}", err(&done));
        }
        let path = far.dir.path().display();
        let text = format!(
            "user root; daemon off; master_process off; pid {path}/pid; error_log {path}/log;\n\
             events {{}}\nhttp {{ log_format sent $body_bytes_sent; access_log {path}/access sent;\n\
             server {{ listen 10.211.7.2:8080; root {path}; limit_rate 4m; }} }}\n"
        );
        let conf = far.dir.path().join("conf");
        fs::write(&conf, text).expect("write");
        let mut nginx = Command::new("ip");
        nginx.args(["netns", "exec", &far.name, "nginx", "-e"]).arg(far.dir.path().join("log")).arg("-c").arg(conf);
        far.server = Some(nginx.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("nginx"));
        until("it answers", || std::net::TcpStream::connect("10.211.7.2:8080").is_ok());
        Some(far)
    }

    fn ip(&self, words: &[&str]) -> Output {
        Command::new("ip").args(words).output().expect("ip")
    }

    /// Pulls the cable at the far end, or puts it back.
    fn cable(&self, state: &str) {
        let done = self.ip(&["-n", &self.name, "link", "set", &format!("{}f", self.name), state]);
        assert!(done.status.success(), "{}", err(&done));
    }

    fn sent_bytes(&self) -> u64 {
        let log = fs::read_to_string(self.dir.path().join("access")).unwrap_or_default();
        log.lines().filter_map(|line| line.parse::<u64>().ok()).sum()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            let _ = server.wait();
        }
        self.ip(&["link", "del", &format!("{}h", self.name)]);
        self.ip(&["netns", "del", &self.name]);
    }
}

/// [S-049]
#[test]
fn the_network_goes_in_the_middle() {
    let Some(far) = Far::start() else { return };
    let patience = |toml: String| toml.replace(r#"# source_patience = "30s""#, r#"source_patience = "1s""#);
    let Some(volume) = Volume::up_with(patience) else { return };
    let (data, uri) = (server::data(60_000_000, 3), "http://10.211.7.2:8080/f");
    fs::write(far.dir.path().join("f"), &data).expect("write");
    let stage = begin(&volume, uri);
    until("some of it came", || far.sent_bytes() > 20_000_000);
    far.cable("down");
    let ended = ended(stage);
    assert_eq!(code(&ended), 1, "{}", out(&ended));
    says(&ended, &[uri, "fetched parts are kept", "--retry"]);
    nothing_is_there(&volume);

    // A job that brings it is cancelled while nothing comes: it leaves nothing.
    far.cable("up");
    until_within(30, "it answers again", || std::net::TcpStream::connect("10.211.7.2:8080").is_ok());
    let script = volume.dir.path().join("job.sh");
    let text = format!("#!/bin/sh\n#STAGEIN entrepot stage in {uri} {}/of-job\ntrue\n", volume.at.display());
    fs::write(&script, text).expect("write");
    let sent = far.sent_bytes();
    volume.ok(&["job", "submit", script.to_str().expect("UTF-8")]);
    until("some of it came", || far.sent_bytes() > sent + 4_000_000);
    far.cable("down");
    volume.ok(&["job", "cancel", "1"]);
    let staging = volume.toml.parent().expect("a directory").join("namespace/staging");
    until("the job is over", || out(&volume.run(&["job", "show", "1"])).contains("cancelled"));
    assert!(!volume.at.join("of-job").exists());

    far.cable("up");
    until_within(30, "it answers again", || std::net::TcpStream::connect("10.211.7.2:8080").is_ok());
    let fetched = goes_on(&volume, uri, &data);
    assert!(fetched < data.len() as u64, "only the rest: {fetched}");
    until("nothing is half there", || fs::read_dir(&staging).expect("staging").count() == 0);
}
