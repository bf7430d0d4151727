//! Calls that may hang in a device, with a limit of the wait.

use object::workers::within;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval of checks whether an earlier call has ended.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A running call, until this is dropped.
struct Asking(&'static AtomicBool);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

/// Returns the result of `ask`; `None` if it takes longer than `limit`. Calls of one kind run one after the other, so a
/// device that hangs holds only one thread.
pub fn in_time<T: Send + 'static>(
    limit: Duration,
    is_asking: &'static AtomicBool,
    ask: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let began = Instant::now();
    while is_asking.swap(true, Ordering::AcqRel) {
        if began.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    let asking = Asking(is_asking);
    let ask = move || {
        let _asking = asking;
        ask()
    };
    within(limit.saturating_sub(began.elapsed()), "in-time", [ask]).pop()?
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// [S-426]
    #[test]
    fn what_does_not_answer_is_left_out_and_asked_once() {
        static ASKING: AtomicBool = AtomicBool::new(false);
        let (go, waits) = channel::<()>();
        let (limit, long) = (Duration::from_millis(20), Duration::from_secs(60));
        assert_eq!(in_time(limit, &ASKING, move || waits.recv().is_ok()), None);
        assert_eq!(in_time(limit, &ASKING, || panic!("the first one hangs")), None::<()>);
        go.send(()).expect("it still waits");
        assert_eq!(in_time(long, &ASKING, || 7), Some(7));
    }
}
