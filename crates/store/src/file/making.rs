//! Objects that are being made: they are on their targets, and no layout names them yet.
//!
//! A look through the volume asks which these are after it listed the targets and before it reads layouts: what is in a list and not
//! among them was named by then, or nothing will ever name it.

use parking_lot::Mutex;
use policy::ObjectId;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For so long a layout may still come that names an object in doubt; a check of the volume tells afterwards. A guess: a call that a client
/// has given up is not carried out minutes later.
const DOUBT: Duration = Duration::from_secs(600);

/// The objects that are being made. See the module.
#[derive(Debug, Default)]
pub struct Making(Mutex<Objects>);

#[derive(Debug, Default)]
struct Objects {
    made: HashSet<ObjectId>,
    /// A layout that names them was written, or not: its file system did not say. Since when.
    doubtful: HashMap<ObjectId, Instant>,
}

/// One of them, until this is dropped: then a layout names it, somebody else answers for it, or it is removed.
#[derive(Debug)]
pub(crate) struct BeingMade {
    among: Arc<Making>,
    object: ObjectId,
}

impl Objects {
    fn forget_old_doubts(&mut self) {
        self.doubtful.retain(|_, since| since.elapsed() < DOUBT);
    }
}

impl Making {
    /// The object is about to be made.
    pub(crate) fn begin(self: &Arc<Self>, object: ObjectId) -> BeingMade {
        self.0.lock().made.insert(object);
        BeingMade { among: self.clone(), object }
    }

    /// All of them. Whoever ends the claims of nodes that are over gives this node's epoch: no layout will name what it made under an
    /// earlier number, so that is in doubt no more.
    pub(crate) fn objects(&self, epoch: Option<u32>) -> HashSet<ObjectId> {
        let mut objects = self.0.lock();
        objects.forget_old_doubts();
        let doubtful = objects.doubtful.keys().filter(|object| epoch.is_none_or(|epoch| object.epoch() == epoch));
        objects.made.iter().chain(doubtful).copied().collect()
    }

    /// Nobody knows whether a layout names the object.
    pub(crate) fn doubt(&self, object: ObjectId) {
        let mut objects = self.0.lock();
        objects.forget_old_doubts();
        objects.doubtful.insert(object, Instant::now());
    }

    /// Whether nobody knows whether a layout names the object, so that it must not be removed.
    pub(crate) fn is_doubtful(&self, object: ObjectId) -> bool {
        self.0.lock().doubtful.get(&object).is_some_and(|since| since.elapsed() < DOUBT)
    }

    /// Of these it is known that a layout names them, or that none will.
    pub(crate) fn settled(&self, objects: impl Iterator<Item = ObjectId>) {
        let doubtful = &mut self.0.lock().doubtful;
        if !doubtful.is_empty() {
            objects.for_each(|object| {
                doubtful.remove(&object);
            });
        }
    }
}

impl Drop for BeingMade {
    fn drop(&mut self) {
        self.among.0.lock().made.remove(&self.object);
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
