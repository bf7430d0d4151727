//! Flags of an open's answer, which set how the kernel does its I/O. The decision is made in `policy::holders`; its
//! reasons are in `docs/internals/page-cache.md`.

use fuser::FopenFlags;
use policy::holders::Mode;

/// Flags of the answer to an open.
pub fn flags(mode: Mode) -> FopenFlags {
    let direct = FopenFlags::FOPEN_DIRECT_IO;
    match mode {
        Mode::Cached => FopenFlags::FOPEN_KEEP_CACHE,
        Mode::Direct => FopenFlags::FOPEN_KEEP_CACHE | direct,
        // The inode's pages lack the kernel's own writes.
        Mode::Passed { direct: false } => FopenFlags::empty(),
        Mode::Passed { direct: true } => direct | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
    }
}

/// Whether reads through an open may put pages into the inode. No pages may exist beside opens that are passed through,
/// whose writes reach the object alone. Mappings are the object's, so only `splice` of a direct open would read such
/// pages.
pub fn may_fill_pages(mode: Mode) -> bool {
    !matches!(mode, Mode::Passed { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// [S-140]
    #[test]
    fn an_open_that_meets_others_never_drops_pages() {
        let keeps = |mode| flags(mode).contains(FopenFlags::FOPEN_KEEP_CACHE);
        assert!(keeps(Mode::Cached) && keeps(Mode::Direct));
        assert!(!keeps(Mode::Passed { direct: false }) && !keeps(Mode::Passed { direct: true }));
    }
}
