//! What a client asks for, when, and where the blocks lie on the storage.

use crate::block::Io;
use policy::cache::Span;
use policy::precedence::Class;
use policy::time::Time;

/// One request of an application, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// When the trace says; only an open loop looks at it.
    pub at: Time,
    /// The blocks.
    pub span: Span,
    /// Who reads sequentially.
    pub stream: u32,
    /// Blocks of the file, `u64::MAX` if not known.
    pub file_blocks: u64,
    /// Whether it writes.
    pub write: bool,
}

/// When requests come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// At the times of the trace, divided by `speed`, whatever became of the requests before.
    Open {
        /// Times faster than the trace.
        speed: f64,
    },
    /// The next request comes so long after the answer to the one before: a synchronous client.
    Closed {
        /// How long the client thinks.
        think: Time,
    },
    /// The next request comes as long after the one before as the trace says, but not before that is answered: a client that
    /// reads at its own pace and waits when it has to, such as a player or a copy to a slow place.
    Paced,
}

/// What becomes of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// They update the levels and cost no time of the device.
    Cached,
    /// Like `Cached`, and the device writes them when it gets to it.
    Background,
    /// They are left out.
    Dropped,
}

/// Where the files' blocks lie: one file after the other, wrapped at the end of the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// The first block of each file on the storage.
    first_blocks: Vec<u64>,
    block_sectors: u64,
    storage_blocks: u64,
}

impl Placement {
    /// Files of these lengths, in blocks of `block_sectors` sectors, on a storage of `sectors`.
    pub fn new(file_blocks: &[u64], block_sectors: u64, sectors: u64) -> Placement {
        let storage_blocks = sectors / block_sectors;
        assert!(storage_blocks > 0, "a storage smaller than a block");
        let mut next = 0u64;
        let first_blocks = file_blocks.iter().map(|&blocks| {
            let first = next % storage_blocks;
            next = next.saturating_add(blocks);
            first
        });
        Placement { first_blocks: first_blocks.collect(), block_sectors, storage_blocks }
    }

    /// The device's request for `span`.
    pub fn io(&self, span: Span, write: bool, owner: u32, class: Class) -> Io {
        let first = self.first_blocks.get(span.first.file() as usize).copied().unwrap_or(0);
        let count = u64::from(span.len).min(self.storage_blocks);
        // A run that would cross the end of the storage lies before it.
        let block = ((first + span.first.index()) % self.storage_blocks).min(self.storage_blocks - count);
        Io { sector: block * self.block_sectors, count: count * self.block_sectors, write, owner, class }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_follow_each_other_and_wrap_at_the_end() {
        let placement = Placement::new(&[10, 20, 5], 8, 8 * 32);
        let at = |file, index, len| placement.io(Span::new(file, index, len), false, 0, Class::Awaited);
        assert_eq!((at(0, 9, 1).sector, at(1, 0, 2).sector, at(1, 0, 2).count), (72, 80, 16));
        assert_eq!(at(2, 0, 2).sector, 30 * 8);
        assert_eq!(at(2, 2, 1).sector, 0);
        assert_eq!(at(2, 1, 4).end(), 32 * 8);
    }
}
