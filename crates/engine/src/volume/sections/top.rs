//! Keys above all sections.

use super::super::keys::{Directory, address, directory, optional, parsed, path, section, text};
use super::state::{Place, StateStore, place, state_store};
use std::net::SocketAddr;
use std::path::PathBuf;

section! {
    /// Keys above all sections.
    Top {
        /// Name of the volume, shown by `entrepot status` and `df`.
        name: String = text, "scratch";
        /// Directory of the namespace: names, owners, times, small files, and layouts of large ones. Its file system
        /// needs user extended attributes (ext4, xfs, btrfs, ...). Put it on a reliable device.
        namespace: Directory = directory, "namespace" or missing;
        /// The state of the volume besides files. A directory, on a local file system; or a Redis server that syncs every write
        /// (appendonly yes, appendfsync always): "redis://HOST:PORT/DATABASE", "rediss://..." with TLS, "unix:///PATH/TO/SOCKET",
        /// "redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DATABASE". Nodes that share a volume have the same line.
        state: Place = place, "state" or missing;
        /// Directory of the control socket, the log and the spools if `state` is a server. Each node has its own, on a
        /// local file system. Default: /var/lib/entrepot/NAME for root, ~/.local/state/entrepot/NAME/HOST
        /// (XDG_STATE_HOME) for other users.
        state_dir: Option<Directory> = optional(directory), "/var/lib/entrepot/scratch" else None;
        /// A file with the password of the server, which others must not be able to read, so that `volume.toml` holds no secret.
        state_password_file: Option<PathBuf> = optional(path), "/etc/entrepot/redis.password" else None;
        /// Certificates (PEM) of authorities for a server with TLS; the default is those of the machine.
        state_ca_file: Option<PathBuf> = optional(path), "/etc/entrepot/redis-ca.pem" else None;
        /// Second way to name a server: `state` is then the directory that `state_dir` is otherwise. "embedded" is a
        /// file in it.
        state_store: StateStore = parsed(state_store), "embedded";
        /// Address and port at which other nodes connect to this one, if a firewall needs to know it. The address
        /// 0.0.0.0 stands for all of the host. Default: all addresses, any port.
        nodes_listen: Option<SocketAddr> = optional(parsed(address)), "0.0.0.0:7405" else None;
    }
}
