//! A process that holds namespaces open, which have no name outside and end with it.
//!
//! It ends when its input does. So all that was started in them is gone when the owner drops it, and when this process
//! dies, however it does.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Namespaces, and the process that holds them.
pub struct Space {
    process: Child,
    input: Option<ChildStdin>,
    /// A process in the namespaces, as a pid of the outside.
    pub pid: u32,
}

/// Timeout of the set-up of namespaces.
const SETUP: Duration = Duration::from_secs(60);

impl Space {
    /// Runs a script in new namespaces and keeps them.
    ///
    /// # Errors
    /// Namespaces, or something of the script, that is not allowed here.
    pub fn start(namespaces: &[&str], script: &str) -> Result<Space, String> {
        // /proc is still the one outside, and so is the number there.
        let script = format!("read -r pid _ </proc/self/stat\n{script}\necho $pid; read -r _ || true");
        let mut command = Command::new("unshare");
        command.args(namespaces).args(["bash", "-ec", &script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("unshare: {error}"))?;
        let input = process.stdin.take();
        let lines = Lines::of(process.stdout.take().expect("piped"));
        let pid = lines.next(SETUP).and_then(|line| line.parse().ok());
        let mut space = Space { process, input, pid: pid.unwrap_or_default() };
        if pid.is_none() {
            space.end();
            let mut why = String::new();
            let said = space.process.stderr.take().expect("piped").read_to_string(&mut why);
            return Err(format!("namespaces: {}", said.map_or_else(|error| error.to_string(), |_| why.trim().into())));
        }
        Ok(space)
    }

    fn end(&mut self) {
        drop(self.input.take());
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.end();
    }
}

/// Lines of a process, with a limit on the wait for each.
pub struct Lines(Receiver<String>);

impl Lines {
    pub fn of(from: impl Read + Send + 'static) -> Lines {
        let (send, receive) = channel();
        std::thread::spawn(move || {
            BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        Lines(receive)
    }

    /// The next one; none at the end or when none came in time.
    pub fn next(&self, within: Duration) -> Option<String> {
        self.0.recv_timeout(within).ok()
    }
}
