//! How each open of a file does its I/O: through the kernel's page cache, direct to us, or by the kernel itself.
//!
//! The kernel forbids some mixtures on one inode: while one open is passed through, all must be, with the same backing
//! file; and none may be while the page cache is in use. A direct open counts as cached, since a shared mapping of it is.
//!
//! What follows is ours: whoever may write goes through the page cache. A direct write drops the pages that it touches
//! before it is under way and not after, so a page that a mapping, a `sendfile` or a cached read brings in meanwhile is
//! what was there before, stays, and may be written back. A write through the page cache changes the page and then is sent.
//! Nobody drops a page meanwhile: no open asks for it, but those that are passed through, which meet no others.
//! Only the mapping of a direct open would; so while a file is open for writing nobody is given one.
//! `docs/internals/page-cache.md` has the whole of it.

use super::PassthroughGuard;
use fuser::{BackingId, FopenFlags};
use std::sync::Arc;

/// How an open file does its I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Through the page cache.
    Cached,
    /// Each read comes to us.
    Direct,
    /// The kernel reads and writes the object itself; with `direct`, it does so for mappings only.
    Passed {
        /// Reads and writes come to us.
        direct: bool,
    },
}

impl Mode {
    /// What the kernel is told.
    pub fn flags(self) -> FopenFlags {
        let direct = FopenFlags::FOPEN_DIRECT_IO;
        match self {
            Mode::Cached => FopenFlags::FOPEN_KEEP_CACHE,
            Mode::Direct => FopenFlags::FOPEN_KEEP_CACHE | direct,
            // What the kernel then writes by itself is in no page of ours.
            Mode::Passed { direct: false } => FopenFlags::empty(),
            Mode::Passed { direct: true } => direct | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES,
        }
    }

    /// Whether reads through it may put pages into the inode. Beside opens that are passed through none may be there: what
    /// those write, the kernel writes to the object alone. Their mappings are the object's, so only `splice` would want some.
    pub fn may_fill_pages(self) -> bool {
        !matches!(self, Mode::Passed { .. })
    }
}

/// The opens of one inode.
#[derive(Default)]
pub struct Modes {
    cached: usize,
    direct: usize,
    passed: usize,
    /// Of the cached ones, those that may write.
    writers: usize,
    /// The backing file that all passed opens share.
    backing: Option<Arc<BackingId>>,
}

/// What an open wants.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest {
    /// It may write.
    pub writes: bool,
    /// Read past the page cache, if nothing can write.
    pub direct: bool,
    /// Let the kernel do it, if it can.
    pub pass: bool,
    /// Other nodes write it, too: each read and write comes to us, since nobody tells the kernel what in its pages is old. Mappings
    /// are as good as at the open.
    pub shared: bool,
}

impl Modes {
    /// Decides and counts. `register` makes a backing file, if the file is simple enough and the kernel can.
    pub fn enter(
        &mut self,
        request: OpenRequest,
        register: impl FnOnce(bool) -> Option<(PassthroughGuard, Option<BackingId>)>,
    ) -> (Mode, Option<Arc<BackingId>>, Option<PassthroughGuard>) {
        if request.shared {
            self.direct += 1;
            return (Mode::Direct, None, None);
        }
        if let Some(backing) = &self.backing {
            // Whoever comes now must join; one that may not write to the object by itself sends its writes to us.
            let guard = if request.pass { register(false).map(|(guard, _)| guard) } else { None };
            self.passed += 1;
            return (Mode::Passed { direct: guard.is_none() }, Some(backing.clone()), guard);
        }
        if request.pass
            && self.cached == 0
            && self.direct == 0
            && let Some((guard, Some(backing))) = register(true)
        {
            let backing = Arc::new(backing);
            self.passed += 1;
            self.backing = Some(backing.clone());
            return (Mode::Passed { direct: false }, Some(backing), Some(guard));
        }
        if request.direct && !request.writes && self.writers == 0 {
            self.direct += 1;
            return (Mode::Direct, None, None);
        }
        self.cached += 1;
        self.writers += usize::from(request.writes);
        (Mode::Cached, None, None)
    }

    /// An open ended, which could write or not. Gives back the backing file when it is not needed any more, to be closed
    /// outside any lock.
    pub fn leave(&mut self, mode: Mode, writes: bool) -> Option<Arc<BackingId>> {
        match mode {
            Mode::Cached => {
                self.cached -= 1;
                self.writers -= usize::from(writes);
            }
            Mode::Direct => self.direct -= 1,
            Mode::Passed { .. } => self.passed -= 1,
        }
        if self.passed == 0 { self.backing.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: OpenRequest = OpenRequest { writes: false, direct: false, pass: false, shared: false };
    const WRITER: OpenRequest = OpenRequest { writes: true, ..READER };
    const DIRECT: OpenRequest = OpenRequest { direct: true, ..READER };

    #[test]
    fn cached_and_passed_opens_never_meet() {
        let mut modes = Modes::default();
        let pass = OpenRequest { pass: true, ..READER };
        let (first, backing, _) = modes.enter(READER, |_| panic!("did not ask for it"));
        assert_eq!((first, backing.is_none()), (Mode::Cached, true));
        let (second, ..) = modes.enter(pass, |_| panic!("the page cache is in use"));
        assert_eq!(second, Mode::Cached);
        for mode in [first, second] {
            assert!(modes.leave(mode, false).is_none());
        }
        let mut asked = false;
        let (third, ..) = modes.enter(pass, |_| {
            asked = true;
            None
        });
        assert!(asked, "nobody is in the way any more");
        assert_eq!(third, Mode::Cached, "a file that is not that simple goes through the page cache");
    }

    /// [S-140]
    #[test]
    fn whoever_writes_goes_through_the_page_cache_and_nobody_reads_past_it_meanwhile() {
        let mut modes = Modes::default();
        let mut enter = |request| modes.enter(request, |_| panic!("did not ask for it")).0;
        assert_eq!(enter(DIRECT), Mode::Direct);
        assert_eq!(enter(OpenRequest { direct: true, ..WRITER }), Mode::Cached, "a writer that wants to go past it");
        assert_eq!(enter(DIRECT), Mode::Cached, "a reader beside a writer");
        modes.leave(Mode::Cached, true);
        assert_eq!(modes.enter(DIRECT, |_| None).0, Mode::Direct, "a cached reader is in nobody's way");
    }

    /// [S-140]
    #[test]
    fn an_open_that_meets_others_never_drops_pages() {
        let keeps = |mode: Mode| mode.flags().contains(FopenFlags::FOPEN_KEEP_CACHE);
        assert!(keeps(Mode::Cached) && keeps(Mode::Direct));
        assert!(!keeps(Mode::Passed { direct: false }) && !keeps(Mode::Passed { direct: true }));
    }
}
