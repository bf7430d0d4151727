//! The state store in a Redis server, for a volume whose state must outlive this machine's disk.
//!
//! ```text
//! entrepot:VOLUME:schema              version of what follows
//! entrepot:VOLUME:sequence            hash   name -> last number
//! entrepot:VOLUME:target.name         hash   number -> name;  target.number the other way;  target.state  number -> state, by whom
//! entrepot:VOLUME:journal             hash   file -> path, inode, objects
//! entrepot:VOLUME:garbage             set of TARGET:OBJECT in hexadecimal, ordered
//! entrepot:VOLUME:staging             hash   key -> progress
//! entrepot:VOLUME:record.KIND         hash   key -> value
//! ```
//! Keys of one node alone are below `entrepot:VOLUME:at.NODE:`: journal, stagings, and records except those of the
//! state, the burst buffer, known jobs, quotas, scrubs, balancing and accounts.
//!
//! Several volumes may share a server. Changes that belong together are one script or one transaction. The server has
//! to sync every write (`appendonly yes`, `appendfsync always`), or acknowledged changes could be lost. A server that
//! reports other settings is refused.
//!
//! One connection. Every wait is bounded. A broken connection is replaced once, and while the server is away calls fail
//! at once.

mod address;
mod holders;
mod scripts;
mod tables;
mod values;

pub use address::Address;

use crate::state::{TargetRecord, Told};
use crate::{Error, Result};
use object::counters::Timed;
use object::newer::newer_than;
use parking_lot::Mutex;
use redis::{Connection, ErrorKind, PubSub, RedisError, RedisResult, ServerErrorKind};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Timeout of a connection. A guess: a server in the same machine room answers in milliseconds.
const CONNECT_SPAN: Duration = Duration::from_secs(2);
/// How long to wait for an answer. A guess: a synced write behind a busy disk.
const ANSWER_SPAN: Duration = Duration::from_secs(5);
/// Backoff after a failure to connect.
const AWAY_SPAN: Duration = Duration::from_secs(1);
/// Interval of retries while a server is loading.
const LOADING_SPAN: Duration = Duration::from_millis(20);
/// Interval at which a listener checks whether to stop.
const LISTEN_SPAN: Duration = Duration::from_millis(500);
/// Silence of a subscription after which the server must answer. A guess: about one renewal of a lease.
const PING_SPAN: Duration = Duration::from_secs(2);
/// Suffix of the name of a node whose state another node took over.
const TAKEN: &str = ".taken";
/// Kinds of records that all nodes share begin with these, beside those of the state itself.
const OF_ALL: [&str; 6] = ["accounting", "balance", "burst.", "jobs.", "quota", "scrub"];
/// Version of the key layout.
const SCHEMA: u32 = 1;

/// A server that answered.
pub struct Server {
    address: Address,
    link: Mutex<Link>,
    pinned: OnceLock<Pinned>,
}

/// A record that distinguishes this state from others, by its key, field and value.
#[derive(Clone)]
struct Pinned {
    key: String,
    field: String,
    value: Vec<u8>,
}

#[derive(Default)]
struct Link {
    connection: Option<Connection>,
    /// Number of connections so far.
    made: u64,
    away: Option<(Instant, String)>,
}

/// The state store of one volume in a server.
pub struct RedisState {
    server: Server,
    prefix: String,
    /// Node that owns the journal, stagings and records; `None` if only one daemon has the volume.
    own: Option<String>,
    timed: Timed,
    /// Number of the connection over which the run was read; 0: not read.
    run_at: AtomicU64,
}

impl Server {
    /// Connects, and checks whether the server keeps acknowledged writes.
    pub fn reach(address: &Address) -> Result<Server> {
        let server = Server::at(address);
        server.with(is_synced)?.map_err(|why| server.refused(&why))?;
        Ok(server)
    }

    /// Returns the time of the server's clock.
    pub fn time(&self) -> Result<SystemTime> {
        let (s, us) = self.with(|connection| redis::cmd("TIME").query::<(u64, u64)>(connection))?;
        Ok(UNIX_EPOCH + Duration::from_secs(s) + Duration::from_micros(us))
    }

    fn at(address: &Address) -> Server {
        Server { address: address.clone(), link: Mutex::default(), pinned: OnceLock::new() }
    }

    /// Address of the server, without a password.
    fn address(&self) -> String {
        self.address.shown()
    }

