//! Mount commands of each kind of file system, with caches off.
//!
//! Several mounts of one directory must look like one. A mount that caches attributes, names or bytes shows stale
//! ones after a change over another mount. A mount that delays written bytes loses them when it breaks. So both are
//! disabled for each kind, and only the page cache of our own mount point remains.

use crate::client::Client;
use crate::gfapi::Session;
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Description of the file system to mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Type as for `mount -t`; `bind` for a local directory.
    pub kind: String,
    /// Servers: connection `j` leads to server `j mod` their number. All must export the same directory.
    pub servers: Vec<String>,
    /// Additional options for the mount command.
    pub options: Vec<String>,
}

/// GlusterFS's own caches, each of which has a pass-through option. `md-cache` is the attribute cache.
const GLUSTER_CACHES: [&str; 8] =
    ["write-behind", "quick-read", "md-cache", "open-behind", "io-cache", "read-ahead", "readdir-ahead", "nl-cache"];

/// Translator that hands each operation to threads of its own. A mount needs it, since one thread takes its requests
/// from the kernel. Over the library every thread of ours brings its own, and waking another one is a quarter of the
/// cost of a small read.
const GLUSTER_THREADS: &str = "io-threads";

impl Recipe {
    /// Checks the description before anything is mounted.
    pub fn check(&self) -> Result<(), String> {
        if self.servers.is_empty() || self.servers.iter().any(|server| server.trim().is_empty()) {
            return Err("no server is named".into());
        }
        let known = self.kind.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
        if self.kind.is_empty() || !known {
            return Err(format!("`{}` is no type of file system", self.kind));
        }
        for server in &self.servers {
            if self.kind == "bind" && !Path::new(server).is_dir() {
                return Err(format!("{server} is no directory"));
            }
            if self.kind == "glusterfs"
                && server.split_once(":/").is_none_or(|(host, path)| host.is_empty() || path.is_empty())
            {
                return Err(format!("`{server}` is no GlusterFS volume; SERVER:/VOLUME is expected"));
            }
            if server.starts_with('-') {
                return Err(format!("`{server}` is no server"));
            }
        }
        Ok(())
    }

    /// Returns the server of a connection.
    pub fn server(&self, number: u16) -> &str {
        &self.servers[usize::from(number) % self.servers.len()]
    }

    /// Returns whether a forced unmount affects this mount alone. For a bind mount it would affect the underlying
    /// file system.
    pub fn may_force(&self) -> bool {
        self.kind != "bind"
    }

    /// Returns the options that disable caching for this kind.
    fn own_options(&self) -> &'static [&'static str] {
        match self.kind.as_str() {
            "nfs" | "nfs4" => &["sync", "noac", "lookupcache=none", "nosharecache"],
            "cifs" | "smb3" => &["cache=none", "actimeo=0", "nosharesock"],
            "sshfs" | "fuse.sshfs" => {
                &["sshfs_sync", "dir_cache=no", "direct_io", "attr_timeout=0", "entry_timeout=0", "allow_other"]
            }
            _ => &[],
        }
    }

    /// Returns the command that mounts connection `number` at `at`.
    pub fn command(&self, number: u16, at: &Path) -> Command {
        let server = self.server(number);
        if self.kind == "bind" {
            let mut command = Command::new("mount");
            command.args(["--bind", "--", server]).arg(at);
            return command;
        }
        if self.kind == "glusterfs"
            && let Some(command) = self.glusterfs(server, at)
        {
            return command;
        }
        let kind = if self.kind == "sshfs" { "fuse.sshfs" } else { &self.kind };
        let options: Vec<&str> =
            self.own_options().iter().copied().chain(self.options.iter().map(String::as_str)).collect();
        let mut command = Command::new("mount");
        command.args(["-t", kind]);
        if !options.is_empty() {
            command.args(["-o", &options.join(",")]);
        }
        command.args(["--", server]).arg(at);
        command
    }

    /// Makes a connection of the client library to the server of connection `number`.
    pub fn client(&self, number: u16) -> io::Result<Arc<dyn Client>> {
        let unsupported = |why: &str| Err(io::Error::new(io::ErrorKind::Unsupported, why.to_owned()));
        match self.kind.as_str() {
            "glusterfs" if self.options.is_empty() => {
                let passed: Vec<_> = GLUSTER_CACHES.into_iter().chain([GLUSTER_THREADS]).collect();
                Ok(Session::connect(self.server(number), &passed)?)
            }
            "glusterfs" => unsupported("options are given, which the mount command supports and the library does not"),
            _ => unsupported("this type of file system has no supported client library"),
        }
    }

    /// Returns GlusterFS's client command itself, since its mount command passes on only one translator option.
    fn glusterfs(&self, server: &str, at: &Path) -> Option<Command> {
        let (host, path) = server.split_once(":/")?;
        let (volume, below) = path.split_once('/').unwrap_or((path, ""));
        let mut command = Command::new("glusterfs");
        for cache in GLUSTER_CACHES {
            command.arg(format!("--xlator-option=*-{cache}.pass-through=true"));
        }
        // `O_DIRECT` bypasses the page cache of this mount; the server's disk need not use it.
        command.arg("--xlator-option=*-client-*.filter-O_DIRECT=on");
        for timeout in ["attribute", "entry", "negative"] {
            command.arg(format!("--{timeout}-timeout=0"));
        }
        for option in &self.options {
            command.arg(format!("--{option}"));
        }
        for host in host.split(',') {
            command.arg(format!("--volfile-server={host}"));
        }
        command.arg(format!("--volfile-id=/{volume}"));
        if !below.is_empty() {
            command.arg(format!("--subdir-mount=/{below}"));
        }
        command.args([OsStr::new("--process-name"), OsStr::new("fuse")]).arg(at);
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &Command) -> Vec<String> {
        let all = std::iter::once(command.get_program()).chain(command.get_args());
        all.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    fn recipe(kind: &str, servers: &[&str]) -> Recipe {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        Recipe { kind: kind.into(), servers: owned(servers), options: Vec::new() }
    }

    #[test]
    fn servers_take_turns() {
        let two = recipe("nfs", &["a:/x", "b:/x"]);
        assert_eq!([0, 1, 2, 3].map(|n| two.server(n)), ["a:/x", "b:/x", "a:/x", "b:/x"]);
        assert_eq!(words(&two.command(3, Path::new("/m/3")))[..3], ["mount", "-t", "nfs"]);
        assert_eq!(words(&two.command(3, Path::new("/m/3")))[5..], ["--", "b:/x", "/m/3"]);
    }

    #[test]
    fn no_connection_caches_or_holds_back() {
        let command = words(&recipe("glusterfs", &["s:/gv0/below"]).command(0, Path::new("/m")));
        assert!(command.contains(&"--xlator-option=*-write-behind.pass-through=true".into()), "{command:?}");
        assert!(
            command.contains(&"--volfile-id=/gv0".into()) && command.contains(&"--subdir-mount=/below".into()),
            "{command:?}"
        );
        assert!(words(&recipe("nfs4", &["s:/x"]).command(0, Path::new("/m")))[4].contains("noac"));
    }

    #[test]
    fn what_cannot_be_is_refused_before_anything_is_mounted() {
        for (kind, server) in
            [("glusterfs", "server"), ("bind", "/no/such/directory"), ("a b", "x"), ("nfs", ""), ("nfs", "-o")]
        {
            assert!(recipe(kind, &[server]).check().is_err(), "{kind} {server}");
        }
        assert!(recipe("nfs", &[]).check().is_err());
        assert_eq!(recipe("bind", &["/"]).check(), Ok(()));
    }
}
