//! A real Redis server on a Unix socket: the suite, its end and return, and servers that cannot be used.

use super::*;

mod holders;
#[path = "../../../../source/tests/server/port.rs"]
mod port;
mod sentinel;
mod tls;
use crate::state::{State, conformance};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A server of our own in a temporary directory; ended with the test.
struct Redis {
    dir: tempfile::TempDir,
    process: Child,
}

impl Redis {
    /// Starts a server; `None` if none is installed.
    fn start(words: &[&str]) -> Option<Redis> {
        let dir = tempfile::tempdir().unwrap();
        let process = run(dir.path(), words)?;
        let redis = Redis { dir, process };
        redis.wait();
        Some(redis)
    }

    /// Starts a server that syncs every write, as required.
    fn synced() -> Option<Redis> {
        Redis::start(&["--appendonly", "yes", "--appendfsync", "always"])
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn url(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    fn address(&self) -> Address {
        Address::parse(&self.url()).unwrap()
    }

    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.address().connect(CONNECT_SPAN).is_err() {
            assert!(Instant::now() < until, "the server must come up");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn open(&self, volume: &str) -> RedisState {
        RedisState::open(Server::reach(&self.address()).unwrap(), volume, None).unwrap()
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Kills the server, and restarts it with its files.
    fn kill_and_start(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = run(self.dir.path(), &["--appendonly", "yes", "--appendfsync", "always"]).unwrap();
        self.wait();
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

fn run(dir: &Path, words: &[&str]) -> Option<Child> {
    let socket = dir.join("socket");
    drop(std::fs::remove_file(&socket));
    let mut command = Command::new("redis-server");
    command.args(["--port", "0", "--save", "", "--dir"]).arg(dir).arg("--unixsocket").arg(&socket).args(words);
    match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
        Ok(process) => Some(process),
        Err(error) => {
            eprintln!("skipped: redis-server: {error} (scripts/setup.sh installs it)");
            None
        }
    }
}

fn refusal(url: &str) -> String {
    Server::reach(&Address::parse(url).unwrap()).err().expect("it must be refused").to_string()
}

#[test]
fn the_suite_holds_and_volumes_are_apart() {
    let Some(redis) = Redis::synced() else { return };
    conformance(&redis.open("a"));
    // Another volume in the same database begins empty.
    conformance(&redis.open("b"));
    assert_eq!(redis.open("a").targets().unwrap().len(), 4);
    assert!(RedisState::known_targets(&redis.address(), "c").unwrap().is_empty());
}

#[test]
fn what_was_acknowledged_outlives_the_server() {
    let Some(mut redis) = Redis::synced() else { return };
    let state = redis.open("v");
    let mut first = 0;
    for round in 1..=3 {
        for n in 0..50 {
            state.record_put("burst.version", &format!("{round}-{n:02}"), &[round; 100]).unwrap();
        }
        let epoch = state.new_epoch(0).unwrap();
        assert!(epoch > first);
        first = epoch;
        let life = state.life().unwrap();
        redis.kill_and_start();
        assert!(life.is_some() && state.life().unwrap() != life, "it may have forgotten something: {life:?}");
        // The old connection is broken; no caller gets an error.
        assert_eq!(state.records("burst.version").unwrap().len(), 50 * usize::from(round));
    }
}

#[test]
fn a_server_that_is_away_or_hangs_is_an_error_in_bounded_time() {
    let Some(mut redis) = Redis::synced() else { return };
    let state = redis.open("v");
    state.record_put("job", "1", b"x").unwrap();
    redis.signal("-STOP");
    let began = Instant::now();
    let hangs = state.record_put("job", "2", b"y").unwrap_err().to_string();
    assert!(hangs.contains("no answer within 5 s"), "{hangs}");
    assert!(began.elapsed() < 3 * ANSWER_SPAN, "{:?}", began.elapsed());
    redis.signal("-CONT");
    assert_eq!(state.record_get("job", "1").unwrap().as_deref(), Some(&b"x"[..]), "it goes on, on a new connection");
    redis.process.kill().unwrap();
    redis.process.wait().unwrap();
    for _ in 0..100 {
        let away = state.record_get("job", "1").unwrap_err().to_string();
        assert!(away.contains("cannot be reached") && away.contains("state_store"), "{away}");
    }
    redis.kill_and_start();
    std::thread::sleep(AWAY_SPAN);
    assert_eq!(state.record_get("job", "1").unwrap().as_deref(), Some(&b"x"[..]));
}

/// [S-427]
#[test]
fn a_server_that_comes_back_with_other_data_counts_as_away() {
    let Some(mut redis) = Redis::synced() else { return };
    let state = redis.open("v");
    state.record_put("state", "id", b"one").unwrap();
    state.pin("state", "id").unwrap();
    state.record_put("burst.app", "wave", b"x").unwrap();
    let data = redis.dir.path().join("appendonlydir");
    let aside = redis.dir.path().join("aside");
    for other in [None, Some(&b"two"[..])] {
        redis.process.kill().unwrap();
        redis.process.wait().unwrap();
        std::fs::rename(&data, &aside).unwrap();
        redis.kill_and_start();
        if let Some(id) = other {
            redis.open("v").record_put("state", "id", id).unwrap();
        }
        for _ in 0..3 {
            let refused = state.record_put("burst.app", "wave", b"y").unwrap_err().to_string();
            assert!(refused.contains("state of this volume") && refused.contains("its own data"), "{refused}");
        }
        assert!(redis.open("v").records("burst.app").unwrap().is_empty(), "nothing is written to it");
        std::fs::remove_dir_all(&data).unwrap();
        std::fs::rename(&aside, &data).unwrap();
        redis.kill_and_start();
        std::thread::sleep(AWAY_SPAN);
        assert_eq!(state.record_get("burst.app", "wave").unwrap().as_deref(), Some(&b"x"[..]));
    }
}

#[test]
fn a_server_that_forgets_is_refused_and_so_is_a_newer_schema() {
    let Some(redis) = Redis::start(&["--appendonly", "no"]) else { return };
    let refused = refusal(&redis.url());
    assert!(refused.contains("appendonly") && refused.contains("CONFIG SET appendonly yes"), "{refused}");
    drop(redis);
    let Some(redis) = Redis::start(&["--appendonly", "yes", "--appendfsync", "everysec"]) else { return };
    let refused = refusal(&redis.url());
    assert!(refused.contains("`appendfsync` is everysec"), "{refused}");
    drop(redis);
    let Some(redis) = Redis::synced() else { return };
    let server = Server::reach(&redis.address()).unwrap();
    server.with(|connection| redis::cmd("SET").arg("entrepot:v:schema").arg(99).exec(connection)).unwrap();
    let newer = RedisState::open(server, "v", None).err().unwrap().to_string();
    assert!(newer.contains("format 99") && newer.contains("newer"), "{newer}");
    let nowhere = refusal("unix:///nonexistent/socket");
    assert!(nowhere.contains("cannot be reached") && nowhere.contains("/nonexistent/socket"), "{nowhere}");
    let secret = refusal("redis://me:secret@127.0.0.1:1/0");
    assert!(secret.contains("127.0.0.1:1") && !secret.contains("secret"), "{secret}");
}

/// [S-205]
#[test]
fn what_one_rings_another_hears_also_after_a_silence() {
    let Some(redis) = Redis::synced() else { return };
    let node = |own: &str| RedisState::open(Server::reach(&redis.address()).unwrap(), "v", Some(own.into())).unwrap();
    let (one, other) = (node("one"), node("other"));
    let (tell, told) = std::sync::mpsc::channel::<String>();
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let goes_on = || !ends.load(std::sync::atomic::Ordering::Relaxed);
            other.listen(&goes_on, &mut |told| tell.send(format!("{told:?}")).unwrap()).unwrap();
        });
        let next = || told.recv_timeout(Duration::from_secs(20)).unwrap();
        assert_eq!(next(), "Listening");
        for text in ["first", "second"] {
            std::thread::sleep(LISTEN_SPAN * 3);
            one.ring(text).unwrap();
            assert_eq!(next(), format!("Message({text:?})"));
        }
        one.tell("a third", "not for it").unwrap();
        one.tell("other", "for it").unwrap();
        assert_eq!(next(), "Message(\"for it\")");
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

/// [S-205]
#[test]
fn a_listener_of_a_server_that_stops_answering_ends() {
    let Some(redis) = Redis::synced() else { return };
    let state = redis.open("v");
    let (tell, told) = std::sync::mpsc::channel::<bool>();
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let goes_on = || !ends.load(std::sync::atomic::Ordering::Relaxed);
            tell.send(state.listen(&goes_on, &mut |_| redis.signal("-STOP")).is_err()).unwrap();
        });
        let ended = told.recv_timeout(Duration::from_secs(60));
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(ended, Ok(true));
    });
}

