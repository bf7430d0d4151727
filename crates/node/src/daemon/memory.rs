//! Returns memory that the allocator holds free to the system.
//!
//! Buffers of a load come from the arenas of many threads; glibc keeps a freed chunk that is not at the end of its
//! arena.

/// Growth of the free memory from which a pass is worthwhile. A guess.
const WORTH_BYTES: usize = 8 << 20;

/// Frees memory in passes.
#[derive(Debug, Default)]
pub struct Trimmer {
    /// Lowest number of bytes that the allocator counted as free since the last trim. The system already has their
    /// pages.
    free_bytes: usize,
}

impl Trimmer {
    /// Returns free memory if that is worthwhile.
    #[cfg(target_env = "gnu")]
    pub fn pass(&mut self) {
        // SAFETY: both calls take no memory of this process, and the allocator locks its arenas by itself.
        let free_bytes = || unsafe { libc::mallinfo2() }.fordblks;
        let free = free_bytes();
        if free < self.free_bytes + WORTH_BYTES {
            self.free_bytes = self.free_bytes.min(free); // growth adds up over passes
            return;
        }
        // SAFETY: as above.
        unsafe { libc::malloc_trim(0) };
        self.free_bytes = free_bytes();
    }

    /// Other allocators return memory by themselves.
    #[cfg(not(target_env = "gnu"))]
    pub fn pass(&mut self) {}
}

#[cfg(all(test, target_env = "gnu"))]
mod tests {
    use super::*;

    fn resident_bytes() -> usize {
        let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
        let pages: usize = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
        pages * rustix::param::page_size()
    }

    /// [S-392]
    #[test]
    fn free_memory_below_a_chunk_in_use_goes_back() {
        let mut trimmer = Trimmer::default();
        trimmer.pass();
        let mut chunks: Vec<Vec<u8>> = (0..16 << 10).map(|_| vec![1; 8 << 10]).collect();
        let in_use = chunks.pop();
        drop(chunks);
        let before = resident_bytes();
        trimmer.pass();
        let after = resident_bytes();
        assert!(after + (64 << 20) < before, "{before} bytes, then {after}");
        drop(in_use);
    }
}
