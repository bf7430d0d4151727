//! The blocking face over one small asynchronous runtime: every call has a deadline.

use crate::failure;
use std::future::Future;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_never_answers_is_given_up() {
        let runtime = Runtime::start(Duration::from_millis(5)).expect("starts");
        let result: Result<(), _> = runtime.wait("x", 0, std::future::pending());
        assert!(matches!(result, Err(OriginError::Passing(_))));
    }
}
