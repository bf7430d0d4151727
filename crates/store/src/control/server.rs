//! The daemon's end of the socket: a thread per connection, a bounded number of them, and one that watches for callers
//! that went away.

use super::wire::{Answer, LINE_BYTES_MAX, Request, read_line};
use super::{Caller, Handler, Problem, Responder, exit};
use crate::stage::Stop;
use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::socket_peercred;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{self, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Limits of a server, and for whom it is.
#[derive(Clone, Copy, Debug)]
pub struct ServerOptions {
    /// Whether every user of the machine may connect (a volume run by root for everybody).
    pub everybody: bool,
    /// Connections at the same time; further ones are told to come again.
    pub connections_max: usize,
    /// A connection without request for so long is closed.
    pub idle: Duration,
}

impl Default for ServerOptions {
    fn default() -> Self {
        // 64 connections: every one is a thread; far more than people type commands at the same time.
        ServerOptions { everybody: false, connections_max: 64, idle: Duration::from_secs(30) }
    }
}

/// How often callers are looked after. Within this time a request hears that its caller went away.
const WATCH_EVERY: Duration = Duration::from_millis(200);

/// The end waits so long for answers under way, that of the command that asked for it among them: unmounting may take a while. A guess.
const ANSWERS_SPAN: Duration = Duration::from_secs(10);

/// A request under way: the caller's end of it, and what stops it.
type UnderWay = (Weak<UnixStream>, Arc<Stop>);

struct Shared {
    options: ServerOptions,
    handlers: BTreeMap<String, Arc<dyn Handler>>,
    connections: AtomicUsize,
    /// By a number of their own.
    requests: Mutex<BTreeMap<u64, UnderWay>>,
    next_request: AtomicU64,
    stopping: AtomicBool,
}

/// A socket that callers can reach and nobody serves yet: they wait until all commands are there. A daemon that has just
/// started so never tells anybody that it does not know a command.
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
        let mode = if options.everybody { 0o666 } else { 0o600 };
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))?;
        Ok(Binding { listener, path: path.to_path_buf(), options, handlers: BTreeMap::new() })
    }

    /// Sends the commands `PREFIX` and `PREFIX.*` to `handler`.
    pub fn register(&mut self, prefix: &str, handler: Arc<dyn Handler>) {
        self.handlers.insert(prefix.to_string(), handler);
    }

    /// Serves those who wait, and whoever comes.
    pub fn serve(self) -> io::Result<Server> {
        let Binding { listener, path, options, handlers } = self;
        let shared = Arc::new(Shared {
            options,
            handlers,
            connections: AtomicUsize::new(0),
            requests: Mutex::default(),
            next_request: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
        });
        let (to_accept, to_watch) = (shared.clone(), shared.clone());
        let threads = vec![
            thread::Builder::new().name("control".into()).spawn(move || accept(&to_accept, &listener))?,
            thread::Builder::new().name("control-watch".into()).spawn(move || watch(&to_watch))?,
        ];
        Ok(Server { shared, path, threads: Mutex::new(threads) })
    }
}

