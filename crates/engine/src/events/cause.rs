//! Mechanism and reason of a change: set at the decision, and read at the change, on the same thread.

use std::cell::RefCell;

thread_local!(static CAUSE: RefCell<Option<(&'static str, String)>> = const { RefCell::new(None) });

/// Records this mechanism and reason as the cause of all changes made by `work`.
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
