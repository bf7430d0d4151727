//! Facts about a volume's state on its targets: their numbers, and the epochs that they have seen.

use engine::volume::{Config, FileServers, Found, Keeping, Problems, TargetConfig, VolumeId, found_on, real_paths};
use meta::state::TargetRecord;
use object::host;
use object::target::{IdentityError, Medium};
use policy::{ObjectId, TargetId};
use rustix::io::Errno;
use std::path::PathBuf;

/// Result of a look at one target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetState {
    /// It is present with its identity.
    Here {
        /// Number of the target.
        id: TargetId,
        /// Largest epoch recorded on it or in its objects' numbers.
        epoch: u32,
        /// Number of its objects.
        objects: u64,
    },
    /// The target is absent or unreadable.
    Away {
        /// Cause for the operator.
        why: String,
        /// Number of the target, if readable.
        id: Option<TargetId>,
    },
    /// This host does not reach it.
    Elsewhere,
}

impl TargetState {
    /// Number of a target that is present.
    pub fn here(&self) -> Option<TargetId> {
        match self {
            TargetState::Here { id, .. } => Some(*id),
            _ => None,
        }
    }
}

/// Examines all targets. A directory of another volume, or of a target with another name, is refused.
pub fn look(config: &Config, servers: &dyn FileServers, volume: VolumeId) -> Result<Vec<TargetState>, Problems> {
    let host = host::name();
    let paths: Vec<PathBuf> =
        config.targets.iter().filter(|t| t.is_on(&host)).filter_map(|t| Some(t.directory()?.to_owned())).collect();
    let mut real = real_paths(&paths, config.health.deadline).into_iter();
    let mut all = Vec::new();
    for target in &config.targets {
        let is_here = target.is_on(&host);
        let answers = match &target.keeping {
            Keeping::Directory(_) if is_here => real.next().flatten().is_some(),
            _ => true,
        };
        all.push(match (is_here, answers) {
            (false, _) => TargetState::Elsewhere,
            (true, false) => TargetState::Away { why: "it does not answer".into(), id: None },
            (true, true) => look_at(config, target, servers, volume)?,
        });
    }
    Ok(all)
}

fn look_at(
    config: &Config,
    target: &TargetConfig,
    servers: &dyn FileServers,
    volume: VolumeId,
) -> Result<TargetState, Problems> {
    let away = |why: String, id| Ok(TargetState::Away { why, id });
    let place = match Found::at(&target.keeping, servers) {
        Ok(place) => place,
        Err(why) => return away(why, None),
    };
    let identity = match place.identity() {
        Err(IdentityError::Missing) => {
            return away(
                "there is no `target.id`: its device may not be mounted, or it never was a target".into(),
                None,
            );
        }
        Err(error @ IdentityError::Io(_)) => return away(error.to_string(), None),
        found => {
            let known: Vec<_> = found.iter().map(|found| TargetRecord::new(found.target, &found.name)).collect();
            found_on(config, target, found.clone(), volume, &known)?;
            match found {
                Ok(identity) => identity,
                Err(error) => return away(error.to_string(), None),
            }
        }
    };
    let id = identity.target;
    match numbers(&*place.medium(identity)) {
        Ok((epoch, objects)) => Ok(TargetState::Here { id, epoch, objects }),
        Err(errno) => away(format!("its contents cannot be read: {errno}"), Some(id)),
    }
}

/// Returns its largest epoch and the number of its objects.
fn numbers(medium: &dyn Medium) -> Result<(u32, u64), Errno> {
    let written = medium.epoch()?.unwrap_or(0);
    let objects = medium.list()?;
    Ok((objects.iter().copied().map(ObjectId::epoch).fold(written, u32::max), objects.len() as u64))
}
