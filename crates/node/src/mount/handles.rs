//! Numbers of open files and directories, which the kernel stores and sends back with each request.

use parking_lot::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SHARDS: usize = 16;

/// Open files or directories by number; numbers are reused.
#[derive(Debug)]
pub struct Handles<T> {
    shards: Vec<RwLock<Shard<T>>>,
    turn: AtomicUsize,
}

#[derive(Debug)]
struct Shard<T> {
    open: Vec<Option<Arc<T>>>,
    free: Vec<usize>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        let shard = || RwLock::new(Shard { open: Vec::new(), free: Vec::new() });
        Handles { shards: (0..SHARDS).map(|_| shard()).collect(), turn: AtomicUsize::new(0) }
    }
}

impl<T> Handles<T> {
    /// Assigns a number.
    pub fn insert(&self, thing: Arc<T>) -> u64 {
        let at = self.turn.fetch_add(1, Ordering::Relaxed) % SHARDS;
        let mut shard = self.shards[at].write();
        let slot = match shard.free.pop() {
            Some(slot) => slot,
            None => {
                shard.open.push(None);
                shard.open.len() - 1
            }
        };
        shard.open[slot] = Some(thing);
        (slot * SHARDS + at) as u64
    }

    /// Returns the entry of a number.
    pub fn get(&self, number: u64) -> Option<Arc<T>> {
        let (slot, at) = (number as usize / SHARDS, number as usize % SHARDS);
        self.shards[at].read().open.get(slot)?.clone()
    }

    /// Removes and returns all entries, at the end.
    pub fn drain(&self) -> Vec<Arc<T>> {
        let take = |shard: &RwLock<Shard<T>>| {
            let mut shard = shard.write();
            shard.free.clear();
            std::mem::take(&mut shard.open)
        };
        self.shards.iter().flat_map(take).flatten().collect()
    }

    /// Removes an entry; its number may be reused.
    pub fn remove(&self, number: u64) -> Option<Arc<T>> {
        let (slot, at) = (number as usize / SHARDS, number as usize % SHARDS);
        let mut shard = self.shards[at].write();
        let thing = shard.open.get_mut(slot)?.take()?;
        shard.free.push(slot);
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_lead_back_and_are_used_again() {
        let handles = Handles::default();
        let numbers: Vec<u64> = (0..100).map(|n| handles.insert(Arc::new(n))).collect();
        for (n, number) in numbers.iter().enumerate() {
            assert_eq!(handles.get(*number).as_deref(), Some(&n));
        }
        assert_eq!(handles.remove(numbers[7]).as_deref(), Some(&7));
        assert!(handles.get(numbers[7]).is_none());
        assert!(handles.remove(numbers[7]).is_none());
        let again: Vec<u64> = (0..SHARDS).map(|n| handles.insert(Arc::new(n))).collect();
        assert!(again.contains(&numbers[7]));
    }
}
