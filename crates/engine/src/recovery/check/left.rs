//! A scan in the background for objects that no file names, after an unclean end of the only node.

use super::{CheckOptions, Checker};
use crate::stage::Stop;
use crate::{Error, Result};
use object::target::own_part;
use policy::{ObjectId, TargetId};
use std::time::{Duration, Instant};

/// Work between two pauses of a background scan. A guess: short beside delays that users notice.
const WORK: Duration = Duration::from_millis(10);

/// Removed objects that no file named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Left {
    /// Number of objects.
    pub objects: u64,
    /// Bytes of the objects.
    pub bytes: u64,
}

impl Checker {
    /// Scans the volume at half speed, twice if the first scan finds orphans, and removes these.
    ///
    /// # Errors
    /// `Busy` if the scan was incomplete: no object is removed.
    pub fn remove_left(&self, stop: &Stop) -> Result<Left> {
        let options = CheckOptions { only_left: true, ..CheckOptions::default() };
        let mut found = self.look(&options, &|_| (), stop)?;
        self.confirm(&mut found, &options, stop)?;
        if let Some(why) = found.report.unseen.first() {
            return Err(Error::Busy(why.clone()));
        }
        let orphans: Vec<_> = found.orphans.into_iter().map(|(_, orphan)| orphan).collect();
        let bytes = orphans.iter().map(|orphan| self.bytes_of(*orphan)).sum();
        self.remove(&orphans)?;
        Ok(Left { objects: orphans.len() as u64, bytes })
    }

    fn bytes_of(&self, (target, object): (TargetId, ObjectId)) -> u64 {
        let asked = self.volume.targets().get(target);
        let asked = asked.map(|target| target.run(move |medium| own_part(medium.open(object)?, None).allocated()));
        asked.and_then(|allocated| allocated.ok()).unwrap_or_default()
    }
}

/// Pauses of a scan, as long as its work.
pub(super) struct Rests(Option<Instant>);

impl Rests {
    /// Pauses for a background scan; none for a scan that a user waits for.
    pub fn of(background: bool) -> Rests {
        Rests(background.then(Instant::now))
    }

    /// Pauses when it is time.
    pub fn step(&mut self) {
        if let Some(since) = &mut self.0
            && since.elapsed() >= WORK
        {
            std::thread::sleep(since.elapsed());
            *since = Instant::now();
        }
    }
}
