//! Replaces a lost state store by one rebuilt from namespace and targets.
//!
//! ```text
//!   killed before     Loaded              Named
//!   ───────────────────┼───────────────────┼─────────────>
//!   as it was          no node opens it,   the volume has
//!                      do it again         its new state
//! ```

use super::Config;
use super::backup::AtRest;
use super::identity;
use super::joining::had_nodes;
use super::namespace;
use super::open::of_several_nodes;
use super::problem::{Problem, Problems};
use super::state_store::Kept;
use crate::{Error, Result};
use meta::state::dump::Row;

/// Step that has just been completed; tests crash there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The store answers, and is unchanged.
    Reached,
    /// The store holds the rebuilt rows.
    Loaded,
    /// The namespace names the store.
    Named,
}

impl Step {
    /// All steps, in order.
    pub const ALL: [Step; 3] = [Step::Reached, Step::Loaded, Step::Named];
}

impl AtRest {
    /// Checks that no state in use exists at its place, and that `volume.toml` can open the volume.
    pub fn may_be_rebuilt(&self, config: &Config) -> Result<(), Problems> {
        if !config.is_shared() && had_nodes(&config.namespace) {
            return Err(Problems::unchanged(of_several_nodes(config)));
        }
        let mend = "Mend that, or see docs/guide/operate/backup.md, \"The state store is damaged\"";
        match Kept::look(config, self.volume).map_err(|error| Problems::refused(error, mend))? {
            Kept::Nothing | Kept::Rebuilt => Ok(()),
            Kept::State => Err(Problems::refused(
                format!("the state in {} is in use already", config.state.display()),
                "Open the volume with it (`entrepot up`), or put a backup in its place with `entrepot state load \
                 --replace BACKUP`. If it is useless, move it away first: docs/guide/operate/backup.md, \"The state \
                 is lost\"",
            )),
        }
    }

    /// Returns the last epoch recorded in the namespace.
    pub fn epoch(&self, config: &Config) -> Result<u32, Problems> {
        namespace::read_epoch(&config.namespace).map_err(|error| Problems::refused(error, "Mend the namespace"))
    }

    /// Replaces the state by the rebuilt rows; returns their number.
    pub fn rebuild(
        &self,
        config: &Config,
        mut rows: Vec<Row>,
        step: &dyn Fn(Step) -> Result<()>,
    ) -> Result<usize, Problems> {
        let state = self.state(config)?;
        let mut write = || {
            let (id, of_itself) = identity::of_rebuilt(self.volume)?;
            rows.extend(of_itself);
            step(Step::Reached)?;
            state.load(&rows)?;
            step(Step::Loaded)?;
            namespace::write_state_id(&config.namespace, &id).map_err(|error| Error::State(error.to_string()))?;
            step(Step::Named)?;
            state.finish()?;
            Ok(rows.len())
        };
        write().map_err(|error: Error| {
            let consequence = "the namespace may not go with the new state yet; then no node opens the volume";
            Problems::one(Problem::new(error.to_string(), consequence, "Mend that and do it again"))
        })
    }
}
