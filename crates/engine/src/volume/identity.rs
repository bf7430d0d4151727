//! Identity of the state store, and the gaps of a namespace or state restored from a backup.
//!
//! The state store holds a random number of its own, and the namespace names it (`state.id`). A volume is not opened
//! with another state: its numbers would begin elsewhere, and its journal would not match the files.
//!
//! A restored namespace or state is older than the targets. Objects of the time between belong to files that this
//! namespace lacks: they are *unknown*, and nothing removes them automatically.
//!
//! ```text
//! epochs   1 .. backup-1          backup .. last one before the return     this daemon's
//!          all names are known    unknown: an object without name stays    all names are known
//! ```

use super::namespace;
use super::problem::{Problem, Problems};
use super::{Config, VolumeId};
use crate::{Error, Result};
use meta::records;
use meta::state::dump::Row;
use meta::state::{NAMES, State};
use object::volume_id::unique;
use std::ops::Range;
use std::path::Path;

/// Kind of the records about the state itself, which a backup does not restore.
pub(crate) const KIND: &str = "state";
const ID: &str = "id";
/// Key present from the load of a backup, or the adoption of a state, until the next start: the epoch of the backup.
const RETURNED: &str = "returned";
/// Key present from the rebuild of the state out of namespace and targets until the next start.
const REBUILT: &str = "rebuilt";
/// Key of the epochs whose names may be incomplete.
const UNKNOWN: &str = "unknown";
/// Key of the largest size of the file system of a namespace that nodes share.
const SIZE: &str = "size";
/// Fraction of the size by which it may shrink. A guess: less than one server of a thousand.
const SIZE_PART: u64 = 2000;
/// Key of the inode and birth time of the namespace's directory `tree`.
const TREE: &str = "tree";

#[derive(serde::Serialize, serde::Deserialize)]
struct Id {
    id: String,
    volume: String,
}

/// Epochs that are compared at a start; 0 for none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Epochs {
    /// The last epoch assigned by the state store.
    pub state: u32,
    /// Last epoch recorded in the namespace.
    pub namespace: u32,
    /// Largest epoch recorded on a target.
    pub targets: u32,
}

/// The number of a state store, made on first use.
fn own(state: &dyn State, volume: VolumeId) -> Result<Id> {
    if let Some(id) = get(state, ID)? {
        return Ok(id);
    }
    let id = Id { id: unique()?, volume: volume.to_string() };
    records::put(state, KIND, ID, &id)?;
    Ok(id)
}

fn get<T: serde::de::DeserializeOwned>(state: &dyn State, key: &str) -> Result<Option<T>> {
    let bytes = state.record_get(KIND, key)?;
    bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose().map_err(|e| Error::State(e.to_string()))
}

/// Whether records of a kind describe this state store or this life of the machine, and so mean nothing in another
/// store.
pub(super) fn is_of_the_state_itself(kind: &str) -> bool {
    kind == KIND || kind == NAMES
}

/// Checks that a state belongs to this volume; returns its number.
pub(super) fn check_volume(config: &Config, state: &dyn State, volume: VolumeId) -> Result<String, Problems> {
    let id = own(state, volume).map_err(super::open::problem)?;
    if id.volume == volume.to_string() {
        return Ok(id.id);
    }
    let cause = format!("the state in {} is that of volume {}", config.state.display(), id.volume);
    let mend =
        format!("Correct `state` or `namespace` in {}: the namespace is of volume {volume}", config.file.display());
    Err(Problems::one(Problem::new(cause, "the volume is not opened: each has its own state", mend)))
}

/// Checks that the namespace belongs to this state. A namespace without a state gets this one.
pub(super) fn check(config: &Config, state: &dyn State, volume: VolumeId) -> Result<(), Problems> {
    let namespace = &config.namespace;
    let named = namespace::read_state_id(namespace).map_err(super::open::problem)?;
    // A state store without a number is not the one that the namespace names. It gets none, since it may belong to
    // another volume.
    let is_known = named.is_none() || get::<Id>(state, ID).map_err(super::open::problem)?.is_some();
    if is_known {
        let id = check_volume(config, state, volume)?;
        if named.is_none() {
            namespace::write_state_id(namespace, &id).map_err(super::open::problem)?;
        }
        if named.is_none_or(|named| named == id) {
            return state.pin(KIND, ID).map_err(super::open::problem);
        }
    }
    let state = config.state.display();
    let cause = format!("{} was last used with another state than the one in {state}", namespace.display());
    let mend = format!(
        "Correct `state` in {}. If that other state is lost: `entrepot state load BACKUP` puts a backup in its place, without one \
         `entrepot state rebuild` makes a new one from namespace and targets; `entrepot state adopt` uses the state \
         in {state}",
        config.file.display(),
    );
    Err(Problems::one(Problem::new(
        cause,
        "the volume is not opened: with two states its files would be mixed up",
        mend,
    )))
}

