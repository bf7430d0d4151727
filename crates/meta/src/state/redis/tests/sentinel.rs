//! A master, its replica and a Sentinel: the one that is master now has the state.

use super::*;

fn server(port: u16, more: &[&str]) -> Option<Redis> {
    let number = port.to_string();
    let words =
        ["--port", &number, "--appendonly", "yes", "--appendfsync", "always", "--repl-diskless-sync-delay", "0"];
    Redis::start(&[&words[..], more].concat())
}

fn say(port: u16, words: &[&str]) -> String {
    let said = Command::new("redis-cli").args(["-p", &port.to_string()]).args(words).output().unwrap();
    String::from_utf8_lossy(&said.stdout).into_owned()
}

fn until(what: &str, is: impl Fn() -> bool) {
    let began = Instant::now();
    while !is() {
        assert!(began.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_sentinels_name_as_master_has_the_state_also_after_a_failover() {
    let (first, second, sentinel) = (port::free_port(), port::free_port(), port::free_port());
    let Some(mut master) = server(first, &[]) else { return };
    let Some(_replica) = server(second, &["--replicaof", "127.0.0.1", &first.to_string()]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("sentinel.conf");
    let text = format!(
        "port {sentinel}\nunixsocket {}/socket\nsentinel monitor state 127.0.0.1 {first} 1\nsentinel down-after-milliseconds state 500\n",
        dir.path().display()
    );
    std::fs::write(&config, text).unwrap();
    let mut command = Command::new("redis-server");
    let process =
        command.arg(&config).args(["--sentinel"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _sentinel = Redis { dir, process };
    let knows = |text: &str| say(sentinel, &["SENTINEL", "REPLICAS", "state"]).contains(text);
    until("the Sentinel knows the replica", || knows(&second.to_string()) && knows("master-link-status\nok"));

    let nobody = format!("127.0.0.1:{}", port::free_port());
    let address = Address::parse(&format!("redis+sentinel://{nobody},127.0.0.1:{sentinel}/state/0")).unwrap();
    let state = RedisState::open(Server::reach(&address).unwrap(), "v", None).unwrap();
    state.record_put("job", "1", b"x").unwrap();
    let at = |port: u16| say(port, &["HGET", "entrepot:v:record.job", "1"]);
    until("the replica has it", || at(second).trim() == "x");
    master.process.kill().unwrap();
    master.process.wait().unwrap();
    until("the replica is the master", || state.record_put("job", "2", b"y").is_ok());
    assert_eq!(state.record_get("job", "1").unwrap().as_deref(), Some(&b"x"[..]));
    assert_eq!(say(second, &["HGET", "entrepot:v:record.job", "2"]).trim(), "y");

    // A master that does not sync is refused, even if a Sentinel names it. So is an unknown master.
    say(second, &["CONFIG", "SET", "appendfsync", "everysec"]);
    let refused = Server::reach(&address).err().expect("it must be refused").to_string();
    assert!(refused.contains("state of the Sentinels") && refused.contains("`appendfsync` is everysec"), "{refused}");
    let unknown = refusal(&format!("redis+sentinel://127.0.0.1:{sentinel}/other"));
    assert!(unknown.contains("has no master other"), "{unknown}");
}
