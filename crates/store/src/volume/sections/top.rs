//! What stands above all sections.

use super::super::keys::{Directory, directory, parsed, section, text};

section! {
    /// What stands above all sections.
    Top {
        /// Name of the volume, shown by `entrepot status` and `df`.
        name: String = text, "scratch";
        /// The directory tree with names, owners, times, small files and where the data of the others lies. Needs a file system
        /// with user extended attributes (ext4, xfs, btrfs, ...). Put it on something that you trust.
        namespace: Directory = directory, "namespace" or missing;
        /// The embedded state store and the control socket. On a local file system.
        state: Directory = directory, "state" or missing;
        /// What keeps the state: "embedded" is a file there; or a Redis server that syncs every write (appendonly yes,
        /// appendfsync always): "redis://HOST:PORT/DATABASE" or "unix:///PATH/TO/SOCKET".
        state_store: StateStore = parsed(state_store), "embedded";
    }
}

/// What keeps the state of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateStore {
    /// A file in the state directory.
    Embedded,
    /// The Redis server at this address.
    Redis(String),
}

fn state_store(text: &str) -> Result<StateStore, String> {
    let form = "Write embedded, or redis://HOST:PORT/DATABASE, or unix:///PATH/TO/SOCKET";
    if text == "embedded" {
        return Ok(StateStore::Embedded);
    }
    if !text.contains("://") {
        return Err(form.into());
    }
    crate::state::redis::check_url(text).map_err(|why| format!("{why}. {form}"))?;
    Ok(StateStore::Redis(text.into()))
}
