//! A server with TLS and a password, and the authority that signed its certificate.

use super::*;
use std::os::unix::fs::PermissionsExt;

fn openssl(dir: &Path, words: &str) -> bool {
    let made = Command::new("openssl").args(words.split(' ')).current_dir(dir).output();
    made.is_ok_and(|made| made.status.success())
}

/// Makes keys of a server, of its authority and of a stranger; false if `openssl` fails.
fn keys(dir: &Path) -> bool {
    std::fs::write(dir.join("names"), "subjectAltName=DNS:localhost,IP:127.0.0.1\n").unwrap();
    let ca = |name: &str| {
        format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN={name} -keyout {name}.key -out {name}.pem"
        )
    };
    openssl(dir, &ca("ca"))
        && openssl(dir, &ca("stranger"))
        && openssl(
            dir,
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=server -keyout server.key -out server.csr",
        )
        && openssl(
            dir,
            "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem",
        )
}

#[test]
fn a_server_with_tls_is_trusted_if_the_right_one_vouches_for_it() {
    let dir = tempfile::tempdir().unwrap();
    if !keys(dir.path()) {
        return eprintln!("skipped: openssl makes no keys here");
    }
    let port = port::free_port();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let (cert, key, ca, number) = (file("server.pem"), file("server.key"), file("ca.pem"), port.to_string());
    let tls = ["--tls-port", &number, "--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca];
    let words =
        ["--appendonly", "yes", "--appendfsync", "always", "--tls-auth-clients", "no", "--requirepass", "secret"];
    let Some(redis) = Redis::start(&[&tls[..], &words].concat()) else { return };
    let password = dir.path().join("password");
    std::fs::write(&password, "secret\n").unwrap();
    std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).unwrap();
    let reach = |host: &str, password: Option<&PathBuf>, ca: &str| {
        let address = Address::parse(&format!("rediss://{host}:{port}/0")).unwrap();
        Server::reach(&address.with_files(password.cloned(), Some(dir.path().join(ca))))
    };
    for host in ["localhost", "127.0.0.1"] {
        let state = RedisState::open(reach(host, Some(&password), "ca.pem").unwrap(), "v", None).unwrap();
        state.record_put("job", host, b"x").unwrap();
        assert_eq!(state.record_get("job", host).unwrap().as_deref(), Some(&b"x"[..]));
    }
    let refused = |result: Result<Server>| result.err().expect("it must be refused").to_string();
    let stranger = refused(reach("localhost", Some(&password), "stranger.pem"));
    assert!(stranger.contains("cannot be reached") && stranger.contains("certificate"), "{stranger}");
    let nobody = refused(reach("localhost", None, "ca.pem"));
    assert!(nobody.contains("refuses the login of this node") && !nobody.contains("secret"), "{nobody}");
    let other_name = refused(reach("ip6-localhost", Some(&password), "ca.pem"));
    assert!(other_name.contains("cannot be reached"), "{other_name}");
    drop(redis);
}
