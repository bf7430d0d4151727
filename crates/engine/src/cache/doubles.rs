//! Views of a cache for tests: its log and its invariants.

use super::BlockCache;
use super::frames::Frames;
use policy::cache::Logged;

impl BlockCache {
    /// Starts a log of the level's events and actions.
    pub fn start_log(&self) {
        self.inner.lock().level.log.start();
    }

    /// The log so far.
    pub fn log(&self) -> Vec<Logged> {
        self.inner.lock().level.log.lines().to_vec()
    }

    /// Whether the invariants hold, the level's own included; takes time linear in the size.
    pub fn check(&self) -> std::result::Result<(), String> {
        let inner = self.inner.lock();
        inner.level.check()?;
        let flying: usize = inner.flying.values().filter(|f| f.keep).map(|f| f.span.len as usize).sum();
        let (resident, used) = (inner.frames.resident(), inner.level.inventory() as usize);
        if resident + flying != used {
            return Err(format!("{resident} frames are filled and {flying} on the way, the level has {used} blocks"));
        }
        inner.frames.check()
    }
}

impl Frames {
    pub fn resident(&self) -> usize {
        self.filled.len()
    }

    pub fn check(&self) -> std::result::Result<(), String> {
        match self.made <= self.made_max {
            true => Ok(()),
            false => Err(format!("{} frames, and {} is the most", self.made, self.made_max)),
        }
    }
}
