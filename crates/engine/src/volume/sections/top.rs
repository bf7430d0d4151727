//! Keys above all sections.

use super::super::keys::{Directory, directory, optional, parsed, path, section, text};
use super::state::{Place, StateStore, place, state_store};
use std::path::PathBuf;

section! {
    /// Keys above all sections.
    Top {
        /// Name of the volume, shown by `entrepot status` and `df`.
        name: String = text, "scratch";
        /// The directory tree with names, owners, times, small files and where the data of the others lies. Needs a file system
        /// with user extended attributes (ext4, xfs, btrfs, ...). Put it on something that you trust.
        namespace: Directory = directory, "namespace" or missing;
        /// The state of the volume besides files. A directory, on a local file system; or a Redis server that syncs every write
        /// (appendonly yes, appendfsync always): "redis://HOST:PORT/DATABASE", "rediss://..." with TLS, "unix:///PATH/TO/SOCKET",
        /// "redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DATABASE". Nodes that share a volume have the same line.
        state: Place = place, "state" or missing;
        /// Where a daemon has its control socket, log and spools while `state` is a server. It is this node's own, on a local file
        /// system. If it is not said: root's is /var/lib/entrepot/NAME, another user's ~/.local/state/entrepot/NAME/HOST
        /// (XDG_STATE_HOME).
        state_dir: Option<Directory> = optional(directory), "/var/lib/entrepot/scratch" else None;
        /// A file with the password of the server, which others must not be able to read, so that `volume.toml` holds no secret.
        state_password_file: Option<PathBuf> = optional(path), "/etc/entrepot/redis.password" else None;
        /// Certificates (PEM) of authorities for a server with TLS; the default is those of the machine.
        state_ca_file: Option<PathBuf> = optional(path), "/etc/entrepot/redis-ca.pem" else None;
        /// The other way to name a server: `state` is a directory then, as `state_dir` else. "embedded" is a file in it.
        state_store: StateStore = parsed(state_store), "embedded";
    }
}