/// Assigns the namespace to this state, whatever state it named before. `epoch` is that of the loaded backup.
pub(super) fn adopt(config: &Config, state: &dyn State, volume: VolumeId, epoch: Option<u32>) -> Result<()> {
    records::put(state, KIND, RETURNED, &epoch.unwrap_or(u32::MAX))?;
    // A new number, so that a remaining copy of the saved state cannot be used with this namespace.
    let id = Id { id: unique()?, volume: volume.to_string() };
    records::put(state, KIND, ID, &id)?;
    namespace::write_state_id(&config.namespace, &id.id).map_err(|error| Error::State(error.to_string()))
}

/// Identity records of a rebuilt state store: its number, and the mark that no epoch's names are known. A rebuild
/// cannot verify that the namespace is the original one.
pub(super) fn of_rebuilt(volume: VolumeId) -> Result<(String, Vec<Row>)> {
    let id = Id { id: unique()?, volume: volume.to_string() };
    let row = |key: &str, value: serde_json::Result<Vec<u8>>| {
        let value = value.map_err(|error| Error::State(error.to_string()))?.into();
        Ok(Row::Record { kind: KIND.into(), key: key.into(), value })
    };
    let rows = [
        row(ID, serde_json::to_vec(&id)),
        row(RETURNED, serde_json::to_vec(&0)),
        row(REBUILT, serde_json::to_vec(&true)),
    ];
    Ok((id.id, rows.into_iter().collect::<Result<_>>()?))
}

/// Whether nothing but a rebuild has written to a state.
pub(super) fn is_rebuilt(state: &dyn State) -> Result<bool> {
    Ok(state.record_get(KIND, REBUILT)?.is_some())
}

/// Records the unknown epochs when namespace or state are older than the targets, before anything is removed. `epoch`
/// is that of this daemon.
pub(super) fn note_return(state: &dyn State, namespace: &Path, seen: Epochs, epoch: u32) -> Result<()> {
    let top = seen.state.max(seen.namespace).max(seen.targets);
    let returned: Option<u32> = get(state, RETURNED)?;
    let tree = namespace::tree_identity(namespace);
    let other_tree = get::<String>(state, TREE)?.is_some_and(|known| Some(known) != tree);
    // An interrupted start may have recorded an epoch in the state alone, and assigned none of its numbers.
    let older_namespace = seen.namespace < seen.targets || seen.namespace + 1 < seen.state;
    let older = older_namespace || (seen.state > 0 && seen.state < top);
    if top > 0 && (older || other_tree || returned.is_some()) {
        let from = [Some(seen.namespace), (seen.state > 0).then_some(seen.state), returned];
        let from = from.into_iter().flatten().min().unwrap_or(0);
        let known = unknown(state)?.unwrap_or(epoch..epoch);
        let range = from.min(known.start)..epoch;
        tracing::warn!(
            "the namespace or the state was put back or is older than the targets: objects of epochs {} to {} that no file names stay \
             until `entrepot check --repair --drop-unknown`",
            range.start,
            range.end - 1
        );
        records::put(state, KIND, UNKNOWN, &range)?;
        // The records of names that a loss of power may have removed are outdated: a missing object counts as lost.
        for (key, _) in state.records(NAMES)? {
            state.record_remove(NAMES, &key)?;
        }
    }
    if let Some(tree) = tree {
        records::put(state, KIND, TREE, &tree)?;
    }
    state.record_remove(KIND, REBUILT)?;
    state.record_remove(KIND, RETURNED).map(drop)
}

/// Epochs whose names may be incomplete.
pub(super) fn unknown(state: &dyn State) -> Result<Option<Range<u32>>> {
    get(state, UNKNOWN)
}

/// Whether the file system of the names has its largest size. If one of several servers (GlusterFS) is away,
/// directories lack its names without an error, and the file system is smaller.
pub(super) fn is_whole(state: &dyn State, bytes: u64) -> Result<bool> {
    let largest: u64 = get(state, SIZE)?.unwrap_or(0);
    if bytes > largest {
        records::put(state, KIND, SIZE, &bytes)?;
    }
    Ok(bytes >= largest - largest / SIZE_PART)
}

/// Records the operator's order that all names are present at this size.
pub(super) fn is_so_large(state: &dyn State, bytes: u64) -> Result<()> {
    records::put(state, KIND, SIZE, &bytes)
}

/// Records the operator's order that nothing else will be restored.
pub(super) fn all_known(state: &dyn State) -> Result<()> {
    state.record_remove(KIND, UNKNOWN).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meta::state::SqliteState;

    /// [S-162]
    #[test]
    fn names_may_be_missing_where_the_file_system_is_smaller_than_it_was() {
        let state = SqliteState::in_memory().unwrap();
        let bricks = |bricks: u64| bricks << 40;
        assert!(is_whole(&state, bricks(1000)).unwrap() && is_whole(&state, bricks(1000)).unwrap());
        assert!(!is_whole(&state, bricks(999)).unwrap());
        assert!(is_whole(&state, bricks(1000) - 5000).unwrap(), "what a file system takes for itself");
        assert!(is_whole(&state, bricks(1001)).unwrap(), "one more");
        assert!(!is_whole(&state, bricks(1000)).unwrap());
        is_so_large(&state, bricks(999)).unwrap();
        assert!(is_whole(&state, bricks(999)).unwrap());
    }
}
