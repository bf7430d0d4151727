//! Blocking interface over one small asynchronous runtime: every call has a deadline.

use crate::failure;
use engine::source::{Result, SourceError};
use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Threads that drive the protocols. They only move bytes between sockets and buffers.
const WORKER_THREADS: usize = 2;

/// Maximum of threads inside calls of local file systems.
const BLOCKING_THREADS_MAX: usize = 32;

/// Slowest tolerated source. A guess: a modem.
const SLOWEST_BYTES_S: u64 = 32 << 10;

/// The runtime, with the timeout of a stalled transfer. Its threads start with the first request.
pub struct Runtime {
    tokio: OnceLock<tokio::runtime::Runtime>,
    /// Timeout of a call without bytes.
    pub timeout: Duration,
}

impl Runtime {
    /// Makes a runtime without threads.
    pub fn new(timeout: Duration) -> Runtime {
        Runtime { tokio: OnceLock::new(), timeout }
    }

    fn tokio(&self) -> Result<&tokio::runtime::Runtime> {
        if let Some(tokio) = self.tokio.get() {
            return Ok(tokio);
        }
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(WORKER_THREADS).max_blocking_threads(BLOCKING_THREADS_MAX).thread_name("source");
        let tokio = builder
            .enable_all()
            .build()
            .map_err(|e| SourceError::Passing(format!("the threads of sources cannot start: {e}")))?;
        Ok(self.tokio.get_or_init(|| tokio))
    }

    /// Waits for a future that moves about `bytes`, at most for the timeout plus the time of the slowest source.
    pub fn wait<T>(&self, what: &str, bytes: u64, future: impl Future<Output = Result<T>>) -> Result<T> {
        let limit = self.timeout + Duration::from_secs(bytes / SLOWEST_BYTES_S);
        self.tokio()?.block_on(async {
            match tokio::time::timeout(limit, future).await {
                Ok(result) => result,
                Err(_) => Err(failure::timeout(what)),
            }
        })
    }

    /// Handle of the runtime, for background tasks.
    pub fn handle(&self) -> Result<&tokio::runtime::Handle> {
        Ok(self.tokio()?.handle())
    }
}

/// Lowest tolerated rate of a transfer, in bytes per second. A guess: an eighth of the slowest source, since so many
/// transfers share one.
const LEAST_BYTES_S: u64 = SLOWEST_BYTES_S / 8;

/// Number of checks of a transfer within its timeout.
const LOOKS: u32 = 4;

/// Progress of a transfer: bytes moved, and time spent waiting for the consumer of its bytes.
#[derive(Default)]
pub struct Moved {
    bytes: AtomicU64,
    away_ns: AtomicU64,
}

impl Moved {
    /// Adds bytes that arrived.
    pub fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Passes bytes to their consumer, whose time does not count against the source.
    pub fn hand_over<T>(&self, take: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = take();
        self.away_ns.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        result
    }
}

/// Verdict about a transfer.
#[derive(Debug, PartialEq, Eq)]
enum Going {
    Well,
    /// No byte arrived within the timeout.
    Stalled,
    /// Too slow: this many bytes per second.
    Slowly(u64),
}

/// Judges a transfer by the times at which its bytes arrived.
struct Pace {
    timeout: Duration,
    /// Time of the last arrival, and number of bytes then.
    last: (Duration, u64),
    /// Start of the measurement of the rate; not before the first byte, for which a source may take its whole timeout.
    window: Option<(Duration, u64)>,
}

impl Pace {
    fn new(timeout: Duration) -> Pace {
        Pace { timeout, last: (Duration::ZERO, 0), window: None }
    }

    fn look(&mut self, now: Duration, bytes: u64) -> Going {
        if bytes > self.last.1 {
            self.last = (now, bytes);
        } else if now.saturating_sub(self.last.0) >= self.timeout {
            return Going::Stalled;
        }
        if self.last.1 == 0 {
            return Going::Well;
        }
        let (since, had) = *self.window.get_or_insert(self.last);
        let passed = now.saturating_sub(since);
        if passed < self.timeout {
            return Going::Well;
        }
        self.window = Some((now, bytes));
        let bytes_s = ((bytes - had) as f64 / passed.as_secs_f64()) as u64;
        if bytes_s < LEAST_BYTES_S { Going::Slowly(bytes_s) } else { Going::Well }
    }
}