#[test]
fn a_wait_given_up_by_a_stopped_process_is_no_other_error() {
    let error = |kind| RedisError::from(std::io::Error::from(kind));
    assert!(is_interrupted(&error(std::io::ErrorKind::Interrupted)));
    assert!(!is_interrupted(&error(std::io::ErrorKind::TimedOut)));
}

/// [S-207]
#[test]
fn what_a_node_had_for_itself_is_taken_once_and_what_all_have_stays() {
    let Some(redis) = Redis::synced() else { return };
    let open = |own: &str| RedisState::open(Server::reach(&redis.address()).unwrap(), "v", Some(own.into())).unwrap();
    let (one, other) = (open("1"), open("12"));
    let target = one.new_target_number().unwrap();
    one.remember_target(target, "t").unwrap();
    for state in [&one, &other] {
        state.staging_put("s", b"half").unwrap();
        state.record_put("job", "1", b"x").unwrap();
    }
    one.record_put("burst.app", "wave", b"y").unwrap();
    let has = |state: &RedisState| state.records("burst.app").unwrap() == [("wave".to_owned(), b"y".to_vec())];
    assert!(has(&other), "the burst buffer is everybody's");
    let entry = crate::state::JournalEntry {
        file: policy::FileId(7),
        path: "a".into(),
        inode: 1,
        objects: vec![(target, policy::ObjectId(9))],
    };
    one.journal_put(&entry).unwrap();
    let left = other.left_by("1").unwrap().expect("a state");
    assert_eq!(left.journal().unwrap(), std::slice::from_ref(&entry));
    assert_eq!((left.stagings().unwrap().len(), left.record_kinds().unwrap()), (1, vec!["job".to_owned()]));
    assert!(one.journal().unwrap().is_empty() && one.stagings().unwrap().is_empty(), "it is out of reach");
    assert_eq!((other.stagings().unwrap().len(), other.records("job").unwrap().len()), (1, 1), "a name alike");
    // A node that wakes begins with an empty state. The earlier takeover is settled first.
    one.staging_put("s", b"again").unwrap();
    let again = other.left_by("1").unwrap().expect("a state");
    assert_eq!(again.staging_get("s").unwrap().as_deref(), Some(&b"half"[..]));
    again.journal_finish(entry.file, &entry.objects).unwrap();
    again.staging_remove("s").unwrap();
    again.record_remove("job", "1").unwrap();
    assert_eq!(one.garbage_of(target, 9).unwrap(), [policy::ObjectId(9)], "garbage is everybody's");
    let rest = other.left_by("1").unwrap().expect("a state");
    assert_eq!(rest.staging_get("s").unwrap().as_deref(), Some(&b"again"[..]));
    let dumped = other.dump().unwrap().into_iter().filter(|row| format!("{row:?}").contains("burst.app")).count();
    assert!(has(&one) && has(&other) && dumped == 1);
    assert!(other.left_by("*").is_err() && other.left_by("").is_err());
}
