//! The command line's end of the socket.

use super::trust::Trust;
use super::wire::{self, Answer, LINE_BYTES_MAX, read_line};
use super::{Problem, Request, Result, exit};
use serde::Serialize;
use serde_json::Value;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A connection to a daemon, for one request after the other.
pub struct Client {
    path: PathBuf,
    stream: BufReader<UnixStream>,
    next_id: u64,
}

/// Interval of checks whether a daemon that does not hang up is dead.
const END_LOOK_EVERY: Duration = Duration::from_millis(100);

/// Whether a process is gone, or is a zombie.
pub fn is_dead(pid: i32) -> bool {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return true };
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

fn foreign(path: &Path, user: u32) -> Problem {
    Problem::denied(format!("user {user} listens on {}, neither root nor you", path.display()))
        .so("nothing was sent there")
        .try_this(format!(
            "name another volume with `--volume`; for one of that user act as the user: `sudo -u '#{user}' entrepot ...`"
        ))
}

impl Client {
    /// Connects to the daemon that listens on `path`. Refuses a daemon of a user other than root and the caller.
    pub fn connect(path: &Path) -> Result<Client> {
        let stream = UnixStream::connect(path).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => {
                Problem::denied(format!("the control socket {} is closed to you", path.display()))
                    .try_this("the volume is run by another user for themselves; ask them, or use a volume of your own")
            }
            _ => Problem::new(exit::NO_DAEMON, format!("no daemon answers on {}: {e}", path.display()))
                .try_this("start the volume with `entrepot up VOLUME.TOML --at MOUNTPOINT`"),
        })?;
        let user = rustix::net::sockopt::socket_peercred(&stream).map(|peer| peer.uid.as_raw());
        match user {
            Ok(user) if Trust::of_process().daemon(user) => {}
            Ok(user) => return Err(foreign(path, user)),
            Err(e) => {
                return Err(Problem::failed(format!(
                    "the kernel does not report who listens on {}: {e}",
                    path.display()
                )));
            }
        }
        Ok(Client { path: path.to_path_buf(), stream: BufReader::new(stream), next_id: 1 })
    }

    /// Sets the longest silence during a request; `None`: no limit.
    pub fn set_timeout(&mut self, timeout: Option<Duration>) -> Result<()> {
        self.stream.get_ref().set_read_timeout(timeout).map_err(|e| self.broken(&e))
    }

    /// Process id of the listener, from the kernel: available even if the process no longer answers.
    pub fn daemon_pid(&self) -> Option<i32> {
        let peer = rustix::net::sockopt::socket_peercred(self.stream.get_ref()).ok()?;
        Some(peer.pid.as_raw_nonzero().get())
    }

    /// Waits until the daemon hangs up, which happens when its process ends. Also returns when the process is dead
    /// except for a thread that hangs in a device: the kernel ends that thread when the device answers.
    pub fn wait_for_end(&mut self) -> Result<()> {
        self.set_timeout(Some(END_LOOK_EVERY))?;
        while !matches!(read_line(&mut self.stream, LINE_BYTES_MAX), Ok(None)) {
            if self.daemon_pid().is_none_or(is_dead) {
                break;
            }
        }
        Ok(())
    }

    /// Sends a request to the store and waits for its end. `progress` gets each line of progress.
    pub fn ask(&mut self, request: &Request, progress: &mut dyn FnMut(Value)) -> Result<Value> {
        self.send(request, progress)
    }

    /// Sends a request and waits for its end. `progress` gets each line of progress.
    pub fn request(&mut self, command: &str, args: impl Serialize, progress: &mut dyn FnMut(Value)) -> Result<Value> {
        self.send(wire::Command { command, args }, progress)
    }

    fn send(&mut self, what: impl Serialize, progress: &mut dyn FnMut(Value)) -> Result<Value> {
        let id = self.next_id;
        self.next_id += 1;
        let mut line = serde_json::to_vec(&wire::Sent { id, what })
            .map_err(|e| Problem::wrong(format!("the request cannot be encoded: {e}")))?;
        if line.len() as u64 >= LINE_BYTES_MAX {
            return Err(Problem::wrong(format!("the request is longer than {LINE_BYTES_MAX} bytes"))
                .try_this("ask for less at once"));
        }
        line.push(b'\n');
        // A daemon that is full sends an error and hangs up: read its answer even when the request could not be sent.
        let sent = self.stream.get_mut().write_all(&line);
        loop {
            let line = match read_line(&mut self.stream, LINE_BYTES_MAX) {
                Ok(Some(line)) => line,
                Ok(None) => return Err(self.broken(&sent.err().unwrap_or(io::ErrorKind::UnexpectedEof.into()))),
                Err(e) => return Err(self.broken(&sent.err().unwrap_or(e))),
            };
            let answer: Answer = serde_json::from_slice(&line).map_err(|e| {
                Problem::failed(format!("the daemon's answer is not valid: {e}"))
                    .so("the request may have been carried out")
                    .try_this("use the `entrepot` of the same version as the daemon")
            })?;
            if let Some(problem) = answer.error {
                return Err(problem);
            } else if let Some(result) = answer.result {
                return Ok(result);
            } else if let Some(value) = answer.progress {
                progress(value);
            }
        }
    }

    fn broken(&self, e: &io::Error) -> Problem {
        let cause = match e.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "the daemon did not answer in time".to_string(),
            _ => format!("the connection to the daemon on {} broke: {e}", self.path.display()),
        };
        Problem::new(exit::NO_DAEMON, cause)
            .so("the request may have been carried out")
            .try_this("look at `entrepot status` and at the daemon's log, then repeat the command")
    }
}
