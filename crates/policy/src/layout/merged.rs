//! Objects that several files share, so that data read together lie together.
//!
//! ```text
//! the shared object   [ a0 ][ b0 ][ c0 ][ a1 ][ b1 ][ c1 ][ a2 ] ...      units of the files a, b and c in turn
//! file b's own part          [ b0 ]            [ b1 ]                     slot 1 of 3, offsets 0, unit, 2*unit, ...
//! ```
//! Each file has its own id for the object and counts the bytes of its own part from 0. This module translates such an
//! *own* offset into the *shared* one and back. Source: Simitci & Reed 1999, section 3 and figure 2 (two forks with
//! complementary gaps share tines).

/// The part of a shared object that is one file's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merged {
    /// Length of a contiguous unit; a positive multiple of 4096, at most [`Merged::UNIT_BYTES_MAX`].
    pub unit_bytes: u64,
    /// This file's place in the turn, from 0.
    pub slot: u16,
    /// Number of files that take turns, at least 2.
    pub of: u16,
}

/// A range of the own part that is one range of the shared object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First byte of the own part.
    pub own: u64,
    /// First byte in the shared object.
    pub shared: u64,
    /// Length in bytes, at most a unit.
    pub len: u64,
}

impl Merged {
    /// Most files in one object.
    pub const FILES_MAX: usize = 64;

    /// Largest permitted unit.
    pub const UNIT_BYTES_MAX: u64 = 1 << 30;

    /// Whether it is valid: a unit of whole pages, and a slot within the turn.
    pub fn is_valid(&self) -> bool {
        let unit = (1..=Self::UNIT_BYTES_MAX).contains(&self.unit_bytes) && self.unit_bytes.is_multiple_of(4096);
        unit && (2..=Self::FILES_MAX).contains(&usize::from(self.of)) && self.slot < self.of
    }

    /// Returns the distance between two units of a file.
    fn pitch(&self) -> u64 {
        self.unit_bytes.saturating_mul(self.of.into())
    }

    /// Returns the offset of an own byte in the shared object.
    pub fn shared(&self, own: u64) -> u64 {
        let round = (own / self.unit_bytes).saturating_mul(self.pitch());
        round.saturating_add(self.unit_bytes * u64::from(self.slot) + own % self.unit_bytes)
    }

    /// Returns the first own byte at or after `shared`, which is the number of own bytes before it.
    pub fn own(&self, shared: u64) -> u64 {
        let (round, inside) = (shared / self.pitch(), shared % self.pitch());
        let before = inside.saturating_sub(self.unit_bytes * u64::from(self.slot)).min(self.unit_bytes);
        round * self.unit_bytes + before
    }

    /// Returns the end of the unit that contains `own`.
    pub fn unit_end(&self, own: u64) -> u64 {
        (own - own % self.unit_bytes).saturating_add(self.unit_bytes)
    }

    /// Returns an own range, unit by unit.
    pub fn runs(self, own: u64, len: u64) -> impl Iterator<Item = Run> {
        let end = own.saturating_add(len);
        let mut at = own;
        std::iter::from_fn(move || {
            let run = Run { own: at, shared: self.shared(at), len: self.unit_end(at).min(end).saturating_sub(at) };
            at += run.len;
            (run.len > 0).then_some(run)
        })
    }

    /// Returns the bytes of the shared object without a gap, if each file has `own_bytes`.
    pub fn full_bytes(&self, own_bytes: u64) -> u64 {
        (own_bytes / self.unit_bytes).saturating_mul(self.pitch())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_merged() -> impl Strategy<Value = Merged> {
        let of = 2..=Merged::FILES_MAX as u16;
        (1u64..600, of.prop_flat_map(|of| (0..of, Just(of)))).prop_map(|(pages, (slot, of))| Merged {
            unit_bytes: pages * 4096,
            slot,
            of,
        })
    }

    #[test]
    fn figure_2_of_the_paper() {
        // Two files in turns of 8 KiB.
        let of = |slot| Merged { unit_bytes: 8192, slot, of: 2 };
        assert_eq!([0, 8191, 8192, 20_000].map(|own| of(0).shared(own)), [0, 8191, 16_384, 36_384]);
        assert_eq!([0, 8191, 8192, 20_000].map(|own| of(1).shared(own)), [8192, 16_383, 24_576, 44_576]);
        let runs: Vec<_> = of(1).runs(8000, 9000).map(|run| (run.own, run.shared, run.len)).collect();
        assert_eq!(runs, [(8000, 16_192, 192), (8192, 24_576, 8192), (16_384, 40_960, 616)]);
        assert_eq!(of(0).full_bytes(20_000), 32_768);
    }

    proptest! {
        #[test]
        fn no_byte_is_two_files_and_each_is_found_again(merged in any_merged(), own in 0u64..1 << 40, other in any::<u16>()) {
            prop_assert!(merged.is_valid());
            let shared = merged.shared(own);
            prop_assert_eq!(merged.own(shared), own);
            prop_assert_eq!(merged.own(shared + 1), own + 1);
            let other = Merged { slot: other % merged.of, ..merged };
            if other != merged {
                prop_assert_ne!(other.shared(other.own(shared)), shared, "it lies in one slot");
            }
        }

        #[test]
        fn runs_are_the_range_and_stay_in_their_units(merged in any_merged(), own in 0u64..1 << 40, len in 0u64..1 << 24) {
            let mut at = own;
            for run in merged.runs(own, len) {
                prop_assert_eq!((run.own, run.shared), (at, merged.shared(at)));
                prop_assert_eq!(merged.shared(at + run.len - 1), run.shared + run.len - 1);
                at += run.len;
            }
            prop_assert_eq!(at, own + len);
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_valid() {
        let good = Merged { unit_bytes: 4096, slot: 1, of: 2 };
        assert!(good.is_valid());
        for bad in [
            Merged { unit_bytes: 0, ..good },
            Merged { unit_bytes: 1000, ..good },
            Merged { slot: 2, ..good },
            Merged { slot: 0, of: 1, ..good },
            Merged { of: 65, ..good },
        ] {
            assert!(!bad.is_valid(), "{bad:?}");
        }
    }
}
