//! Sources and destinations under the rate limit of a transfer.

use super::limit::Pace;
use crate::source::{Deposited, Entry, Identity, Opener, Result, Source, Started, Upload, Version};
use object::forward;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// An [`Opener`] whose sources and uploads keep to a pace.
pub(super) struct PacedOpener {
    pub inner: Arc<dyn Opener>,
    pub pace: Arc<Pace>,
}

impl Opener for PacedOpener {
    fn open(&self, uri: &str, who: &Identity) -> Result<Arc<dyn Source>> {
        let source = self.inner.open(uri, who)?;
        Ok(Arc::new(PacedSource { source, pace: self.pace.clone() }))
    }

    fn create(&self, uri: &str, who: &Identity) -> Result<Started> {
        let Started { upload, at } = self.inner.create(uri, who)?;
        Ok(Started { upload: Box::new(PacedUpload { upload, pace: self.pace.clone() }), at })
    }

    forward! { inner:
        fn named(&self, uri: &str, name: &str, who: &Identity) -> Result<String>;
        fn record(&self, uri: &str, who: &Identity) -> Result<Option<Vec<Deposited>>>;
        fn list(&self, uri: &str, who: &Identity) -> Result<Vec<Entry>>;
    }
}

struct PacedSource {
    source: Arc<dyn Source>,
    pace: Arc<Pace>,
}

impl Source for PacedSource {
    fn fetch_at(&self, version: &Version, offset: u64, buf: &mut [u8], arrived: &AtomicU64) -> Result<()> {
        let mut at = offset;
        for piece in buf.chunks_mut(self.pace.piece_bytes()) {
            self.pace.take(piece.len() as u64)?;
            self.source.fetch_at(version, at, piece, arrived)?;
            at += piece.len() as u64;
        }
        Ok(())
    }

    /// Waits before each block is passed on: then the sender has to wait, too.
    fn read_all(&self, version: &Version, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<()> {
        let mut stopped = Ok(());
        let read = self.source.read_all(version, &mut |bytes| {
            stopped = self.pace.take(bytes.len() as u64);
            stopped.is_ok() && each(bytes)
        });
        stopped.and(read)
    }

    forward! { source:
        fn stat(&self) -> Result<Version>;
        fn has_ranges(&self) -> Result<bool>;
        fn notices_replacement(&self, version: &Version) -> bool;
    }
}

struct PacedUpload {
    upload: Box<dyn Upload>,
    pace: Arc<Pace>,
}

impl Upload for PacedUpload {
    fn append(&mut self, data: &[u8]) -> Result<()> {
        for piece in data.chunks(self.pace.piece_bytes()) {
            self.pace.take(piece.len() as u64)?;
            self.upload.append(piece)?;
        }
        Ok(())
    }

    fn complete(&mut self, expect_size: u64) -> Result<()> {
        self.upload.complete(expect_size)
    }

    fn finish(self: Box<Self>, expect_size: u64) -> Result<Version> {
        self.upload.finish(expect_size)
    }

    fn abort(self: Box<Self>) -> Option<String> {
        self.upload.abort()
    }
}
