//! Which state store belongs to which namespace, and what a namespace or state that was put back from a backup cannot know.
//!
//! The state store holds a random number of its own, and the namespace names it (`state.id`): a volume is not opened with another state,
//! whose numbers would begin elsewhere and whose journal knows nothing of the files.
//!
//! What was put back is older than what the targets hold. Objects of the time between belong to files that this namespace does not know:
//! they are *unknown*, and nothing removes them by itself.
//!
//! ```text
//! epochs   1 .. backup-1          backup .. last one before the return     this daemon's
//!          all names are known    unknown: an object without name stays    all names are known
//! ```

use super::namespace;
use super::problem::{Problem, Problems};
use super::{Config, VolumeId};
use crate::state::dump::Row;
use crate::state::{NAMES, State};
use crate::volume_id::unique;
use crate::{Error, Result};
use std::ops::Range;
use std::path::Path;

/// Records about the state itself. A backup does not bring them back.
pub(crate) const KIND: &str = "state";
const ID: &str = "id";
/// A backup was loaded or a state adopted, and nobody has opened the volume since: the epoch of the backup.
const RETURNED: &str = "returned";
/// The state was made of what namespace and targets say, and nobody has opened the volume since.
const REBUILT: &str = "rebuilt";
/// The epochs of which not all names are known.
const UNKNOWN: &str = "unknown";
/// The largest size of the file system of a namespace that nodes share.
const SIZE: &str = "size";
/// A part of it that may come and go; a guess: less than one server of a thousand.
const SIZE_PART: u64 = 2000;
/// The directory `tree` of the namespace, as the file system knows it.
const TREE: &str = "tree";

#[derive(serde::Serialize, serde::Deserialize)]
struct Id {
    id: String,
    volume: String,
}

/// What is compared at a start: 0 where there is none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The last epoch that the state store gave.
    pub state: u32,
    /// The last one that the namespace knows.
    pub namespace: u32,
    /// The last one that a target knows.
    pub targets: u32,
}

/// The number of a state store, made on first use.
fn own(state: &dyn State, volume: VolumeId) -> Result<Id> {
    if let Some(id) = get(state, ID)? {
        return Ok(id);
    }
    let id = Id { id: unique()?, volume: volume.to_string() };
    put(state, ID, &id)?;
    Ok(id)
}

fn get<T: serde::de::DeserializeOwned>(state: &dyn State, key: &str) -> Result<Option<T>> {
    let bytes = state.record_get(KIND, key)?;
    bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose().map_err(|e| Error::State(e.to_string()))
}

fn put<T: serde::Serialize>(state: &dyn State, key: &str, value: &T) -> Result<()> {
    let bytes = serde_json::to_vec(value).map_err(|e| Error::State(e.to_string()))?;
    state.record_put(KIND, key, &bytes)
}

/// Whether a kind of record says something of the state itself or of this life of the machine, so that it means nothing in another.
pub(super) fn is_of_the_state_itself(kind: &str) -> bool {
    kind == KIND || kind == NAMES
}

/// Whether a state is of this volume. Gives its number.
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

/// Whether the namespace goes with this state. One that names no state yet is given this one.
pub(super) fn check(config: &Config, state: &dyn State, volume: VolumeId) -> Result<(), Problems> {
    let namespace = &config.namespace;
    let named = namespace::read_state_id(namespace).map_err(super::open::problem)?;
    // One that has no number yet is another one, and gets none: it may be somebody else's.
    let is_known = named.is_none() || get::<Id>(state, ID).map_err(super::open::problem)?.is_some();
    if is_known {
        let id = check_volume(config, state, volume)?;
        match &named {
            None => return namespace::write_state_id(namespace, &id).map_err(super::open::problem),
            Some(named) if *named == id => return Ok(()),
            Some(_) => {}
        }
    }
    let state = config.state.display();
    let cause = format!("{} was last used with another state than the one in {state}", namespace.display());
    let mend = format!(
        "Correct `state` in {}. If that other state is lost: `entrepot state load BACKUP` puts a backup in its place, without one \
         `entrepot state rebuild` makes a new one of what namespace and targets say; `entrepot state adopt` takes what is in {state}",
        config.file.display(),
    );
    Err(Problems::one(Problem::new(
        cause,
        "the volume is not opened: with two states its files would be mixed up",
        mend,
    )))
}

/// From now on the namespace goes with this state, whatever went with it before. `epoch` is that of the backup that was loaded.
pub(super) fn adopt(config: &Config, state: &dyn State, volume: VolumeId, epoch: Option<u32>) -> Result<()> {
    put(state, RETURNED, &epoch.unwrap_or(u32::MAX))?;
    // A number of its own: who still has the state that was saved cannot go on with it.
    let id = Id { id: unique()?, volume: volume.to_string() };
    put(state, ID, &id)?;
    namespace::write_state_id(&config.namespace, &id.id).map_err(|error| Error::State(error.to_string()))
}

/// What a state says of itself that is made of what namespace and targets say: its number, and that no epoch's names are known, since it
/// cannot tell whether the namespace is the one that it was.
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

/// Notes what is unknown when namespace or state are older than the targets, before anything is removed. `epoch` is that of this daemon.
pub(super) fn note_return(state: &dyn State, namespace: &Path, seen: Seen, epoch: u32) -> Result<()> {
    let top = seen.state.max(seen.namespace).max(seen.targets);
    let returned: Option<u32> = get(state, RETURNED)?;
    let tree = namespace::tree_identity(namespace);
    let other_tree = get::<String>(state, TREE)?.is_some_and(|known| Some(known) != tree);
    // A start that was cut off has given the state an epoch that nobody else knows yet, and no numbers of it.
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
        put(state, UNKNOWN, &range)?;
        // What it says of names that a loss of power may have taken is not of this time: an object that is missing is lost.
        for (key, _) in state.records(NAMES)? {
            state.record_remove(NAMES, &key)?;
        }
    }
    if let Some(tree) = tree {
        put(state, TREE, &tree)?;
    }
    state.record_remove(KIND, REBUILT)?;
    state.record_remove(KIND, RETURNED).map(drop)
}

/// The epochs of which not all names are known.
pub(super) fn unknown(state: &dyn State) -> Result<Option<Range<u32>>> {
    get(state, UNKNOWN)
}

/// Whether the file system of the names is as large as it ever was. One of several servers (GlusterFS) that lacks one lists directories
/// without the names there, and gives no error; it is smaller then.
pub(super) fn is_whole(state: &dyn State, bytes: u64) -> Result<bool> {
    let largest: u64 = get(state, SIZE)?.unwrap_or(0);
    if bytes > largest {
        put(state, SIZE, &bytes)?;
    }
    Ok(bytes >= largest - largest / SIZE_PART)
}

/// The operator says that the names are all there.
pub(super) fn is_so_large(state: &dyn State, bytes: u64) -> Result<()> {
    put(state, SIZE, &bytes)
}

/// The operator says that nothing else will come back.
pub(super) fn all_known(state: &dyn State) -> Result<()> {
    state.record_remove(KIND, UNKNOWN).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::SqliteState;

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
