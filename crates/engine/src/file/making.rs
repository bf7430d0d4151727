//! Objects under construction: they exist on their targets, and no layout names them so far.
//!
//! A scan for orphans takes this set after it listed the targets and before it reads layouts. A listed object that is
//! not in the set had its layout by then, or never gets one.

use parking_lot::Mutex;
use policy::ObjectId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time in which a layout may still appear that names an object in doubt; after it the leader searches for those that
/// none names. A guess: a file system doesn't execute an abandoned call minutes later.
const DOUBT: Duration = Duration::from_secs(600);

/// The objects under construction. See the module.
#[derive(Debug, Default)]
pub struct Making {
    objects: Mutex<Objects>,
    /// Whether objects without an owner may have been left.
    left_behind: AtomicBool,
}

#[derive(Debug, Default)]
struct Objects {
    made: HashSet<ObjectId>,
    /// Objects that a layout may name, because the file system did not answer, with the time of the failure.
    doubtful: HashMap<ObjectId, Instant>,
}

/// An object under construction. At the drop a layout names the object, another owner is responsible for it, or it is
/// removed.
#[derive(Debug)]
pub struct BeingMade {
    among: Arc<Making>,
    object: ObjectId,
}

impl BeingMade {
    #[cfg(test)]
    pub(crate) fn object(&self) -> ObjectId {
        self.object
    }

    /// From now on the object is also in doubt.
    pub(crate) fn doubt(&self) {
        self.among.doubt(self.object);
    }
}

impl Making {
    /// Registers an object before its creation.
    pub fn begin(self: &Arc<Self>, object: ObjectId) -> BeingMade {
        self.objects.lock().made.insert(object);
        BeingMade { among: self.clone(), object }
    }

    /// All objects under construction or in doubt. After ending expired nodes' claims, callers pass this node's epoch:
    /// objects of earlier epochs are not in doubt any more.
    pub(crate) fn objects(&self, epoch: Option<u32>) -> HashSet<ObjectId> {
        self.forget_old_doubts();
        let objects = self.objects.lock();
        let doubtful = objects.doubtful.keys().filter(|object| epoch.is_none_or(|epoch| object.epoch() == epoch));
        objects.made.iter().chain(doubtful).copied().collect()
    }

    /// Registers an object that a layout may or may not name.
    pub(crate) fn doubt(&self, object: ObjectId) {
        tracing::trace!(%object, "an object is in doubt");
        self.objects.lock().doubtful.insert(object, Instant::now());
    }

    fn forget_old_doubts(&self) {
        let doubtful = &mut self.objects.lock().doubtful;
        let before = doubtful.len();
        doubtful.retain(|_, since| since.elapsed() < DOUBT);
        if doubtful.len() < before {
            self.leave_behind();
        }
    }

    /// Records that objects without an owner may have been left.
    pub fn leave_behind(&self) {
        self.left_behind.store(true, Ordering::Release);
    }

    /// Whether objects were left since the last call: the leader has to search for them.
    pub fn take_left_behind(&self) -> bool {
        self.forget_old_doubts();
        self.left_behind.swap(false, Ordering::AcqRel)
    }

    /// Whether a layout may name the object, so that it must not be removed.
    pub(crate) fn is_doubtful(&self, object: ObjectId) -> bool {
        self.objects.lock().doubtful.get(&object).is_some_and(|since| since.elapsed() < DOUBT)
    }

    /// Removes objects from the doubtful ones: a layout names them, or none ever will.
    pub(crate) fn settled(&self, objects: impl Iterator<Item = ObjectId>) {
        let doubtful = &mut self.objects.lock().doubtful;
        if !doubtful.is_empty() {
            objects.for_each(|object| {
                doubtful.remove(&object);
            });
        }
    }
}

impl Drop for BeingMade {
    fn drop(&mut self) {
        self.among.objects.lock().made.remove(&self.object);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-213]
    #[test]
    fn what_is_in_doubt_of_an_earlier_number_is_spared_until_claims_are_ended() {
        let making = Arc::new(Making::default());
        let [earlier, now, made] = [(3 << 32) + 7, (5 << 32) + 1, (3 << 32) + 8].map(ObjectId);
        let held = making.begin(made);
        making.doubt(earlier);
        making.doubt(now);
        assert_eq!(making.objects(None), HashSet::from([earlier, now, made]));
        assert_eq!(making.objects(Some(5)), HashSet::from([now, made]), "what is still being made stays");
        drop(held);
        assert!(making.is_doubtful(earlier), "others may not remove it by what they know");
        making.settled([earlier].into_iter());
        assert_eq!((making.is_doubtful(earlier), making.objects(None)), (false, HashSet::from([now])));
    }
}
