//! The table of holders in the server: one script, which does what [`policy::holders::table`] specifies.
//!
//! ```text
//! entrepot:VOLUME:holders              hash   run, epoch, opened, suspect, unsure
//! entrepot:VOLUME:holders.links        hash   node -> number of its connection
//! entrepot:VOLUME:holders.sessions     nodes, ordered by the end of their session
//! entrepot:VOLUME:holders.PART         hash   inode -> entry
//! entrepot:VOLUME:holders.generations  hash   inode -> time at which its entry was removed, newest generation
//! entrepot:VOLUME:holders.incarnation  incarnation of the data, part of the run
//! ```
//! A part with few entries is one compact list in the server; `docs/internals/machines/holders.md` has its size.

use super::RedisState;
use super::values::not_understood;
use crate::{Error, Result};
use object::volume_id::unique;
use policy::Time;
use policy::cluster::Node;
use policy::holders::node::Config;
use policy::holders::table::{Answer, Caller, Mode, PARTS, Request, Run};
use redis::{ErrorKind, ServerErrorKind, cmd};
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

const SCRIPT: &str = include_str!("holders.lua");

/// Name of the script in a server.
static NAME: OnceLock<String> = OnceLock::new();

/// Key of the incarnation of the data; a restore gives it another.
pub(super) const INCARNATION: &str = "holders.incarnation";
/// Number of attempts to read the run over one connection.
const ATTEMPTS_MAX: usize = 3;

const MODES: [Mode; 4] = [Mode::Open, Mode::Write, Mode::Read, Mode::Exclusive];

/// The run of the server: its process, its replication history, and the incarnation of its data.
pub(super) fn run(state: &RedisState) -> Result<Run> {
    let (key, fresh) = (state.key(INCARNATION), unique()?);
    let made = || state.server.link.lock().made;
    for _ in 0..ATTEMPTS_MAX {
        let before = made();
        let (server, replication, incarnation): (String, String, String) = state.with(|connection| {
            let server = cmd("INFO").arg("server").query(connection)?;
            let replication = cmd("INFO").arg("replication").query(connection)?;
            cmd("SET").arg(&key).arg(&fresh).arg("NX").exec(connection)?;
            Ok((server, replication, cmd("GET").arg(&key).query(connection)?))
        })?;
        if before == made() {
            let field =
                |text: &str, name: &str| text.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
            let of = [field(&server, "run_id:"), field(&replication, "master_replid:"), Some(incarnation)];
            let text: Option<Vec<String>> = of.into_iter().collect();
            let text = text.ok_or_else(|| not_understood("the identity of the server"))?.join(" ");
            state.run_at.store(before, Ordering::Release);
            return Ok(Run(number_of(&text)));
        }
    }
    Err(Error::State("the connection to the table of holders is replaced again and again".into()))
}

/// A number that stands for a text, the same on every node; never 0, the run of a new table.
fn number_of(text: &str) -> u64 {
    let hash = blake3::hash(text.as_bytes());
    u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("32 bytes")).max(1)
}

fn mode_text(mode: Mode) -> String {
    MODES.iter().position(|known| *known == mode).unwrap_or_default().to_string()
}

/// The number of whole milliseconds.
fn millis(time: Time) -> String {
    (time.0 / 1_000_000).to_string()
}

fn flag(set: bool) -> String {
    u8::from(set).to_string()
}

