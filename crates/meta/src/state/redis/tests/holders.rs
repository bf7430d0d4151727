//! The script beside its specification: the same requests, the same answers. And the memory that it takes.

use super::Redis;
use crate::state::redis::RedisState;
use crate::state::redis::holders::serve;
use policy::Time;
use policy::cluster::Node;
use policy::holders::node::Config;
use policy::holders::table::{Answer, Caller, Hold, Mode, PARTS, Request, Run, Table};

/// Numbers below a bound, from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn mode(&mut self) -> Mode {
        [Mode::Open, Mode::Write, Mode::Read, Mode::Exclusive][self.below(4) as usize]
    }

    fn request(&mut self, now: Time) -> Request {
        let (key, number) = (self.below(3) * PARTS + self.below(2), 1 + self.below(4));
        let generation = self.below(4);
        let late = Time(now.0.saturating_sub(self.below(2) * 1_000_000));
        let node = Node(1 + self.below(4) as u32);
        match self.below(64) {
            0 => Request::Over { node },
            1 => Request::Trust,
            2 => Request::Open { members: (1..=4).map(Node).filter(|_| self.below(2) > 0).collect() },
            3..6 => Request::Register { not_after: late },
            6..10 => Request::Renew { not_after: late },
            10 => Request::Sweep { part: self.below(2) },
            11..14 => {
                let hold = (self.below(3) > 0).then(|| Hold { mode: self.mode(), number });
                Request::Reclaim { key, hold, claim: (self.below(3) == 0).then_some((number, generation)) }
            }
            14..30 => Request::Admit { key, number, writes: self.below(2) > 0 },
            30..42 => Request::Claim { key, number, generation },
            42..52 => {
                let (settled, keeps) = (self.below(4) > 0, self.below(2) > 0);
                Request::Finish { key, number, generation: generation + 1, settled, keeps }
            }
            52..54 => Request::OtherHolders { key },
            _ => {
                let mode = (self.below(3) > 0).then(|| self.mode());
                Request::Lower { key, number, mode, generation: (self.below(3) > 0).then_some(generation) }
            }
        }
    }
}

/// Name of an answer, so that the test can require each.
fn kind(answer: &Answer) -> String {
    format!("{answer:?}").chars().take_while(char::is_ascii_alphabetic).collect()
}

#[test]
fn the_script_answers_as_the_table_does() {
    let Some(server) = Redis::synced() else { return };
    let mut kinds = std::collections::BTreeMap::<String, u32>::new();
    for seed in 1..=4u64 {
        let state = server.open(&format!("v{seed}"));
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut table = Table::new(Config::default().session);
        let (mut now, mut run, mut links) = (Time::from_secs(1_000_000), 1, [0u64; 5]);
        // The next request of a node: anything, or a registration of its own.
        let mut next: [Option<Request>; 5] = std::array::from_fn(|_| Some(Request::Begin));
        for step in 0..6000 {
            let node = 1 + random.below(4) as usize;
            now = now + Time::from_millis(random.below(4) * random.below(100));
            // A restart, a late request of an earlier connection, a node that has missed the restart.
            run += u64::from(random.below(1500) == 0);
            let request = next[node].take().filter(|_| random.below(8) > 0).unwrap_or_else(|| random.request(now));
            links[node] += u64::from(request == Request::Begin);
            let late = request != Request::Begin && random.below(100) == 0;
            let (link, believed) = (links[node].saturating_sub(late.into()), run - u64::from(random.below(100) == 0));
            // The table begins no earlier run again.
            let believed = if request == Request::Begin { run } else { believed };
            let caller = Caller { node: Node(node as u32), run: Run(believed), link };
            let expected = table.serve(now, caller, &request);
            let answer = serve(&state, Some(now), caller, &request).unwrap();
            assert_eq!(answer, expected, "seed {seed}, step {step}: {caller:?} {request:?}");
            *kinds.entry(kind(&answer)).or_default() += 1;
            next[node] = match answer {
                Answer::OtherRun | Answer::Unregistered => Some(Request::Begin),
                Answer::Closed => Some(Request::Open { members: (1..=4).map(Node).collect() }),
                Answer::Unsettled if random.below(4) == 0 => Some(Request::Trust),
                Answer::Session { .. } if request == Request::Begin => {
                    Some(Request::Register { not_after: now + Time::from_secs(9) })
                }
                _ => None,
            };
        }
        let keys: Vec<String> =
            state.with(|connection| ::redis::cmd("KEYS").arg(state.key("holders.*")).query(connection)).unwrap();
        let parts = keys.iter().filter(|key| key.rsplit('.').next().is_some_and(|part| part.parse::<u64>().is_ok()));
        let count = |key: &String| state.with(|c| ::redis::cmd("HLEN").arg(key).query::<usize>(c)).unwrap();
        assert_eq!(parts.map(count).sum::<usize>(), table.len(), "the same files have an entry");
    }
    let missing: Vec<_> = [
        "Done",
        "OtherRun",
        "Unregistered",
        "Closed",
        "Session",
        "Lapsed",
        "Claimed",
        "Unsettled",
        "Recall",
        "Granted",
        "Drained",
    ]
    .into_iter()
    .filter(|kind| kinds.get(*kind).is_none_or(|count| *count < 10))
    .collect();
    assert!(missing.is_empty(), "rare answers: {missing:?} of {kinds:?}");
}

