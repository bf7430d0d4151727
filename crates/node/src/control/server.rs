//! The daemon's end of the socket: a thread per connection, a bounded number of connections with a share for each
//! user. One more thread accepts connections, and watches for callers that hang up, while there are requests.

use super::lines::{End, LineLimits, Lines, is_of_few_parts};
use super::wire::{Answer, LINE_BYTES_MAX, Request};
use super::{Caller, Handler, Problem, Responder, Result, exit};
use object::admission::Admission;
use object::stop::Stop;
use object::workers::apart;
use parking_lot::{Condvar, Mutex};
use policy::shares::Refusal;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::net::sockopt::socket_peercred;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::{Duration, Instant};

/// Limits and audience of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Whether every user of the machine may connect (a volume run by root for all users).
    pub everybody: bool,
    /// Maximum of concurrent connections; further ones receive an error with the advice to retry.
    pub connections_max: u64,
    /// Connections reserved for root and for the user that runs the daemon.
    pub connections_reserved: u64,
    /// Bytes of concurrent long requests.
    pub bodies_bytes_max: u64,
    /// Bytes of long requests reserved for root and for the user that runs the daemon.
    pub bodies_bytes_reserved: u64,
    /// Timeout of a connection without a request.
    pub idle: Duration,
    /// Timeout of an incomplete request.
    pub line: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        // 128 connections: each is a thread; far more than people type commands at the same time. For long requests,
        // users together have room for two of the longest, the operator for one.
        ServerOptions {
            everybody: false,
            connections_max: 128,
            connections_reserved: 16,
            bodies_bytes_max: 3 * LONGEST_BYTES,
            bodies_bytes_reserved: LONGEST_BYTES,
            idle: Duration::from_secs(30),
            line: Duration::from_secs(30),
        }
    }
}

/// Memory of the longest request.
const LONGEST_BYTES: u64 = LINE_BYTES_MAX + (64 << 10);

/// Pause after the system failed to accept a connection.
const PAUSE: Duration = Duration::from_millis(200);

/// Time for which the end waits for stopped requests: their callers should receive the outcome.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// A running request: the caller's end of the connection, and the signal that stops the request.
struct UnderWay {
    stream: Arc<UnixStream>,
    stop: Arc<Stop>,
}

struct Shared {
    options: ServerOptions,
    handlers: BTreeMap<String, Arc<dyn Handler>>,
    connections: Arc<Admission>,
    bodies: Arc<Admission>,
    /// Requests by serial number, until they are answered.
    requests: Mutex<BTreeMap<u64, UnderWay>>,
    /// Signalled when no request is left.
    answered: Condvar,
    /// Wakes the watching thread.
    changed: OwnedFd,
    next_request: AtomicU64,
    stopping: AtomicBool,
}

impl Shared {
    /// Wakes the watching thread after a change of the running requests.
    fn ring(&self) {
        // A full counter wakes the thread as well.
        let _ = rustix::io::write(&self.changed, &1u64.to_ne_bytes());
    }
}

/// A request, until it is answered.
struct Underway<'a>(&'a Shared, u64);

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let mut requests = self.0.requests.lock();
        requests.remove(&self.1);
        if requests.is_empty() {
            self.0.answered.notify_all();
        }
        drop(requests);
        self.0.ring();
    }
}

/// A socket that callers can reach and that is not served yet: callers wait until all commands are registered. So a
/// daemon that has just started never rejects a command as unknown.
pub struct Binding {
    listener: UnixListener,
    path: PathBuf,
    options: ServerOptions,
    handlers: BTreeMap<String, Arc<dyn Handler>>,
}

