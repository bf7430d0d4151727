//! A Redis server of a test's own, on a Unix socket.

use super::real;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A server that syncs every write; ended with the test.
pub struct Redis {
    pub dir: tempfile::TempDir,
    process: Child,
}

impl Redis {
    /// Starts a server; `None` after a message if it is not installed.
    pub fn start() -> Option<Redis> {
        let dir = tempfile::Builder::new().prefix("entrepot-redis").tempdir().expect("temp dir");
        let mut command = Command::new("redis-server");
        command.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--dir"]);
        command.arg(dir.path()).arg("--unixsocket").arg(dir.path().join("socket"));
        let process = match command.stdout(Stdio::null()).stderr(Stdio::null()).spawn() {
            Ok(process) => process,
            Err(error) => {
                eprintln!("skipped: redis-server: {error} (scripts/setup.sh installs it)");
                return None;
            }
        };
        let redis = Redis { dir, process };
        real::until("the server is up", || std::os::unix::net::UnixStream::connect(redis.socket()).is_ok());
        Some(redis)
    }

    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    /// A `volume.toml` whose state is there.
    pub fn keeps_state(&self, text: &str) -> String {
        let line = format!("state_store = \"unix://{}\"\n\n[tier.fast]", self.socket().display());
        text.replacen("[tier.fast]", &line, 1)
    }

    pub fn end(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.end();
    }
}