fn used(state: &RedisState) -> u64 {
    let info: String = state.with(|c| ::redis::cmd("INFO").arg("memory").query(c)).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.trim().parse().ok()).unwrap()
}

/// Registers a node, and opens the run.
fn open(state: &RedisState, node: u32) -> Caller {
    use crate::state::State;
    let caller = Caller { node: Node(node), run: Run(7), link: 1 };
    let Answer::Session { at, .. } = state.hold(caller, &Request::Begin).unwrap() else { panic!("no session") };
    let not_after = at + Time::from_secs(60);
    state.hold(caller, &Request::Register { not_after }).unwrap();
    state.hold(caller, &Request::Open { members: [Node(node)].into() }).unwrap();
    state.hold(caller, &Request::Trust).unwrap();
    caller
}

/// On the server's own clock.
#[test]
fn a_hold_takes_little_memory_and_leaves_nothing() {
    use crate::state::State;
    let Some(server) = Redis::start(&["--appendonly", "yes", "--appendfsync", "no"]) else { return };
    let state = RedisState::of(super::Server::at(&server.address()), "v", None);
    let files = std::env::var("ENTREPOT_HOLDERS").map_or(20_000, |files| files.parse().unwrap());
    let caller = open(&state, 1);
    let before = used(&state);
    let inode = |file: u64| file.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for file in 0..files {
        // A session lasts some seconds.
        if file % 1000 == 0 {
            let Answer::Session { at, .. } = state.hold(caller, &Request::Begin).unwrap() else { panic!("no session") };
            state.hold(caller, &Request::Register { not_after: at + Time::from_secs(60) }).unwrap();
        }
        let admit = Request::Admit { key: inode(file), number: file + 1, writes: true };
        let answer = state.hold(caller, &admit).unwrap();
        assert!(matches!(answer, Answer::Granted { mode: Mode::Exclusive, generation: 0, .. }), "{file}: {answer:?}");
    }
    let each = (used(&state) - before) / files;
    eprintln!("{files} files: {each} bytes of the server's memory each");
    assert!(each < 200, "{each} bytes each");
    for file in 0..files {
        let lower = Request::Lower { key: inode(file), number: file + 1, mode: None, generation: Some(1) };
        assert_eq!(state.hold(caller, &lower).unwrap(), Answer::Done);
    }
    let keys: Vec<String> = state.with(|c| ::redis::cmd("KEYS").arg("*").query(c)).unwrap();
    assert_eq!(keys.len(), 4, "{keys:?}");
    let released = state.key("holders.generations");
    let kept: u64 = state.with(|c| ::redis::cmd("HLEN").arg(&released).query(c)).unwrap();
    assert!(kept <= 65_536 && kept == (files - 1) % 65_536 + 1, "few released files are kept: {kept}");
}

/// [S-205]
#[test]
fn a_restart_and_a_restore_begin_another_run_and_no_request_reaches_the_new_server_unseen() {
    use crate::state::State;
    let Some(mut redis) = Redis::synced() else { return };
    let (state, other) = (redis.open("v"), redis.open("v"));
    let run = state.run().unwrap();
    assert_eq!((other.run().unwrap(), state.run().unwrap()), (run, run));
    state.load(&state.dump().unwrap()).unwrap();
    let restored = state.run().unwrap();
    assert!(restored != run && other.run().unwrap() == restored, "a copy that was put back");
    let caller = Caller { node: Node(1), run: restored, link: 1 };
    assert!(state.hold(caller, &Request::Begin).is_ok());
    redis.kill_and_start();
    assert!(state.hold(caller, &Request::Trust).is_err(), "the last writes may be forgotten");
    let restarted = state.run().unwrap();
    assert!(restarted != restored);
    assert!(state.hold(Caller { run: restarted, ..caller }, &Request::Begin).is_ok());
}