impl Binding {
    /// Binds `path`, replacing a socket that an earlier daemon left there.
    pub fn new(path: &Path, options: ServerOptions) -> io::Result<Binding> {
        match std::fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let listener = UnixListener::bind(path)?;
        listener.set_nonblocking(true)?;
        let mode = if options.everybody { 0o666 } else { 0o600 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        Ok(Binding { listener, path: path.to_path_buf(), options, handlers: BTreeMap::new() })
    }

    /// Sends the commands `PREFIX` and `PREFIX.*` to `handler`. An empty prefix stands for all other commands.
    pub fn register(&mut self, prefix: &str, handler: Arc<dyn Handler>) {
        self.handlers.insert(prefix.to_string(), handler);
    }

    /// Serves waiting and future connections.
    pub fn serve(self) -> io::Result<Server> {
        let Binding { listener, path, options, handlers } = self;
        let shared = Arc::new(Shared {
            options,
            handlers,
            connections: Admission::new(options.connections_max, options.connections_reserved),
            bodies: Admission::new(options.bodies_bytes_max, options.bodies_bytes_reserved),
            requests: Mutex::default(),
            answered: Condvar::new(),
            changed: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            next_request: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        });
        let to_watch = shared.clone();
        let watches = Mutex::new(Some(apart("control", move || watch(&to_watch, &listener))?));
        Ok(Server { shared, path, watches })
    }
}

/// A server that listens until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    path: PathBuf,
    /// Answered when the watching thread has ended.
    watches: Mutex<Option<Receiver<()>>>,
}