    fn refused(&self, why: &str) -> Error {
        Error::State(format!("{} {why}", self.address()))
    }

    /// Runs `act` with the connection, which is replaced if it is broken.
    fn with<T>(&self, mut act: impl FnMut(&mut Connection) -> RedisResult<T>) -> Result<T> {
        let mut link = self.link.lock();
        let held = link.connection.is_some();
        let mut error = match self.attempt(&mut link, &mut act)? {
            Ok(value) => return Ok(value),
            Err(error) => error,
        };
        // The server may have closed an idle connection, and the client gives up waiting after its process was stopped.
        // A repetition is safe, as all calls are idempotent.
        let dropped = held && error.is_connection_dropped() && !error.is_timeout();
        if dropped || is_interrupted(&error) || is_replica(&error) || is_loading(&error) {
            match self.attempt(&mut link, &mut act)? {
                Ok(value) => return Ok(value),
                Err(again) => error = again,
            }
        }
        let text = if error.is_timeout() {
            format!("no answer within {} s", ANSWER_SPAN.as_secs())
        } else {
            error.to_string()
        };
        Err(Error::State(format!("{}: {text}", self.address())))
    }

    fn attempt<T>(
        &self,
        link: &mut Link,
        act: &mut impl FnMut(&mut Connection) -> RedisResult<T>,
    ) -> Result<RedisResult<T>> {
        let mut connection = match link.connection.take() {
            Some(connection) => connection,
            None => self.connect(link)?,
        };
        let done = act(&mut connection);
        // After another error, a late answer on this connection would be taken for the next request's.
        if !done.as_ref().is_err_and(broken) {
            link.connection = Some(connection);
        }
        Ok(done)
    }

    fn connect(&self, link: &mut Link) -> Result<Connection> {
        if let Some((since, why)) = &link.away
            && since.elapsed() < AWAY_SPAN
        {
            return Err(Error::State(why.clone()));
        }
        let made = self.address.connect(CONNECT_SPAN).and_then(|mut connection| {
            connection.set_read_timeout(Some(ANSWER_SPAN))?;
            connection.set_write_timeout(Some(ANSWER_SPAN))?;
            // A server that has just started reads its file first.
            let began = Instant::now();
            while let Err(error) = redis::cmd("PING").exec(&mut connection) {
                if !is_loading(&error) || began.elapsed() >= ANSWER_SPAN {
                    return Err(error);
                }
                std::thread::sleep(LOADING_SPAN);
            }
            // A server that replaced another may have other settings, or other data.
            let synced = if self.address.may_change() { is_synced(&mut connection)? } else { Ok(()) };
            let usable = match self.pinned.get() {
                Some(pinned) if synced.is_ok() => pinned.check(&mut connection)?,
                _ => synced,
            };
            Ok((connection, usable))
        });
        match made {
            Ok((connection, usable)) => {
                if let Err(why) = usable {
                    let error = self.refused(&why);
                    link.away = Some((Instant::now(), error.to_string()));
                    return Err(error);
                }
                link.away = None;
                link.made += 1;
                Ok(connection)
            }
            Err(error) => {
                let why = match is_shut(&error) {
                    true => format!(
                        "{} refuses the login of this node: {error}. Put its password into the file that \
                         `state_password_file` in volume.toml \
                         names; nothing of the volume is lost",
                        self.address()
                    ),
                    false => format!(
                        "{} cannot be reached: {error}. Start it, or correct `state` (or `state_store`) in volume.toml; nothing of the volume is lost",
                        self.address()
                    ),
                };
                link.away = Some((Instant::now(), why.clone()));
                Err(Error::State(why))
            }
        }
    }
}

impl Pinned {
    /// Whether the server at the other end has this record, or the reason for a refusal.
    fn check(&self, connection: &mut Connection) -> RedisResult<std::result::Result<(), String>> {
        let found: Option<Vec<u8>> = redis::cmd("HGET").arg(&self.key).arg(&self.field).query(connection)?;
        let is = match found {
            Some(found) if found == self.value => return Ok(Ok(())),
            Some(_) => "another state of this volume",
            None => "no state of this volume",
        };
        Ok(Err(format!(
            "holds {is}: this node does not use it, as if it were away. Start the server with its own data; if they are lost, take all \
             nodes down and see docs/guide/operate/backup.md, \"The state is lost\""
        )))
    }
}