/// Listens until it is stopped or dropped.
pub struct Server {
    shared: Arc<Shared>,
    path: PathBuf,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Server {
    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Takes no further request, stops those under way and waits a while for their answers.
    pub fn stop(&self) {
        if self.shared.stopping.swap(true, Ordering::AcqRel) {
            return;
        }
        for (_, stop) in self.shared.requests.lock().values() {
            stop.set();
        }
        // Wakes the thread that accepts.
        drop(UnixStream::connect(&self.path));
        for thread in self.threads.lock().drain(..) {
            drop(thread.join());
        }
        let until = Instant::now() + ANSWERS_SPAN;
        while !self.shared.requests.lock().is_empty() && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
        drop(std::fs::remove_file(&self.path));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(shared: &Arc<Shared>, listener: &UnixListener) {
    for stream in listener.incoming() {
        if shared.stopping.load(Ordering::Acquire) {
            return;
        }
        let stream = match stream {
            Ok(stream) => stream,
            Err(e) => {
                // Out of descriptors or memory: wait for others to give some back rather than spin.
                tracing::warn!("control socket: {e}");
                thread::sleep(WATCH_EVERY);
                continue;
            }
        };
        if shared.connections.fetch_add(1, Ordering::AcqRel) >= shared.options.connections_max {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
            let problem = Problem::busy("the daemon serves as many clients as it can");
            drop(send(&stream, &Answer { error: Some(problem), ..Answer::default() }));
            continue;
        }
        let for_thread = shared.clone();
        let started = thread::Builder::new().name("control-client".into()).spawn(move || {
            if let Err(e) = converse(&for_thread, stream) {
                tracing::debug!("control connection: {e}");
            }
            for_thread.connections.fetch_sub(1, Ordering::AcqRel);
        });
        if started.is_err() {
            shared.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Stops requests whose caller hung up.
fn watch(shared: &Shared) {
    while !shared.stopping.load(Ordering::Acquire) {
        thread::sleep(WATCH_EVERY);
        let requests: Vec<_> =
            shared.requests.lock().values().filter_map(|(s, stop)| Some((s.upgrade()?, stop.clone()))).collect();
        for (stream, stop) in requests {
            let mut fds = [PollFd::new(&*stream, PollFlags::empty())];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if poll(&mut fds, Some(&at_once)).is_ok() && fds[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) {
                stop.set();
            }
        }
    }
}

fn converse(shared: &Shared, stream: UnixStream) -> io::Result<()> {
    let peer = socket_peercred(&stream)?;
    let caller = Caller { uid: peer.uid.as_raw(), gid: peer.gid.as_raw(), pid: peer.pid.as_raw_nonzero().get() };
    stream.set_read_timeout(Some(shared.options.idle))?;
    stream.set_write_timeout(Some(shared.options.idle))?;
    let stream = Arc::new(stream);
    let mut lines = BufReader::new(&*stream);
    while let Some(line) = read_line(&mut lines, LINE_BYTES_MAX)? {
        if shared.stopping.load(Ordering::Acquire) {
            break;
        }
        let request: Request = match serde_json::from_slice(&line) {
            Ok(request) => request,
            Err(e) => {
                let problem = Problem::wrong(format!("the request is not understood: {e}"));
                send(&stream, &Answer { error: Some(problem), ..Answer::default() })?;
                continue;
            }
        };
        let (id, stop) = (request.id, Arc::new(Stop::default()));
        let number = shared.next_request.fetch_add(1, Ordering::Relaxed);
        shared.requests.lock().insert(number, (Arc::downgrade(&stream), stop.clone()));
        let mut answer = match serve(shared, &stream, &caller, request, stop) {
            Ok(result) => Answer { result: Some(result), ..Answer::default() },
            Err(problem) => Answer { error: Some(problem), ..Answer::default() },
        };
        answer.id = id;
        let sent = send(&stream, &answer);
        shared.requests.lock().remove(&number);
        sent?;
    }
    Ok(())
}

fn serve(
    shared: &Shared,
    stream: &Arc<UnixStream>,
    caller: &Caller,
    request: Request,
    stop: Arc<Stop>,
) -> Result<Value, Problem> {
    let prefix = request.command.split('.').next().unwrap_or_default();
    let Some(handler) = shared.handlers.get(prefix).cloned() else {
        return Err(Problem::wrong(format!("the daemon knows no command `{}`", request.command))
            .try_this("use the `entrepot` of the same version as the daemon"));
    };
    let id = request.id;
    let mut progress = |value: Value| send(stream, &Answer { id, progress: Some(value), ..Answer::default() }).is_ok();
    let mut out = Responder::new(&mut progress, stop);
    // A bug in one handler must not take the daemon with it.
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
