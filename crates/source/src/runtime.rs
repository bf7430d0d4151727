//! The blocking face over one small asynchronous runtime: every call has a deadline.

use crate::failure;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use store::origin::OriginError;

/// Threads that drive the protocols. They only move bytes between sockets and buffers.
const WORKER_THREADS: usize = 2;

/// Threads inside calls of local file systems, at most.
const BLOCKING_THREADS_MAX: usize = 32;

/// The slowest source that is still waited for. A guess: a modem.
const SLOWEST_BYTES_S: u64 = 32 << 10;

/// The runtime and the patience.
pub struct Runtime {
    tokio: tokio::runtime::Runtime,
    patience: Duration,
}

impl Runtime {
    /// Starts the threads.
    pub fn start(patience: Duration) -> std::io::Result<Runtime> {
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(WORKER_THREADS)
            .max_blocking_threads(BLOCKING_THREADS_MAX)
            .thread_name("source")
            .enable_all()
            .build()?;
        Ok(Runtime { tokio, patience })
    }

    /// Waits for a future that moves about `bytes`, not longer than the patience and the slowest source's time for them.
    pub fn wait<T>(
        &self,
        what: &str,
        bytes: u64,
        future: impl Future<Output = Result<T, OriginError>>,
    ) -> Result<T, OriginError> {
        let limit = self.patience + Duration::from_secs(bytes / SLOWEST_BYTES_S);
        self.tokio.block_on(async {
            match tokio::time::timeout(limit, future).await {
                Ok(result) => result,
                Err(_) => Err(failure::timeout(what)),
            }
        })
    }

    /// Where background tasks are started.
    pub fn handle(&self) -> &tokio::runtime::Handle {
        self.tokio.handle()
    }

    /// How long a call without bytes may take.
    pub fn patience(&self) -> Duration {
        self.patience
    }
}

/// So often within its patience a transfer is looked at.
const LOOKS: u32 = 4;

/// Waits for a transfer as long as it moves: one of which no byte has come for the whole patience has failed in passing.
/// The future counts its bytes in `moved`.
pub async fn while_moving<T>(
    what: &str,
    patience: Duration,
    moved: &AtomicU64,
    future: impl Future<Output = Result<T, OriginError>>,
) -> Result<T, OriginError> {
    let mut future = std::pin::pin!(future);
    let (mut seen, mut idle) = (moved.load(Ordering::Relaxed), 0);
    while idle < LOOKS {
        if let Ok(result) = tokio::time::timeout(patience / LOOKS, &mut future).await {
            return result;
        }
        let now = moved.load(Ordering::Relaxed);
        idle = if now == seen { idle + 1 } else { 0 };
        seen = now;
    }
    Err(failure::stalled(what, patience))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_answers_is_given_up() {
        let runtime = Runtime::start(Duration::from_millis(5)).expect("starts");
        let result: Result<(), _> = runtime.wait("x", 0, std::future::pending());
        assert!(matches!(result, Err(OriginError::Passing(_))));
    }

    #[test]
    fn a_transfer_that_moves_may_take_long_and_one_that_stands_still_may_not() {
        let runtime = Runtime::start(Duration::from_secs(60)).expect("starts");
        let (moved, patience) = (AtomicU64::new(0), Duration::from_millis(80));
        let slow = async {
            for _ in 0..10 {
                tokio::time::sleep(Duration::from_millis(30)).await;
                moved.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        assert_eq!(runtime.wait("x", 0, while_moving("x", patience, &moved, slow)), Ok(()));
        let still = while_moving("read", patience, &moved, std::future::pending::<Result<(), _>>());
        let Err(OriginError::Passing(said)) = runtime.wait("x", 0, still) else { panic!("it stood still") };
        assert!(said.contains("nothing came for"), "{said}");
    }
}
