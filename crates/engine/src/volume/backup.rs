//! Saves a volume's state as a backup and restores it, while the volume is closed.

use super::identity;
use super::lock::Lock;
use super::problem::{Problem, Problems, Result};
use super::state_store::{Kept, Reached};
use super::{Config, VolumeId, namespace};
use meta::state::State;
use meta::state::dump::{self, Row};
use std::path::Path;
use std::sync::Arc;

const DAMAGED: &str = "See docs/guide/operate/backup.md, \"The state store is damaged\"";

/// A closed volume. Daemons cannot open it while this exists.
pub struct AtRest {
    /// Identity of the volume.
    pub volume: VolumeId,
    _lock: Lock,
}

impl AtRest {
    /// Locks the volume against daemons.
    pub fn take(config: &Config) -> Result<AtRest> {
        config.make_state_dir().map_err(|e| {
            Problems::refused(format!("{}: {e}", config.state.display()), "Name another as `state_dir`")
        })?;
        let lock = Lock::take(&config.state, &config.namespace, false)?;
        let volume = namespace::read_id(&config.namespace)
            .map_err(|e| Problems::refused(e, "Put that file back from a backup"))?;
        let volume = volume.ok_or_else(|| {
            let cause = format!("{} is the namespace of no volume yet", config.namespace.display());
            Problems::refused(cause, "Put the namespace back from its backup first")
        })?;
        Ok(AtRest { volume, _lock: lock })
    }

    /// Opens the volume's state, and creates it if it is missing.
    pub fn state(&self, config: &Config) -> Result<Arc<dyn State>> {
        Reached::open(config)
            .and_then(|reached| reached.of(config, self.volume))
            .map_err(|e| Problems::refused(e, DAMAGED))
    }
}

/// Writes a backup of the state; returns the number of its rows.
pub fn dump_state(config: &Config, file: &Path) -> Result<usize> {
    let rest = AtRest::take(config)?;
    dump::write(&*rest.state(config)?, rest.volume, file)
        .map_err(|e| Problems::refused(e, "Name a file where there is room"))
}

/// Replaces the volume's state by a backup; returns the number of rows. A state that is not empty needs `replace`.
pub fn load_state(config: &Config, file: &Path, replace: bool) -> Result<usize> {
    let mut backup = dump::read(file).map_err(|why| Problems::refused(why, "Use another backup"))?;
    let rest = AtRest::take(config)?;
    let state = rest.state(config)?;
    if backup.volume != rest.volume.to_string() {
        let cause = format!("{} is of volume {}, and the namespace of {}", file.display(), backup.volume, rest.volume);
        return Err(Problems::refused(cause, "Use a backup of this volume"));
    }
    let failed = |error| Problems::refused(error, "Mend that and do it again");
    if !replace && state.epoch().map_err(failed)? > 0 {
        let cause = format!("the state in {} is in use already", config.state.display());
        return Err(Problems::refused(cause, "Use `entrepot state load --replace BACKUP` if its contents may be lost"));
    }
    // The backup's records about the state itself are outdated.
    backup.rows.retain(|row| !matches!(row, Row::Record { kind, .. } if identity::is_of_the_state_itself(kind)));
    state.load(&backup.rows).map_err(failed)?;
    adopt(config, &rest, &*state, Some(backup.epoch))?;
    Ok(backup.rows.len())
}

/// Assigns the namespace to the present state that `volume.toml` names.
pub fn adopt_state(config: &Config) -> Result<()> {
    let rest = AtRest::take(config)?;
    let kept = Kept::look(config, rest.volume).map_err(|error| Problems::refused(error, DAMAGED))?;
    if kept == Kept::Nothing {
        let cause = format!("the state in {} is empty", config.state.display());
        return Err(Problems::refused(
            cause,
            "Use `entrepot state rebuild`: an empty state has no targets, and would give the numbers of those that \
             are away to others",
        ));
    }
    let state = rest.state(config)?;
    identity::check_volume(config, &*state, rest.volume)?;
    adopt(config, &rest, &*state, None)
}

fn adopt(config: &Config, rest: &AtRest, state: &dyn State, epoch: Option<u32>) -> Result<()> {
    let adopted = identity::adopt(config, state, rest.volume, epoch).and_then(|()| state.finish());
    adopted.map_err(|error| {
        let mend = "Mend that and do it again; until then the volume is not opened";
        Problems::one(Problem::new(error.to_string(), "the namespace does not go with this state yet", mend))
    })
}
