//! Detects files that are read at random, for which the kernel's read-ahead is wasted.
//!
//! ```text
//!   reads of one open file --> Reader: does it continue a recent stream? --> Habit of the file --> Advice
//! ```
//! A kernel reads ahead of a read that begins a file, or that happens to follow the one before. Objects are short: a
//! segment of 1 MiB over four targets has 256 KiB in each. So the kernel takes a third of random reads for sequential
//! ones, and devices read in vain. The daemon sees more: all reads of the file, by the open file that they came
//! through.
//! A read continues a stream if it starts near the end of one of eight streams. Near means within a request or two,
//! since requests overtake each other. The stream must have continued a few times already, so that two neighbours hit
//! by chance do not count. The share of recent reads that continued a stream is the file's habit.
//!
//! A file counts as random only after many reads: a sequential reader without read-ahead waits for the device each
//! time. A few sequential reads end it, so nothing is lost where the two mix.

/// Number of streams tracked in one open file.
const STREAMS: usize = 8;

/// Number of continuing reads from which on a stream counts.
const RUN_MIN: u32 = 4;

/// Number of other reads after which an idle stream is replaced like one that never continued.
const IDLE_MAX: u64 = 8 * STREAMS as u64;

/// Number of requests that the share averages over, approximately.
const MEMORY: u16 = 32;

/// Shares of continuing reads: below the first the file becomes random, above the second it becomes sequential.
const SHARES: (u16, u16) = (u16::MAX / 8, u16::MAX / 4);

/// Expected access to an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Advice {
    /// Reading ahead is worth it.
    #[default]
    Ahead,
    /// Only the requested bytes are worth reading.
    Random,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// Byte after its last read; 0: unused.
    end: u64,
    /// Number of reads that continued it.
    run: u32,
    /// Time of its last read, counted in reads.
    seen: u64,
}

/// Streams of one open file.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    streams: [Stream; STREAMS],
    reads: u64,
}

impl Reader {
    /// Records a read of `len` bytes. Returns whether it continues a stream.
    pub fn read(&mut self, offset: u64, len: u64) -> bool {
        self.reads += 1;
        let (reads, end) = (self.reads, offset.saturating_add(len));
        let near = |of: &&mut Stream| {
            of.end > 0 && offset <= of.end.saturating_add(len) && offset.saturating_add(2 * len) >= of.end
        };
        if let Some(of) = self.streams.iter_mut().find(near) {
            // A repeated read of the same bytes is no progress.
            of.run = of.run.saturating_add(u32::from(end > of.end || offset.saturating_add(len) < of.end));
            (of.end, of.seen) = (of.end.max(end), reads);
            return of.run >= RUN_MIN;
        }
        let stays = |of: &&mut Stream| (of.run >= RUN_MIN && reads - of.seen <= IDLE_MAX, of.seen);
        if let Some(of) = self.streams.iter_mut().min_by_key(stays) {
            *of = Stream { end, run: 0, seen: reads };
        }
        false
    }
}

/// Share of a file's recent reads that continued a stream, and the resulting advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habit {
    /// In units of 1 / `u16::MAX`.
    share: u16,
    advice: Advice,
}

impl Default for Habit {
    /// Sequential, until proven otherwise.
    fn default() -> Habit {
        Habit { share: u16::MAX, advice: Advice::Ahead }
    }
}

impl Habit {
    /// Records a read that continued a stream, or did not.
    pub fn read(&mut self, goes_on: bool) {
        let share = self.share;
        self.share = if goes_on { share + (u16::MAX - share) / MEMORY } else { share - share / MEMORY };
        self.advice = match self.advice {
            Advice::Ahead if self.share < SHARES.0 => Advice::Random,
            Advice::Random if self.share > SHARES.1 => Advice::Ahead,
            advice => advice,
        };
    }

    /// Expected access by the next reads.
    pub fn advice(self) -> Advice {
        self.advice
    }

    /// Packs the habit into one word, which threads can share without a lock.
    pub fn to_bits(self) -> u32 {
        u32::from(self.share) << 1 | u32::from(self.advice == Advice::Random)
    }

    /// Unpacks a word made by [`Habit::to_bits`].
    pub fn from_bits(bits: u32) -> Habit {
        let advice = if bits & 1 == 1 { Advice::Random } else { Advice::Ahead };
        Habit { share: (bits >> 1) as u16, advice }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEN: u64 = 64 << 10;

    fn below(state: &mut u64, n: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 33) % n
    }

    /// Reads these blocks through one open file. Returns how many were advised as random.
    fn advised(habit: &mut Habit, reader: &mut Reader, blocks: impl IntoIterator<Item = u64>) -> usize {
        let mut random = 0;
        for block in blocks {
            random += usize::from(habit.advice() == Advice::Random);
            habit.read(reader.read(block * LEN, LEN));
        }
        random
    }

    #[test]
    fn reads_all_over_a_file_are_random_after_some_and_also_within_a_small_hot_spot() {
        for blocks in [200, 100_000] {
            let (mut habit, mut reader, mut seed) = (Habit::default(), Reader::default(), 7);
            let random = advised(&mut habit, &mut reader, (0..2000).map(|_| below(&mut seed, blocks)));
            assert!((1900..1990).contains(&random), "{random} of 2000 among {blocks}");
        }
    }

    #[test]
    fn readers_in_order_are_read_ahead_for_whatever_else_they_do() {
        // A single stream, a stream with overtaking requests, eight streams in turn, and a stream with repeated reads.
        let one: Vec<u64> = (0..1000).collect();
        let overtaken = (0..1000).map(|n| n ^ 1).collect();
        let eight = (0..1000).map(|n| n % 8 * 100_000 + n / 8).collect();
        let twice = (0..1000).map(|n| n / 2).collect();
        for blocks in [one, overtaken, eight, twice] {
            let found = advised(&mut Habit::default(), &mut Reader::default(), blocks.iter().copied());
            assert_eq!(found, 0, "{:?}", &blocks[..16]);
        }
    }

    #[test]
    fn a_reader_in_order_ends_it_within_some_requests_and_is_not_driven_out_by_random_ones() {
        let (mut habit, mut random, mut seed) = (Habit::default(), Reader::default(), 3);
        advised(&mut habit, &mut random, (0..500).map(|_| below(&mut seed, 100_000)));
        assert_eq!(habit.advice(), Advice::Random);
        let late = advised(&mut habit, &mut Reader::default(), 0..100);
        assert!((4..20).contains(&late), "{late}");
        // One sequential read to two elsewhere, through the same open file.
        let mut both = Reader::default();
        let blocks = (0..3000).map(|n| if n % 3 == 0 { n / 3 } else { 10_000 + below(&mut seed, 100_000) });
        assert_eq!(advised(&mut habit, &mut both, blocks), 0);
    }

    proptest! {
        #[test]
        fn a_habit_fits_into_a_word(reads in prop::collection::vec(any::<bool>(), 0..300)) {
            let mut habit = Habit::default();
            for goes_on in reads {
                habit.read(goes_on);
                prop_assert_eq!(Habit::from_bits(habit.to_bits()), habit);
            }
        }
    }
}