/// Waits for a transfer while it moves. It fails temporarily if no byte arrives for the whole timeout, or fewer than
/// `LEAST_BYTES_S` per second.
pub async fn while_moving<T>(
    what: &str,
    timeout: Duration,
    moved: &Moved,
    future: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut future = std::pin::pin!(future);
    let (began, mut pace) = (Instant::now(), Pace::new(timeout));
    loop {
        if let Ok(result) = tokio::time::timeout(timeout / LOOKS, &mut future).await {
            return result;
        }
        let away = Duration::from_nanos(moved.away_ns.load(Ordering::Relaxed));
        let now = began.elapsed().saturating_sub(away);
        match pace.look(now, moved.bytes.load(Ordering::Relaxed)) {
            Going::Well => {}
            Going::Stalled => return Err(failure::stalled(what, timeout)),
            Going::Slowly(bytes_s) => return Err(failure::slow(what, bytes_s, LEAST_BYTES_S)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_answers_is_given_up() {
        let runtime = Runtime::new(Duration::from_millis(5));
        let result: Result<(), _> = runtime.wait("x", 0, std::future::pending());
        assert!(matches!(result, Err(SourceError::Passing(_))));
    }

    #[test]
    fn a_transfer_that_moves_may_take_long_and_one_that_stands_still_may_not() {
        let runtime = Runtime::new(Duration::from_secs(60));
        let (moved, timeout) = (Moved::default(), Duration::from_millis(80));
        let slow = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(30)).await;
                moved.add(1 << 20);
            }
            Ok(())
        };
        assert_eq!(runtime.wait("x", 0, while_moving("x", timeout, &moved, slow)), Ok(()));
        let still = while_moving("read", timeout, &moved, std::future::pending::<Result<(), _>>());
        let Err(SourceError::Passing(message)) = runtime.wait("x", 0, still) else { panic!("it stood still") };
        assert!(message.contains("no bytes arrived for"), "{message}");
    }

    /// Verdicts after each second of a transfer that brings `bytes(k)` in second `k`, until it fails.
    fn judged(patience_s: u64, seconds: u64, bytes: impl Fn(u64) -> u64) -> (u64, Going) {
        let mut pace = Pace::new(Duration::from_secs(patience_s));
        let mut sum = 0;
        for k in 0..seconds {
            sum += bytes(k);
            match pace.look(Duration::from_secs(k + 1), sum) {
                Going::Well => {}
                other => return (k + 1, other),
            }
        }
        (seconds, Going::Well)
    }

    /// [S-191]
    #[test]
    fn a_source_that_drips_is_given_up_like_one_that_is_silent() {
        assert_eq!(judged(30, 1000, |_| 0), (30, Going::Stalled));
        assert_eq!(judged(30, 1000, |_| 1), (31, Going::Slowly(1)), "a byte a second");
        assert_eq!(
            judged(30, 1000, |k| u64::from(k % 20 == 19) * 1000).1,
            Going::Slowly(33),
            "a thousand now and then"
        );
        assert_eq!(judged(30, 1000, |_| LEAST_BYTES_S), (1000, Going::Well), "slow, but worth waiting for");
        assert_eq!(judged(30, 1000, |k| if k < 100 { 1 << 20 } else { 2 }).1, Going::Slowly(2), "it was fast once");
        // The first byte may take the whole timeout, even if a trickle follows before the stream.
        assert_eq!(judged(30, 40, |k| if k < 29 { 0 } else { 1 << 20 }), (40, Going::Well));
    }

    #[test]
    fn time_that_the_taker_needs_is_not_the_sources() {
        let moved = Moved::default();
        moved.hand_over(|| std::thread::sleep(Duration::from_millis(3)));
        assert!(moved.away_ns.load(Ordering::Relaxed) >= 3_000_000);
    }
}
