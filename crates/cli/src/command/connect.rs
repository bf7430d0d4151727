//! `entrepot connect`: a plain file system over several connections, behind one mount point.

use crate::failure::{Failure, Result};
use crate::log;
use crate::served;
use crate::shown::{self, Output};
use ::connect::options::WRITE_BEHIND_BYTES;
use ::connect::set::{BytesOver, SetOptions};
use ::connect::status::{ATTRIBUTE, Connection};
use ::connect::{Connected, Options, Recipe, Status};
use clap::{Args, ValueEnum};
use node::control::Problem;
use policy::Time;
use policy::connections::{CONNECTIONS_MAX, LinkConfig, Policy};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Reach a server over several connections behind one mount point
///
/// SERVERS has the form of the file system's own mount command. Several servers, separated by commas, must show the
/// same directory, and share the connections. The mount point shows the plain file system: nothing is striped, and
/// nothing is stored beside it. The mounts are private to this process. A broken connection is taken out of use and
/// mounted again; its operations are repeated over another one where that is safe. The command needs root, and ends
/// with Ctrl-C or by unmounting.
#[derive(Debug, Args)]
#[command(after_help = "\
TYPES:
  glusterfs, nfs, nfs4, cifs, sshfs    mounted without caches
  bind                                 a local directory
  any other that `mount -t` knows      give options with -o that switch its caches off

POLICIES:
  load        the connection with the least work, as measured; large reads are split over idle
              ones if that is faster; a file that is written stays on one connection, unless
              several are faster
  single      one connection per file, by the number of the thread that opens it; the kernel can
              read and write such files by itself
  multiple    each operation on an open file takes the next connection
  automatic   writes as single, reads as multiple

EXAMPLES:
  entrepot connect -n 4 -t glusterfs bb1:/scratch /mnt/scratch --detach
  entrepot connect -n 8 -t glusterfs bb1:/scratch,bb2:/scratch /mnt/scratch
  entrepot connect -n 4 -t nfs -o vers=4.2,nconnect=1 server:/export /mnt/export
  entrepot connect --status /mnt/scratch
  umount /mnt/scratch")]
pub struct Connect {
    /// Address of the file system: SERVER:/PATH[,SERVER:/PATH ...].
    #[arg(required_unless_present = "status")]
    servers: Option<String>,
    /// Mount point: an existing directory.
    #[arg(required_unless_present = "status")]
    mountpoint: Option<PathBuf>,
    /// Number of connections.
    #[arg(short = 'n', long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=i64::from(CONNECTIONS_MAX)))]
    connections: u16,
    /// Type of the file system.
    #[arg(short = 't', long = "type", default_value = "glusterfs", value_name = "TYPE")]
    kind: String,
    /// More options for the mount command, separated by commas.
    #[arg(short = 'o', long = "options", value_delimiter = ',', value_name = "OPTIONS")]
    options: Vec<String>,
    /// Policy that chooses the connection.
    #[arg(long, default_value_t, value_name = "POLICY")]
    policy: Policy,
    /// Files that the kernel reads and writes by itself: those that the policy keeps on one connection (auto), or none
    /// (off). Operations of the kernel are not repeated when the connection breaks.
    #[arg(long, value_enum, default_value = "auto")]
    passthrough: Pass,
    /// Path of the bytes of a file system with a client library (GlusterFS: libgfapi): the mounts, the library, or
    /// (auto) the library unless the mounts are clearly faster at the start.
    #[arg(long, default_value_t, value_name = "auto|mount|library")]
    bytes_over: BytesOver,
    /// Bytes of all files that are acknowledged before the server has them; with 0 each write waits for the server.
    /// Such writes are sent again after a broken connection; fsync and close wait for them.
    #[arg(long, default_value_t = WRITE_BEHIND_BYTES, value_parser = crate::values::size, value_name = "SIZE", hide_default_value = true)]
    write_behind: u64,
    /// Timeout after which a connection without an answer is taken out of use.
    #[arg(long, default_value = "10s", value_name = "TIME")]
    deadline: humantime::Duration,
    /// Longest wait of an operation while no connection can be used.
    #[arg(long, default_value = "5m", value_name = "TIME")]
    patience: humantime::Duration,
    /// Time for which the kernel caches names and attributes, which other nodes may change.
    #[arg(long, default_value = "1s", value_name = "TIME")]
    timeout: humantime::Duration,
    /// Show the connections behind a mount point.
    #[arg(long, value_name = "MOUNTPOINT", conflicts_with_all = ["servers", "mountpoint", "detach"])]
    status: Option<PathBuf>,
    /// Format of the status.
    #[arg(long, value_enum, default_value_t)]
    output: Output,
    /// Continue in the background once it is mounted.
    #[arg(long)]
    detach: bool,
    /// This is the process in the background: its first line of output reports the start.
    #[arg(long, hide = true)]
    in_background: bool,
}