fn is_interrupted(error: &RedisError) -> bool {
    type Shared = std::sync::Arc<dyn std::error::Error + Send + Sync>;
    let source = std::error::Error::source(error).and_then(|source| source.downcast_ref::<Shared>());
    let source = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    source.is_some_and(|source| source.kind() == std::io::ErrorKind::Interrupted)
}

/// The password is missing or wrong.
fn is_shut(error: &RedisError) -> bool {
    error.kind() == ErrorKind::AuthenticationFailed || matches!(error.code(), Some("NOAUTH" | "WRONGPASS" | "NOPERM"))
}

/// Whether another server has replaced this one, which accepts no more writes.
fn is_replica(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
}

/// Whether a server keeps what it acknowledges, or why it is refused.
fn is_synced(connection: &mut Connection) -> RedisResult<std::result::Result<(), String>> {
    for (key, wanted) in [("appendonly", "yes"), ("appendfsync", "always")] {
        let found: RedisResult<Vec<String>> = redis::cmd("CONFIG").arg("GET").arg(key).query(connection);
        match found {
            Ok(found) if found.get(1).is_some_and(|value| value == wanted) => {}
            Ok(found) => {
                let value = found.get(1).map_or("nothing", String::as_str);
                return Ok(Err(format!(
                    "does not keep what it acknowledges: its `{key}` is {value}. The volume is not opened, since a loss of power there \
                     would lose moves and checkpoints. Set `{key} {wanted}` in its redis.conf, or at once: redis-cli CONFIG SET {key} \
                     {wanted}"
                )));
            }
            Err(error) if broken(&error) || error.code() == Some("NOAUTH") => return Err(error),
            Err(error) => {
                tracing::warn!(
                    "the Redis server does not report whether it syncs its writes ({error}); it is assumed to"
                );
                return Ok(Ok(()));
            }
        }
    }
    Ok(Ok(()))
}

/// Fails if the server of a subscription does not answer. A host that loses power closes no connection.
fn ping(ear: &mut PubSub<'_>) -> RedisResult<()> {
    ear.set_read_timeout(Some(ANSWER_SPAN))?;
    ear.ping::<redis::Value>()?;
    ear.set_read_timeout(Some(LISTEN_SPAN))
}

fn is_loading(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::BusyLoading)
}

fn broken(error: &RedisError) -> bool {
    is_replica(error)
        || is_loading(error)
        || error.is_io_error()
        || error.is_timeout()
        || error.is_connection_dropped()
        || error.is_unrecoverable_error()
}

impl RedisState {
    /// The state of a volume, which is named by its id.
    /// `own` names the node, where several have the volume.
    pub fn open(server: Server, volume: &str, own: Option<String>) -> Result<RedisState> {
        let state = RedisState::of(server, volume, own);
        let key = state.key("schema");
        let schema: u32 = state.with(|connection| {
            redis::cmd("SET").arg(&key).arg(SCHEMA).arg("NX").exec(connection)?;
            redis::cmd("GET").arg(&key).query(connection)
        })?;
        state.check(schema)?;
        state.take_over()?;
        Ok(state)
    }

    /// The targets that a volume has had so far, without changing anything.
    pub fn known_targets(address: &Address, volume: &str) -> Result<Vec<TargetRecord>> {
        let state = RedisState::of(Server::at(address), volume, None);
        let key = state.key("schema");
        let schema: Option<u32> = state.with(|connection| redis::cmd("GET").arg(&key).query(connection))?;
        state.check(schema.unwrap_or(SCHEMA))?;
        tables::targets(&state)
    }

    fn check(&self, schema: u32) -> Result<()> {
        let what = || format!("this volume's state at {}", self.server.address());
        if schema <= SCHEMA { Ok(()) } else { Err(Error::Newer(newer_than(&what(), schema, SCHEMA))) }
    }

    /// Returns the state without changing anything in the server, for inspection.
    pub fn untouched(server: Server, volume: &str) -> RedisState {
        RedisState::of(server, volume, None)
    }

    /// Whether any node stored more than the rows that a refused start leaves.
    pub fn is_used(&self) -> Result<bool> {
        let keys: Vec<String> = self.with(|c| redis::cmd("KEYS").arg(format!("{}*", self.prefix)).query(c))?;
        Ok(keys.iter().any(|key| !["schema", "record.state"].map(|name| self.key(name)).contains(key)))
    }

