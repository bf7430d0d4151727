//! Choice and opening of a volume's state store.

use super::check::STATE_FILE;
use super::config::Config;
use super::namespace::{read_line, write_whole};
use super::sections::StateStore;
use super::{VolumeId, identity};
use crate::{Error, Result};
use meta::state::dump::Row;
use meta::state::redis::Server;
use meta::state::{RedisState, SqliteState, State, TargetRecord};
use object::volume_id::unique;
use std::path::PathBuf;
use std::sync::Arc;

/// File with the node's name in the state store.
const NODE_FILE: &str = "node";

/// A connected store; a server's tables are found once the volume is known.
pub(super) enum Reached {
    Embedded(Box<SqliteState>),
    Redis(Box<Server>),
}

fn file(config: &Config) -> PathBuf {
    config.state.join(STATE_FILE)
}

impl Reached {
    /// Opens the file, or connects to the server. A volume never starts empty in a server while its file still has its
    /// state.
    pub fn open(config: &Config) -> Result<Reached> {
        match &config.state_store {
            StateStore::Embedded => SqliteState::open(&file(config)).map(|state| Reached::Embedded(Box::new(state))),
            StateStore::Redis(_) if file(config).exists() => Err(Error::Invalid(format!(
                "{} holds the state of this volume (moves under way, jobs, checkpoints), and a Redis server would \
                 start without it. End \
                 its jobs, stop it, and move the file away; or name its directory as `state` in volume.toml, without a `state_store`",
                file(config).display()
            ))),
            StateStore::Redis(address) => Server::reach(address).map(|server| Reached::Redis(Box::new(server))),
        }
    }

    /// The state of this volume.
    pub fn of(self, config: &Config, volume: VolumeId) -> Result<Arc<dyn State>> {
        Ok(match self {
            Reached::Embedded(state) => Arc::<SqliteState>::from(state),
            Reached::Redis(server) => Arc::new(RedisState::open(*server, &volume.to_string(), Some(own(config)?))?),
        })
    }
}

/// Name of this node in the store: a random number in its state directory.
pub(super) fn own(config: &Config) -> Result<String> {
    let file = config.state.join(NODE_FILE);
    if let Some(name) = read_line(&file).map_err(|error| Error::State(error.to_string()))? {
        return Ok(name);
    }
    let failed = |error: std::io::Error| Error::State(format!("{}: {error}", file.display()));
    let name = unique().map_err(|errno| failed(errno.into()))?;
    write_whole(&config.state, NODE_FILE, &name).map_err(failed)?;
    Ok(name)
}

/// Contents of a store before a volume is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    Nothing,
    /// A rebuilt state without later changes.
    Rebuilt,
    /// State that may still be needed.
    State,
}

impl Kept {
    /// Examines the store; changes nothing.
    pub fn look(config: &Config, volume: VolumeId) -> Result<Kept> {
        let (state, holds): (Box<dyn State>, bool) = match &config.state_store {
            StateStore::Embedded if !file(config).exists() => return Ok(Kept::Nothing),
            StateStore::Redis(address) if !file(config).exists() => {
                let state = RedisState::untouched(Server::reach(address)?, &volume.to_string());
                let holds = state.is_used()?;
                (Box::new(state), holds)
            }
            _ => {
                let Reached::Embedded(state) = Reached::open(config)? else { return Ok(Kept::State) };
                let of_itself = |row: &Row| matches!(row, Row::Record { kind, .. } if kind == identity::KIND);
                let holds = !state.dump()?.iter().all(of_itself);
                (state, holds)
            }
        };
        let rebuilt = identity::is_rebuilt(&*state)?;
        state.finish()?;
        Ok(match (rebuilt, holds) {
            (true, _) => Kept::Rebuilt,
            (false, true) => Kept::State,
            (false, false) => Kept::Nothing,
        })
    }
}

/// All targets that a volume has had, without changing anything. None before it is formatted; `None` if a daemon has
/// the store open.
///
/// # Errors
/// A store that cannot be read.
pub fn known_targets(config: &Config) -> Result<Option<Vec<TargetRecord>>> {
    match &config.state_store {
        StateStore::Embedded if !file(config).is_file() => Ok(Some(Vec::new())),
        StateStore::Embedded => SqliteState::known_targets(&file(config)),
        StateStore::Redis(address) => {
            let volume =
                super::namespace::read_id(&config.namespace).map_err(|error| Error::State(error.to_string()))?;
            let targets = volume.map(|volume| RedisState::known_targets(address, &volume.to_string())).transpose()?;
            Ok(Some(targets.unwrap_or_default()))
        }
    }
}