/// Whether the kernel may read and write files by itself.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Pass {
    Auto,
    Off,
}

impl Connect {
    pub fn run(self) -> Result<u8> {
        if let Some(at) = &self.status {
            return show(at, self.output);
        }
        let (Some(servers), Some(mountpoint)) = (&self.servers, &self.mountpoint) else {
            return Err(Problem::wrong("servers and a mount point are needed").try_this(HELP).into());
        };
        if self.detach {
            return served::in_the_background(&[mountpoint], HELP);
        }
        if self.in_background {
            // Detach from the session of the parent, so that its signals do not reach us.
            let _ = rustix::process::setsid();
        } else {
            log::to_stderr()?;
        }
        let split = |text: &str| text.split(',').map(|server| server.trim().to_owned()).collect();
        let recipe = Recipe { kind: self.kind.clone(), servers: split(servers), options: self.options.clone() };
        let started = Connected::start(recipe, mountpoint, self.options(servers)).map_err(Failure::from);
        let connected = Arc::new(served::announce(started, Connected::path, self.in_background)?);
        served::end_on_signal(&connected, Connected::unmount, Connected::detach)?;
        let status = connected.wait()?;
        if !self.in_background {
            shown::value(self.output, &status, text)?;
        }
        Ok(0)
    }

    fn options(&self, servers: &str) -> Options {
        let deadline = Time(Duration::from(self.deadline).as_nanos() as u64);
        Options {
            set: SetOptions {
                connections: self.connections,
                policy: self.policy,
                link: LinkConfig { deadline, ..LinkConfig::default() },
                patience: self.patience.into(),
                bytes_over: self.bytes_over,
                kind: self.kind.clone(),
            },
            timeout: self.timeout.into(),
            passthrough: matches!(self.passthrough, Pass::Auto),
            write_behind_bytes: self.write_behind,
            name: servers.to_owned(),
        }
    }
}

const HELP: &str = "see `entrepot connect --help`";

fn show(at: &Path, output: Output) -> Result<u8> {
    let mut value = vec![0; 64 << 10];
    let len = match rustix::fs::getxattr(at, ATTRIBUTE, &mut value) {
        Ok(len) => len,
        Err(error) => {
            let problem = match error {
                Errno::NODATA | Errno::NOTSUP | Errno::PERM => {
                    Problem::wrong(format!("{} is no mount point of `entrepot connect`", at.display()))
                }
                error => Problem::not_found(format!("{}: {error}", at.display())),
            };
            let next = "`findmnt -t fuse.entrepot-connect` lists them; for a volume's targets see `entrepot status`";
            return Err(problem.so("nothing is shown").try_this(next).into());
        }
    };
    let status: Status = serde_json::from_slice(&value[..len])
        .map_err(|error| Problem::failed(format!("the answer of {} is not valid: {error}", at.display())))?;
    shown::value(output, &status, text)?;
    Ok(0)
}

fn text(status: &Status) -> String {
    let (count, kind, policy) = (status.connections.len(), &status.kind, &status.policy);
    let behind = match status.write_behind_bytes {
        0 => "each write waits for the server".into(),
        room => format!("up to {} written behind", shown::bytes(room)),
    };
    let way = &status.bytes_over;
    let heading = format!("{count} connections ({kind}), policy {policy}, bytes over the {way}, {behind}\n");
    heading + &table(&status.connections)
}

/// A line for each connection.
pub fn table(connections: &[Connection]) -> String {
    let heading =
        ["connection", "state", "operations", "read", "written", "latency", "failures", "mounted again", "to"];
    let row = |c: &Connection| {
        vec![
            c.number.to_string(),
            c.state.clone(),
            c.operations.to_string(),
            shown::bytes(c.bytes_read),
            shown::bytes(c.bytes_written),
            format!("{:.2} ms", c.latency_us as f64 / 1e3),
            c.failures.to_string(),
            c.mounted_again.to_string(),
            c.source.clone(),
        ]
    };
    shown::table(&heading, connections.iter().map(row).collect())
}
