//! A volume that a real Prometheus watches, and the metrics of its daemon.

use crate::boards::{boards, filled_in, items, monitoring, queries, text};
use crate::real::{Volume, err, out, until_within};
use crate::server::port::free_port;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

/// Token of the endpoint in tests.
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A `volume.toml` with these lines in `[endpoint]`.
pub fn with(toml: &str, lines: &str) -> String {
    assert!(toml.contains("\n[endpoint]\n"), "it has the section: {toml}");
    toml.replace("\n[endpoint]\n", &format!("\n[endpoint]\n{lines}"))
}

/// Answer of an address: the status, and the body.
pub fn get(port: u16, path: &str, header: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("connects");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n{header}\r\n").expect("asked");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("answered");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    (head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), body.to_owned())
}

/// As part of an address.
fn in_an_address(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric();
    text.bytes().map(|byte| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}

struct Prometheus {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    /// Starts a Prometheus that scrapes that port each second, with our rules; `None` where it is not installed.
    fn start(target: u16) -> Option<Prometheus> {
        let (dir, port) = (tempfile::tempdir().expect("dir"), free_port());
        let config = format!(
            "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n- job_name: entrepot\n  authorization: {{ credentials: {TOKEN} }}\n  \
             static_configs: [{{ targets: [\"127.0.0.1:{target}\"] }}]\n",
            monitoring().join("alerts.yml").canonicalize().expect("the rules").display()
        );
        std::fs::write(dir.path().join("prometheus.yml"), config).expect("written");
        let mut command = Command::new("prometheus");
        command.args(["--config.file=prometheus.yml", "--storage.tsdb.path=data"]);
        command.arg(format!("--web.listen-address=127.0.0.1:{port}"));
        command.current_dir(dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
        match command.spawn() {
            Ok(child) => Some(Prometheus { child, port, _dir: dir }),
            Err(error) => {
                println!("skipped: no Prometheus here ({error})");
                None
            }
        }
    }

    /// Answer of Prometheus, with the status.
    fn ask(&self, what: &str) -> (u16, Value) {
        let (status, body) = get(self.port, &format!("/api/v1/{what}"), "");
        (status, serde_json::from_str(&body).unwrap_or_default())
    }

    /// The values of a query, each with its labels.
    fn query(&self, query: &str) -> Vec<(Value, f64)> {
        if TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            return Vec::new();
        }
        let answer = self.ask(&format!("query?query={}", in_an_address(query))).1;
        let rows = answer["data"]["result"].as_array().cloned().unwrap_or_default();
        let value = |row: &Value| row["value"][1].as_str().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
        rows.iter().map(|row| (row["metric"].clone(), value(row))).collect()
    }
}

/// [S-226]
#[test]
fn prometheus_sees_what_the_volume_does() {
    let dir = tempfile::tempdir().expect("dir");
    let (port, token) = (free_port(), dir.path().join("token"));
    std::fs::write(&token, format!("{TOKEN}\n")).expect("written");
    std::fs::set_permissions(&token, PermissionsExt::from_mode(0o600)).expect("mode");
    let section = format!("listen = \"127.0.0.1:{port}\"\ntoken_file = \"{}\"\n", token.display());
    let Some(volume) = Volume::up_with(|toml| with(&toml, &section)) else { return };
    std::fs::write(volume.at.join("secret-name"), vec![1; 5 << 20]).expect("write");
    assert_eq!(get(port, "/metrics", "").0, 401);
    assert_eq!(get(port, "/healthz", ""), (200, "ok\n".into()));
    let (_, text) = get(port, "/metrics", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert!(text.contains("entrepot_op_bytes_total") && !text.contains("secret"), "no path is shown: {text}");
    if let Some(prometheus) = Prometheus::start(port) {
        until_within(60, "it is asked", || prometheus.query("up{job=\"entrepot\"}").iter().any(|(_, up)| *up == 1.0));
        let written = prometheus.query("sum(entrepot_op_bytes_total{op=\"write\"})");
        assert!(written.first().is_some_and(|(_, bytes)| *bytes >= (5 << 20) as f64), "{written:?}");
        let ok = prometheus.query("sum(entrepot_target_state{state=\"ok\"})");
        let slowest = prometheus.query("histogram_quantile(0.99,sum by (le,op)(entrepot_op_seconds_bucket))");
        assert!(ok[0].1 >= 1.0 && slowest.iter().any(|(of, s)| of["op"] == "write" && *s > 0.0), "{slowest:?}");
        let labels = &prometheus.query("entrepot_leads")[0].0;
        assert!(labels["volume"] == "vol" && labels["node"].as_str().is_some_and(|host| !host.is_empty()), "{labels}");
    }
    let target = volume.json(&["target", "list"])["targets"][0]["name"].as_str().expect("a name").to_owned();
    volume.ok(&["target", "fail", &target]);
    let (code, text) = get(port, "/healthz", &format!("Authorization: Bearer {TOKEN}\r\n"));
    assert_eq!((code, text), (200, format!("degraded\ntarget {target} is failed\n")));
}

/// Each query of each board has an answer, and no rule fires on a volume that does what it should.
#[test]
fn boards_show_something_and_no_alert_fires() {
    let port = free_port();
    let Some(volume) = Volume::up_with(|toml| with(&toml, &format!("listen = \"127.0.0.1:{port}\"\n"))) else { return };
    let Some(prometheus) = Prometheus::start(port) else { return };
    let script = volume.dir.path().join("job.sh");
    std::fs::write(&script, "#!/bin/bash\n#ENTREPOT -n 1 -t 00:10:00\nsleep 600\n").expect("written");
    volume.ok(&["job", "submit", script.to_str().expect("UTF-8")]);
    until_within(60, "it is asked", || !prometheus.query("entrepot_jobs > 0").is_empty());
    let file = volume.at.join("f");
    let mut n = 0_u8;
    let mut used = || {
        n = n.wrapping_add(1);
        std::fs::write(&file, vec![n; 5 << 20]).expect("written");
        crate::real::drop_caches_of(&file);
        assert!(std::fs::read(&file).expect("read") == vec![n; 5 << 20]);
    };
    for (name, board) in boards() {
        for variable in items(&board["templating"], "list").filter(|variable| variable["type"] == "query") {
            let asked = text(variable, "query").strip_prefix("label_values(").and_then(|all| all.strip_suffix(')'));
            let (series, label) = asked.and_then(|all| all.rsplit_once(", ")).expect("a series and its label");
            let found = prometheus.query(&filled_in(series));
            assert!(found.iter().any(|(of, _)| of[label].is_string()), "{name}: {label} of {series}: {found:?}");
        }
        for (title, query) in queries(&board) {
            let query = filled_in(query);
            let (status, answer) = prometheus.ask(&format!("query?query={}", in_an_address(&query)));
            assert_eq!(status, 200, "{name}: {title}: {query}: {answer}");
            until_within(60, &format!("{name}: {title} shows something: {query}"), || {
                used();
                prometheus.query(&query).iter().any(|(_, value)| value.is_finite())
            });
        }
    }
    until_within(60, "all rules are looked at", || {
        let rules = prometheus.ask("rules").1;
        let groups = items(&rules["data"], "groups").flat_map(|group| items(group, "rules"));
        let healths: Vec<&str> = groups.map(|rule| text(rule, "health")).collect();
        assert!(healths.len() > 20 && !healths.contains(&"err"), "{rules}");
        !healths.contains(&"unknown")
    });
    // A machine with much else to do may make one wait for its time.
    let alerts = prometheus.ask("alerts").1;
    assert_eq!(items(&alerts["data"], "alerts").filter(|alert| alert["state"] == "firing").count(), 0, "{alerts}");
    let target = volume.json(&["target", "list"])["targets"][0]["name"].as_str().expect("a name").to_owned();
    volume.ok(&["target", "fail", &target]);
    until_within(60, "the alert of the target is on its way", || {
        let alerts = prometheus.ask("alerts").1;
        items(&alerts["data"], "alerts")
            .any(|alert| alert["labels"]["alertname"] == "EntrepotTargetFailed" && alert["labels"]["target"] == *target)
    });
    volume.ok(&["job", "cancel", "1"]);
}

#[test]
fn what_nobody_could_watch_or_everybody_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = taken.local_addr().expect("an address");
    let Some(volume) = Volume::up() else { return };
    volume.ok(&["down"]);
    let toml = std::fs::read_to_string(&volume.toml).expect("read");
    for (section, said) in [
        (format!("listen = \"{at}\"\n"), "the endpoint cannot listen"),
        ("listen = \"0.0.0.0:9469\"\n".into(), "every client that reaches"),
        ("listen = \"localhost\"\n".into(), "Give an address and a port"),
        ("token_file = \"/x\"\n".into(), "nothing listens"),
        (format!("listen = \"{at}\"\ncertificate = \"/x\"\n"), "go together"),
        (format!("listen = \"{at}\"\ntoken_file = \"/nothere\"\n"), "No such file"),
    ] {
        std::fs::write(&volume.toml, with(&toml, &section)).expect("written");
        let refused = volume.run(&[
            "up",
            &volume.toml.display().to_string(),
            "--at",
            &volume.at.display().to_string(),
            "--detach",
        ]);
        assert!(
            !refused.status.success() && err(&refused).contains(said),
            "{section}: {}{}",
            out(&refused),
            err(&refused)
        );
        assert!(err(&refused).contains("not mounted") || err(&refused).contains("not opened"), "{}", err(&refused));
    }
    std::fs::write(&volume.toml, toml).expect("written");
    volume.up_again();
}
