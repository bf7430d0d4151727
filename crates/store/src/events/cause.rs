//! Which mechanism has a change made, and why: said where it is decided, and known where it is made, on the same thread.

use std::cell::RefCell;

thread_local!(static CAUSE: RefCell<Option<(&'static str, String)>> = const { RefCell::new(None) });

/// What `work` changes is by that mechanism, for that reason.
pub fn because<T>(by: &'static str, why: String, work: impl FnOnce() -> T) -> T {
    struct Before(Option<(&'static str, String)>);
    impl Drop for Before {
        fn drop(&mut self) {
            CAUSE.with_borrow_mut(|cause| *cause = self.0.take());
        }
    }
    let _before = Before(CAUSE.with_borrow_mut(|cause| cause.replace((by, why))));
    work()
}

/// The mechanism and the reason that this thread works for now.
pub fn cause() -> Option<(&'static str, String)> {
    CAUSE.with_borrow(Clone::clone)
}
