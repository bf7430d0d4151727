//! Requests of a client, their times, and the location of the blocks on the storage.

use crate::block::Io;
use policy::cache::Span;
use policy::precedence::Class;
use policy::time::Time;

/// A request of an application, in blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Time in the trace; unused in a closed loop with a fixed think time.
    pub at: Time,
    /// Blocks of the request.
    pub span: Span,
    /// Number of the sequential stream.
    pub stream: u32,
    /// Blocks of the file, `u64::MAX` if unknown.
    pub file_blocks: u64,
    /// Whether it is a write.
    pub write: bool,
}

/// Arrival of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// At the times of the trace, divided by `speed`, independent of earlier requests.
    Open {
        /// Speed relative to the trace.
        speed: f64,
    },
    /// The next request comes a fixed time after the previous answer: a synchronous client.
    Closed {
        /// Think time of the client.
        think: Time,
    },
    /// Requests keep the intervals of the trace, but wait for the previous answer. An example is a client with its
    /// own rate that blocks when it must, such as a player.
    Paced,
    /// Each request comes as long after the previous answer as its time in the trace is after that of the previous
    /// request: a synchronous client with recorded think times.
    Thinking,
}

/// Treatment of writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Writes update the levels and cost no time of the device.
    Cached,
    /// Like `Cached`, and the device writes the blocks in the background.
    Background,
    /// Writes are dropped.
    Dropped,
}

/// Location of the files' blocks: one file after the other, wrapped at the end of the storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// First block of each file on the storage.
    first_blocks: Vec<u64>,
    block_sectors: u64,
    storage_blocks: u64,
}

impl Placement {
    /// Places files of these lengths, in blocks of `block_sectors` sectors, on a storage of `sectors`.
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

    /// Returns the device's request for `span`.
    pub fn io(&self, span: Span, write: bool, owner: u32, class: Class) -> Io {
        let first = self.first_blocks.get(span.first.file() as usize).copied().unwrap_or(0);
        let count = u64::from(span.len).min(self.storage_blocks);
        // A run that would cross the end of the storage is placed before it.
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
