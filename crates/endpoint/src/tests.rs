//! Real connections to a served address: answers by access, and no client can keep others out.

mod browser;
mod dashboard;
mod in_browser;

use super::*;
use engine::volume;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

#[derive(Default)]
struct Daemon {
    looks: AtomicU64,
    failing: Vec<String>,
    hangs: bool,
    /// Whether the scan of the names hangs.
    counts_never: bool,
    targets: u64,
    jobs: u64,
    /// Number of queries of the volume, and of files.
    glances: AtomicU64,
    files: AtomicU64,
}

impl Watched for Daemon {
    fn metrics(&self) -> String {
        if self.counts_never {
            std::thread::sleep(Duration::from_secs(3600));
        }
        format!("looks {}\n# EOF\n", self.looks.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn health(&self) -> Health {
        if self.hangs {
            std::thread::sleep(Duration::from_secs(3600));
        }
        Health { failing: self.failing.clone(), degraded: vec!["target fast0 is failed".into()] }
    }

    fn at_a_glance(&self, with_names: bool) -> Result<Bytes, Problem> {
        self.glances.fetch_add(1, Ordering::Relaxed);
        Ok(json(&dashboard::glance(self.targets, with_names)))
    }

    fn jobs(&self) -> Result<Vec<Job>, Problem> {
        Ok((0..self.jobs).map(dashboard::job).collect())
    }

    fn space(&self) -> Result<Users, Problem> {
        Ok(dashboard::space())
    }

    fn file(&self, path: &str) -> Result<Bytes, Problem> {
        self.files.fetch_add(1, Ordering::Relaxed);
        match path {
            "hangs" => std::thread::sleep(Duration::from_secs(3600)),
            "gone" => return Err(Problem::not_found("gone: No such file or directory")),
            _ => {}
        }
        Ok(json(&dashboard::file(path)))
    }
}

struct Served {
    at: SocketAddr,
    _endpoint: Endpoint,
    dir: tempfile::TempDir,
}

fn file(dir: &Path, name: &str, text: &str) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, text).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode");
    path
}

fn config() -> volume::Endpoint {
    let listen = Some("127.0.0.1:0".parse().expect("an address"));
    volume::Endpoint { listen, token_file: None, certificate: None, certificate_key: None }
}

fn serve(daemon: Daemon, with: impl FnOnce(&Path, &mut volume::Endpoint)) -> Served {
    serve_shared(Arc::new(daemon), with)
}

fn serve_shared(daemon: Arc<Daemon>, with: impl FnOnce(&Path, &mut volume::Endpoint)) -> Served {
    let dir = tempfile::tempdir().expect("dir");
    let mut config = config();
    with(dir.path(), &mut config);
    let listening = Listening::at(&config).expect("listens").expect("is wanted");
    let at = listening.address().expect("an address");
    Served { at, _endpoint: listening.serve(daemon).expect("served"), dir }
}

