//! A stream: one open handle of one file, the unit of prefetchers; ETS and ESF divide the budget among streams.

use super::BlockCache;
use super::files::Files;
use policy::FileId;
use std::sync::{Arc, OnceLock, Weak};

/// Handle of a stream of reads; the stream ends with its last handle.
pub struct Stream {
    pub(super) number: Arc<Number>,
    pub(super) client: u32,
    /// Opened with `O_NOATIME`: its reads are prefetches of a cache above.
    pub(super) speculative: bool,
}

/// The number of a stream; a speculative handle shares it with the handle whose prefetches it makes.
pub(super) struct Number {
    cache: Weak<BlockCache>,
    pub(super) number: u32,
    file: OnceLock<FileId>,
}

impl Stream {
    /// A new stream of a client.
    pub fn new(cache: &Arc<BlockCache>, client: u32) -> Stream {
        let mut inner = cache.inner.lock();
        inner.stream_last = inner.stream_last.wrapping_add(1);
        let number = inner.stream_last;
        drop(inner);
        let number = Number { cache: Arc::downgrade(cache), number, file: OnceLock::new() };
        Stream { number: Arc::new(number), client, speculative: false }
    }

    /// Makes the stream speculative, if there is no ordinary handle whose stream it could use.
    pub fn into_speculative(self) -> Stream {
        Stream { speculative: true, ..self }
    }

    /// Number of the file in the cache, fixed for the life of the stream.
    pub(super) fn enter(&self, id: FileId, files: &mut Files) -> u32 {
        let mut first = false;
        let file = *self.number.file.get_or_init(|| {
            first = true;
            id
        });
        match files.number(file).filter(|_| !first && file == id) {
            Some(number) => number,
            None if first => files.enter(id),
            // This cannot happen, since an open file keeps its number. Otherwise the stream's state would be lost.
            None => files.number(id).unwrap_or_else(|| files.enter(id)),
        }
    }
}

/// A stream that may have ended.
pub struct WeakStream {
    number: Weak<Number>,
    client: u32,
}

impl Stream {
    /// Weak reference to the stream.
    pub fn downgrade(&self) -> WeakStream {
        WeakStream { number: Arc::downgrade(&self.number), client: self.client }
    }
}

impl WeakStream {
    /// Speculative handle of the stream, whose reads are not awaited; `None` if the stream ended.
    pub fn speculative(&self) -> Option<Stream> {
        Some(Stream { number: self.number.upgrade()?, client: self.client, speculative: true })
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        if let Some(cache) = self.cache.upgrade() {
            cache.stream_ended(self.number, self.file.get().copied());
        }
    }
}
