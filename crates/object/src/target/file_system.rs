//! Driver of `policy::protect::health::file_system`: compares the targets that lie on one shared file system.

use super::{Target, Targets};
use policy::Time;
use policy::protect::health::file_system::{FileSystem, seen};
use policy::protect::health::{Event, Health};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Targets {
    /// Reports the state of a shared file system, as shown by its other targets, to each target on it.
    pub(super) fn compare_file_systems(&self, all: &[Arc<Target>]) {
        let mut file_systems: BTreeMap<u64, Vec<&Target>> = BTreeMap::new();
        for target in all {
            if let Some(number) = target.core.medium.shared_file_system() {
                file_systems.entry(number).or_default().push(target);
            }
        }
        file_systems.values().for_each(|targets| compare(targets));
    }
}

fn compare(targets: &[&Target]) {
    let doubts = targets.iter().filter_map(|target| target.core.health(Health::doubt_since));
    let since = doubts.min().unwrap_or(Time(u64::MAX));
    let now = seen(targets.iter().map(|target| target.core.health(|health| health.member(since))));
    let before: Vec<_> = targets.iter().map(|target| target.core.health(Health::file_system)).collect();
    for (target, _) in targets.iter().zip(&before).filter(|(_, before)| **before != Some(now)) {
        target.core.report(Event::FileSystem(now));
    }
    let was_away = before.contains(&Some(FileSystem::Away));
    let names = || targets.iter().map(|target| target.name()).collect::<Vec<_>>().join(", ");
    if now == FileSystem::Away && !was_away {
        tracing::warn!(
            "the shared file system of {} does not answer; calls wait as its client does, and none of these targets is \
             failed for two minutes. Check after the servers of the file system",
            names()
        );
    } else if was_away && now == FileSystem::Answers {
        tracing::info!("the shared file system of {} answers again", names());
    }
}