/// Name, part of the table, and arguments of a request.
fn encode(request: &Request) -> (&'static str, u64, Vec<String>) {
    let none = || "-".to_owned();
    let (name, key, rest) = match request {
        Request::Begin => return ("begin", 0, Vec::new()),
        Request::Register { not_after } => return ("register", 0, vec![millis(*not_after)]),
        Request::Renew { not_after } => return ("renew", 0, vec![millis(*not_after)]),
        Request::Open { members } => return ("open", 0, members.iter().map(|node| node.0.to_string()).collect()),
        Request::Over { node } => return ("over", 0, vec![node.0.to_string()]),
        Request::Trust => return ("trust", 0, Vec::new()),
        Request::Sweep { part } => return ("sweep", *part, Vec::new()),
        Request::Reclaim { key, hold, claim } => {
            let hold = hold.map_or_else(|| [none(), none()], |hold| [hold.number.to_string(), mode_text(hold.mode)]);
            let claim = claim
                .map_or_else(|| [none(), none()], |(number, generation)| [number.to_string(), generation.to_string()]);
            ("reclaim", key, [hold, claim].concat())
        }
        Request::Admit { key, number, writes } => ("admit", key, vec![number.to_string(), flag(*writes)]),
        Request::Lower { key, number, mode, generation } => {
            let generation = generation.map_or_else(none, |generation| generation.to_string());
            ("lower", key, vec![number.to_string(), mode.map_or_else(none, mode_text), generation])
        }
        Request::Claim { key, number, generation } => ("claim", key, vec![number.to_string(), generation.to_string()]),
        Request::Finish { key, number, generation, settled, keeps } => {
            ("finish", key, vec![number.to_string(), generation.to_string(), flag(*settled), flag(*keeps)])
        }
        Request::OtherHolders { key } => ("holders", key, Vec::new()),
    };
    (name, key % PARTS, std::iter::once(key.to_string()).chain(rest).collect())
}

fn decode(words: &[String]) -> Option<Answer> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let node = |text: &str| text.parse().ok().map(Node);
    let mode = |text: &str| MODES.get(text.parse::<usize>().ok()?).copied();
    Some(match words[..] {
        ["done"] => Answer::Done,
        ["other run"] => Answer::OtherRun,
        ["unregistered"] => Answer::Unregistered,
        ["closed"] => Answer::Closed,
        ["unsettled"] => Answer::Unsettled,
        ["lapsed", of] => Answer::Lapsed(node(of)?),
        ["claimed", of] => Answer::Claimed(node(of)?),
        ["drained", unsettled] => Answer::Drained { unsettled: unsettled == "1" },
        ["granted", to, generation, newest, unheld] => Answer::Granted {
            mode: mode(to)?,
            generation: generation.parse().ok()?,
            newest: newest == "1",
            unheld: unheld == "1",
        },
        ["session", at, opened, suspect, lapsed] => Answer::Session {
            at: Time::from_millis(at.parse().ok()?),
            opened: opened == "1",
            lapsed: if lapsed == "-" { None } else { Some(node(lapsed)?) },
            suspect: suspect == "1",
        },
        ["recall", to, ref holds @ ..] => {
            let pair = |pair: &[&str]| Some((node(pair.first()?)?, pair.get(1)?.parse().ok()?));
            Answer::Recall { nodes: holds.chunks(2).map(pair).collect::<Option<_>>()?, mode: mode(to)? }
        }
        _ => return None,
    })
}

/// Serves a request by the script. `now`: a time in the place of the server's clock.
pub(super) fn serve(state: &RedisState, now: Option<Time>, caller: Caller, request: &Request) -> Result<Answer> {
    let (name, part, arguments) = encode(request);
    let part = format!("holders.{part}");
    let keys = ["holders", "holders.links", "holders.sessions", &part, "holders.generations"].map(|key| state.key(key));
    let fixed = [
        name.to_owned(),
        caller.node.0.to_string(),
        caller.run.0.to_string(),
        caller.link.to_string(),
        millis(Config::default().session),
        now.map(millis).unwrap_or_default(),
    ];
    let words: Vec<String> = state.with(|connection| {
        let script = match NAME.get() {
            Some(script) => script.clone(),
            None => cmd("SCRIPT").arg("LOAD").arg(SCRIPT).query(connection)?,
        };
        let mut call = cmd("EVALSHA");
        call.arg(NAME.get_or_init(|| script)).arg(keys.len()).arg(&keys).arg(&fixed).arg(&arguments);
        match call.query(connection) {
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
                cmd("SCRIPT").arg("LOAD").arg(SCRIPT).exec(connection)?;
                call.query(connection)
            }
            done => done,
        }
    })?;
    decode(&words).ok_or_else(|| not_understood("an entry of the table of holders"))
}
