//! Encrypted sources: what a server's certificate has to be signed by, for each protocol that is encrypted by TLS.
//!
//! The certificates that are trusted are read once in a process, so each question is asked by a process of its own.

#[allow(dead_code, reason = "some of it is for the tests of the whole alone")]
mod server;

use engine::source::{Identity, Opener};
use server::{Authority, Ftpd, Nginx, data, who};
use source::{Settings, Sources};
use std::process::Command;

/// Variable with the source, for the child process that reads.
const URI: &str = "TEST_URI";
const ENDPOINT: &str = "TEST_ENDPOINT";

/// Output of a process that reads the file at `uri` and trusts `trusted`, or else the system's authorities.
fn asked(uri: &str, endpoint: &str, trusted: Option<&Authority>) -> String {
    let mut command = Command::new(std::env::current_exe().expect("this test"));
    command.args(["--exact", "a_process_that_asks", "--nocapture"]);
    command.env(URI, uri).env(ENDPOINT, endpoint).env_remove("SSL_CERT_FILE").env_remove("SSL_CERT_DIR");
    if let Some(authority) = trusted {
        command.env("SSL_CERT_FILE", authority.file());
    }
    let output = command.output().expect("runs");
    let said = String::from_utf8(output.stdout).expect("text");
    let line = said.lines().find_map(|line| line.split_once("said: ")).map(|(_, said)| said.to_string());
    line.unwrap_or_else(|| panic!("{said}\n{}", String::from_utf8_lossy(&output.stderr)))
}

/// Helper of the tests below: reads a range if one of them starts it; otherwise no effect.
#[test]
fn a_process_that_asks() {
    let (Ok(uri), Ok(endpoint)) = (std::env::var(URI), std::env::var(ENDPOINT)) else { return };
    let words = [("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "x")];
    let environment = words.into_iter().map(|(name, word)| (name.to_string(), word.to_string())).collect();
    let who = Identity { environment, ..who() };
    let sources = Sources::new(Settings::default()).expect("runtime");
    let mut buf = vec![0; 300_000];
    let read = sources.open(&uri, &who).and_then(|source| {
        let version = source.stat()?;
        source.read_at(&version, 100_000, &mut buf)
    });
    match read {
        Ok(()) => {
            println!("said: {}", if buf == data(2_000_000, 1)[100_000..400_000] { "read" } else { "other bytes" })
        }
        Err(e) => println!("said: {e}"),
    }
}

/// Checks that the file can be read with the server's authority trusted, and is refused with a reason otherwise.
fn trust_decides(uri: &str, endpoint: &str, authority: &Authority) {
    let refused = asked(uri, endpoint, None);
    assert!(refused.contains("certificate") && refused.contains("UnknownIssuer"), "{refused}");
    assert!(!refused.contains('\n') && refused.len() < 200, "{refused}");
    assert_eq!(asked(uri, endpoint, Some(authority)), "read");
    let other = Authority::new().expect("there was one");
    assert_ne!(asked(uri, endpoint, Some(&other)), "read", "another authority of the same name");
}

#[test]
fn https_and_webdavs() {
    let Some(authority) = Authority::new() else { return };
    let Some(nginx) = Nginx::start_encrypted(&authority) else { return };
    std::fs::write(nginx.root().join("x"), data(2_000_000, 1)).expect("write");
    for scheme in ["https", "webdavs"] {
        trust_decides(&format!("{scheme}://{}/x", nginx.address()), "", &authority);
    }
}

/// A plain file server can replace s3, as long as objects are only read.
#[test]
fn s3_over_https() {
    let Some(authority) = Authority::new() else { return };
    let Some(nginx) = Nginx::start_encrypted(&authority) else { return };
    std::fs::create_dir(nginx.root().join("bucket")).expect("dir");
    std::fs::write(nginx.root().join("bucket/x"), data(2_000_000, 1)).expect("write");
    trust_decides("s3://bucket/x", &format!("https://{}", nginx.address()), &authority);
}

#[test]
fn ftps() {
    let Some(authority) = Authority::new() else { return };
    let Some(ftpd) = Ftpd::start_encrypted(&authority) else { return };
    std::fs::write(ftpd.root().join("pub/x"), data(2_000_000, 1)).expect("write");
    trust_decides(&format!("ftps://{}/pub/x", ftpd.address()), "", &authority);
}