fn ask(mut stream: impl Read + Write, head: &str) -> (u16, String) {
    write!(stream, "{head}\r\nHost: localhost\r\nConnection: close\r\n\r\n").expect("asked");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("answered");
    (answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status"), answer)
}

fn get(at: SocketAddr, path: &str, token: &str) -> (u16, String) {
    let header = if token.is_empty() { String::new() } else { format!("\r\nAuthorization: Bearer {token}") };
    ask(TcpStream::connect(at).expect("connects"), &format!("GET {path} HTTP/1.1{header}"))
}

#[test]
fn metrics_are_shown_to_prometheus_and_looked_at_so_often_only() {
    let served = serve(Daemon::default(), |_, _| ());
    let (code, text) = get(served.at, "/metrics", "");
    assert!(code == 200 && text.contains("content-type: application/openmetrics-text; version=1.0.0"), "{text}");
    assert!(text.ends_with("looks 1\n# EOF\n"), "{text}");
    let began = Instant::now();
    let looks = (0..50).filter(|_| !get(served.at, "/metrics", "").1.contains("looks 1\n")).count();
    assert!(looks == 0 || began.elapsed() > Duration::from_millis(400), "one look is for all");
    let (code, text) = ask(TcpStream::connect(served.at).expect("connects"), "HEAD /metrics HTTP/1.1");
    assert!(code == 200 && text.ends_with("\r\n\r\n"), "{text}");
    assert_eq!([get(served.at, "/", "").0, get(served.at, "/x", "").0], [200, 404]);
    let (code, text) = ask(TcpStream::connect(served.at).expect("connects"), "POST /metrics HTTP/1.1");
    assert!(code == 405 && text.contains("allow: GET, HEAD"), "{text}");
}

/// [S-342]
#[test]
fn a_name_that_leads_here_is_refused_where_there_is_no_token() {
    let of = |served: &Served, host: &str, path: &str| {
        let mut stream = TcpStream::connect(served.at).expect("connects");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        answer
    };
    let served = serve(Daemon::default(), |_, _| ());
    for path in ["/", "/metrics", "/healthz", "/api/volume"] {
        let answer = of(&served, "evil.example:9469", path);
        assert!(answer.starts_with("HTTP/1.1 421 ") && !answer.contains("fast0"), "{answer}");
    }
    let own = served.at.to_string();
    for host in [own.as_str(), "localhost", "[::1]:9469"] {
        assert!(of(&served, host, "/metrics").starts_with("HTTP/1.1 200 "), "{host}");
    }
    let with_token =
        serve(Daemon::default(), |dir, config| config.token_file = Some(file(dir, "token", &format!("{TOKEN}\n"))));
    assert!(of(&with_token, "node1.cluster:9469", "/healthz").starts_with("HTTP/1.1 200 "));
    assert!(of(&with_token, "node1.cluster:9469", "/metrics").starts_with("HTTP/1.1 401 "));
}

#[test]
fn without_the_token_nothing_is_shown_but_whether_it_serves() {
    let failing = vec!["this node has no lease".to_owned()];
    let served = serve(Daemon { failing, ..Daemon::default() }, |dir, config| {
        config.token_file = Some(file(dir, "token", &format!("{TOKEN}\n")));
    });
    for token in ["", "x", &TOKEN[1..], &format!("{TOKEN}0"), "Bearer"] {
        let (code, text) = get(served.at, "/metrics", token);
        assert!(code == 401 && text.contains("www-authenticate: Bearer") && !text.contains("looks"), "{text}");
        assert_eq!(get(served.at, "/nothing", token).0, 401);
        let (code, text) = get(served.at, "/healthz", token);
        assert!(code == 503 && text.ends_with("\r\n\r\nfailing\n"), "{text}");
    }
    assert_eq!(get(served.at, "/metrics", TOKEN).0, 200);
    let (_, text) = get(served.at, "/healthz", TOKEN);
    assert!(text.ends_with("failing\nthis node has no lease\ntarget fast0 is failed\n"), "{text}");
}

#[test]
fn a_target_that_failed_makes_no_daemon_ill_and_a_look_that_hangs_does() {
    let served = serve(Daemon::default(), |_, _| ());
    let (code, text) = get(served.at, "/healthz", "");
    assert!(code == 200 && text.ends_with("degraded\ntarget fast0 is failed\n"), "{text}");
    let served = serve(Daemon { hangs: true, ..Daemon::default() }, |_, _| ());
    let began = Instant::now();
    assert_eq!(get(served.at, "/healthz", "").0, 503);
    assert!(began.elapsed() < Duration::from_secs(60));
    assert_eq!(get(served.at, "/metrics", "").0, 200, "others are answered meanwhile");
}

/// [S-426]
#[test]
fn metrics_that_do_not_come_hold_up_nothing_else() {
    let served = serve(Daemon { counts_never: true, ..Daemon::default() }, |_, _| ());
    std::thread::scope(|scope| {
        let metrics = scope.spawn(|| get(served.at, "/metrics", "").0);
        assert_eq!(get(served.at, "/healthz", "").0, 200);
        assert_eq!(metrics.join().expect("no panic"), 503);
    });
}

#[test]
fn whoever_holds_connections_keeps_nobody_out() {
    let served = serve(Daemon::default(), |_, _| ());
    let mut held: Vec<TcpStream> = (0..200).map(|_| TcpStream::connect(served.at).expect("connects")).collect();
    for stream in &mut held {
        // Connections that were evicted are closed at the other end already.
        let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: ");
    }
    for _ in 0..20 {
        assert_eq!(get(served.at, "/metrics", "").0, 200);
        held.push(TcpStream::connect(served.at).expect("connects"));
    }
    let began = Instant::now();
    let last = held.last_mut().expect("some");
    last.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
    last.write_all(b"GET /").expect("sent");
    let _ = last.read_to_end(&mut Vec::new());
    assert!(began.elapsed() < Duration::from_secs(50), "a head that does not come ends the connection");
}

#[test]
fn what_is_no_http_or_too_long_is_refused() {
    let served = serve(Daemon::default(), |_, _| ());
    for head in [
        "\x16\x03\x01",
        "GET",
        &format!("GET /{}", "x".repeat(70_000)),
        &format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(70_000)),
    ] {
        let mut stream = TcpStream::connect(served.at).expect("connects");
        // The server may close the connection before it has received everything.
        let _ = stream.write_all(format!("{head}\r\n\r\n").as_bytes());
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let code = String::from_utf8_lossy(&answer).split(' ').nth(1).map(str::to_owned);
        assert!(code.is_none_or(|code| code.starts_with('4')), "{head:.20}");
    }
    assert_eq!(get(served.at, "/metrics", "").0, 200);
}