    fn of(server: Server, volume: &str, own: Option<String>) -> RedisState {
        RedisState {
            server,
            prefix: format!("entrepot:{volume}:"),
            own,
            timed: Timed::default(),
            run_at: AtomicU64::new(0),
        }
    }

    /// Returns a key. Keys of one node alone have a prefix of their own: journal, stagings, and most records.
    fn key(&self, name: &str) -> String {
        let kind = name.strip_prefix("record.");
        let is_all = kind.is_some_and(|kind| kind == "state" || OF_ALL.iter().any(|of_all| kind.starts_with(of_all)));
        let is_own = name == "journal" || name == "staging" || (name.starts_with("record.") && !is_all);
        match &self.own {
            Some(own) if is_own => format!("{}at.{own}:{name}", self.prefix),
            _ => format!("{}{name}", self.prefix),
        }
    }

    /// Takes over keys from a time when only one node had the volume.
    fn take_over(&self) -> Result<()> {
        let Some(own) = &self.own else { return Ok(()) };
        let prefix = format!("{}record.", self.prefix);
        let records: Vec<String> = self.with(|c| redis::cmd("KEYS").arg(format!("{prefix}*")).query(c))?;
        let names = records.iter().filter_map(|key| key.strip_prefix(&self.prefix)).map(str::to_owned);
        for name in names.chain(["journal".to_owned(), "staging".to_owned()]) {
            let (from, to) = (format!("{}{name}", self.prefix), self.key(&name));
            if from != to {
                self.rename(&from, &to)?;
            }
        }
        // The burst buffer used to belong to one node.
        let own = format!("{}at.{own}:", self.prefix);
        let mine: Vec<String> = self.with(|c| redis::cmd("KEYS").arg(format!("{own}record.burst.*")).query(c))?;
        mine.iter().try_for_each(|key| self.rename(key, &self.key(key.strip_prefix(&own).unwrap_or(key))))
    }

    /// Renames a key, if it exists, unless the new name exists.
    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.with(|c| match redis::cmd("RENAMENX").arg(from).arg(to).exec(c) {
            Err(error) if error.code() == Some("ERR") => Ok(()),
            done => done,
        })
    }

    /// Renames another node's keys, out of its reach. If keys of an earlier takeover remain, returns those first.
    fn take_from(&self, own: &str) -> Result<RedisState> {
        let taken = format!("{own}{TAKEN}");
        let (from, to) = (format!("{}at.{own}:", self.prefix), format!("{}at.{taken}:", self.prefix));
        let there = |start: &str| self.with(|c| redis::cmd("KEYS").arg(format!("{start}*")).query::<Vec<String>>(c));
        if there(&to)?.is_empty() {
            for key in there(&from)? {
                let name = key.strip_prefix(&from).unwrap_or_default();
                self.rename(&key, &format!("{to}{name}"))?; // it may have taken it away itself
            }
        }
        let server = Server { pinned: self.server.pinned.clone(), ..Server::at(&self.server.address) };
        let (prefix, run_at) = (self.prefix.clone(), AtomicU64::new(0));
        Ok(RedisState { server, prefix, own: Some(taken), timed: Timed::default(), run_at })
    }

    fn with<T>(&self, act: impl FnMut(&mut Connection) -> RedisResult<T>) -> Result<T> {
        self.timed.during(|| self.server.with(act))
    }

    fn listen_while(&self, goes_on: &dyn Fn() -> bool, hear: &mut dyn FnMut(Told<'_>)) -> RedisResult<()> {
        let mut connection = self.server.address.connect(CONNECT_SPAN)?;
        connection.set_read_timeout(Some(LISTEN_SPAN))?;
        connection.set_write_timeout(Some(ANSWER_SPAN))?;
        let mut ear = connection.as_pubsub();
        ear.subscribe(self.key("bell"))?;
        if let Some(own) = &self.own {
            ear.subscribe(self.key(&format!("bell.{own}")))?;
        }
        hear(Told::Listening);
        let mut heard = Instant::now();
        while goes_on() {
            if heard.elapsed() >= PING_SPAN {
                ping(&mut ear)?;
                heard = Instant::now();
            }
            match ear.get_message() {
                Ok(message) => {
                    heard = Instant::now();
                    hear(Told::Message(&message.get_payload::<String>()?));
                }
                Err(error) if error.is_timeout() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