impl Server {
    /// Stops the running requests, accepts no further ones, and waits a little for the answers: one request may be
    /// the one that ends the daemon.
    pub fn stop(&self) {
        if self.shared.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut requests = self.shared.requests.lock();
        requests.values().for_each(|under_way| under_way.stop.set());
        let until = Instant::now() + ANSWER_PATIENCE;
        while !requests.is_empty() && !self.shared.answered.wait_until(&mut requests, until).timed_out() {}
        drop(requests);
        self.shared.ring();
        let _ = self.watches.lock().take().map(|watches| watches.recv());
        drop(std::fs::remove_file(&self.path));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Accepts a connection, if there is one.
fn accept(shared: &Arc<Shared>, listener: &UnixListener) {
    let stream = match listener.accept() {
        Ok((stream, _)) => Arc::new(stream),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => return,
        Err(e) => {
            // Descriptors or memory ran out: wait until some are released instead of spinning.
            tracing::warn!("control socket: {e}");
            return thread::sleep(PAUSE);
        }
    };
    if let Err(problem) = let_in(shared, &stream) {
        drop(send(&stream, &Answer { error: Some(problem), ..Answer::default() }));
    }
}

/// Serves a connection on a new thread, or returns the reason for the refusal.
fn let_in(shared: &Arc<Shared>, stream: &Arc<UnixStream>) -> Result<()> {
    let peer = socket_peercred(stream)
        .map_err(|e| Problem::failed(format!("the kernel does not report the user of the client: {e}")))?;
    let caller = Caller { uid: peer.uid.as_raw(), gid: peer.gid.as_raw() };
    let held = shared.connections.take(caller.uid, 1).map_err(|refusal| match refusal {
        Refusal::Share { held } => {
            Problem::busy(format!("you have {held} connections to the daemon, the limit of one user now"))
                .try_this("try again when some of your commands have ended")
        }
        Refusal::Full => Problem::busy("the daemon has reached its limit of clients"),
    })?;
    let (for_thread, stream) = (shared.clone(), stream.clone());
    let talk = move || {
        if let Err(e) = converse(&for_thread, &caller, &stream) {
            tracing::debug!("control connection: {e}");
        }
        drop((stream, held));
    };
    apart("control-client", talk)
        .map(drop)
        .map_err(|e| Problem::busy(format!("the daemon cannot start a thread for this client: {e}")))
}

/// Accepts connections, and stops requests whose caller hung up. Sleeps while nothing changes.
fn watch(shared: &Arc<Shared>, listener: &UnixListener) {
    while !shared.stopping.load(Ordering::Acquire) {
        let watched: Vec<_> = {
            let requests = shared.requests.lock();
            let waits = requests.values().filter(|under_way| !under_way.stop.is_set());
            waits.map(|under_way| (under_way.stream.clone(), under_way.stop.clone())).collect()
        };
        let mut fds = vec![PollFd::new(&shared.changed, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        fds.extend(watched.iter().map(|(stream, _)| PollFd::new(&**stream, PollFlags::empty())));
        if poll(&mut fds, None).is_err() {
            thread::sleep(PAUSE); // no memory
        }
        let gone = fds[2..].iter().map(|fd| fd.revents().intersects(PollFlags::HUP | PollFlags::ERR));
        watched.iter().zip(gone).filter(|(_, gone)| *gone).for_each(|((_, stop), _)| stop.set());
        let _ = rustix::io::read(&shared.changed, &mut [0; 8]);
        accept(shared, listener);
    }
}

fn converse(shared: &Shared, caller: &Caller, stream: &Arc<UnixStream>) -> io::Result<()> {
    let ServerOptions { idle, line, .. } = shared.options;
    stream.set_write_timeout(Some(idle))?;
    let mut lines =
        Lines::new(stream, LineLimits { idle, line, bytes_max: LINE_BYTES_MAX }, &shared.bodies, caller.uid);
    loop {
        let line = match lines.next() {
            Ok(Some(line)) => line,
            Ok(None) => return Ok(()),
            Err(End::Gone(e)) => return Err(e),
            Err(End::Refused(problem)) => return send(stream, &Answer { error: Some(problem), ..Answer::default() }),
        };
        if shared.stopping.load(Ordering::Acquire) {
            return Ok(());
        }
        let request: Request = match understand(&line.bytes) {
            Ok(request) => request,
            Err(problem) => {
                send(stream, &Answer { error: Some(problem), ..Answer::default() })?;
                continue;
            }
        };
        let id = request.id;
        let stop = Arc::new(Stop::default());
        let number = shared.next_request.fetch_add(1, Ordering::Relaxed);
        shared.requests.lock().insert(number, UnderWay { stream: stream.clone(), stop: stop.clone() });
        let _answered = Underway(shared, number);
        if shared.stopping.load(Ordering::Acquire) {
            stop.set();
        }
        shared.ring();
        let mut answer = match serve(shared, stream, caller, request, stop) {
            Ok(result) => Answer { result: Some(result), ..Answer::default() },
            Err(problem) => Answer { error: Some(problem), ..Answer::default() },
        };
        answer.id = id;
        send(stream, &answer)?;
    }
}

fn understand(line: &[u8]) -> Result<Request> {
    if !is_of_few_parts(line) {
        return Err(Problem::wrong("the request has too many parts").try_this("ask for less at once"));
    }
    serde_json::from_slice(line).map_err(|e| Problem::wrong(format!("the request is not understood: {e}")))
}

fn serve(shared: &Shared, stream: &UnixStream, caller: &Caller, request: Request, stop: Arc<Stop>) -> Result<Value> {
    let prefix = request.command.split('.').next().unwrap_or_default();
    let Some(handler) = shared.handlers.get(prefix).or(shared.handlers.get("")).cloned() else {
        return Err(Problem::wrong(format!("the daemon has no command `{}`", request.command))
            .try_this("use the `entrepot` of the same version as the daemon"));
    };
    let id = request.id;
    let mut progress = |value: Value| send(stream, &Answer { id, progress: Some(value), ..Answer::default() }).is_ok();
    let mut out = Responder::new(&mut progress, stop);
    // A bug in one handler must not end the daemon.
    let served = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        handler.handle(caller, &request.command, request.args, &mut out)
    }));
    served.unwrap_or_else(|_| {
        Err(Problem::new(exit::FAILED, format!("the daemon has a bug: `{}` panicked", request.command))
            .so("the request was given up half-way; the volume goes on")
            .try_this("please report it with the daemon's log"))
    })
}

fn send(mut stream: &UnixStream, answer: &Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    stream.write_all(&line)
}

#[cfg(test)]
mod tests;