#[test]
fn it_speaks_tls_with_its_certificate() {
    let certificate = |dir: &Path, config: &mut volume::Endpoint| {
        let words = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=here -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:FALSE -keyout key -out crt";
        let made = Command::new("openssl").args(words.split(' ')).current_dir(dir).output().expect("openssl runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        (config.certificate, config.certificate_key) = (Some(dir.join("crt")), Some(dir.join("key")));
    };
    let served = serve(Daemon::default(), certificate);
    use rustls::pki_types::pem::PemObject;
    let own = rustls::pki_types::CertificateDer::from_pem_file(served.dir.path().join("crt")).expect("a certificate");
    let mut roots = rustls::RootCertStore::empty();
    roots.add(own).expect("trusted");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let client =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().expect("versions");
    let client = Arc::new(client.with_root_certificates(roots).with_no_client_auth());
    let name = rustls::pki_types::ServerName::try_from("127.0.0.1").expect("a name");
    let session = rustls::ClientConnection::new(client, name).expect("a session");
    let stream = rustls::StreamOwned::new(session, TcpStream::connect(served.at).expect("connects"));
    let (code, text) = ask(stream, "GET /metrics HTTP/1.1");
    assert!(code == 200 && text.contains("looks 1"), "{text}");
    let mut plain = TcpStream::connect(served.at).expect("connects");
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer);
    assert!(!String::from_utf8_lossy(&answer).contains("looks"), "nothing in clear");
}

#[test]
fn what_cannot_be_served_is_said_before() {
    let dir = tempfile::tempdir().expect("dir");
    let short = volume::Endpoint { token_file: Some(file(dir.path(), "short", "hunter2\n")), ..config() };
    let open = file(dir.path(), "open", TOKEN);
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).expect("mode");
    let open = volume::Endpoint { token_file: Some(open), ..config() };
    let empty = file(dir.path(), "empty", "");
    let no_certificate =
        volume::Endpoint { certificate: Some(empty.clone()), certificate_key: Some(empty), ..config() };
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = volume::Endpoint { listen: Some(taken.local_addr().expect("an address")), ..config() };
    for (config, word) in [
        (short, "no token"),
        (open, "any user"),
        (no_certificate, "no certificate"),
        (taken, "the endpoint cannot listen"),
    ] {
        let Err(problem) = Listening::at(&config) else { panic!("{word}: it listens") };
        assert!(problem.cause.contains(word) && problem.consequence.contains("not mounted"), "{problem}");
    }
}
