//! How each open of a file does its I/O: through the kernel's page cache, direct to us, or by the kernel itself.
//!
//! The kernel forbids some mixtures on one inode: while one open is passed through, all must be, with the same backing
//! file; and none may be while the page cache is in use. A direct open counts as cached, since a shared mapping of it is.
//!
//! We avoid one more: a direct writer beside a reader through the page cache. The kernel drops the pages a direct write
//! touches, but a reader may bring one back while the write is under way and then keep what was there before. So whoever
//! comes second joins the first, unless the application itself asked for `O_DIRECT`, which promises it nothing else.

use super::PassthroughGuard;
use fuser::BackingId;
use std::sync::Arc;

/// How an open file does its I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Through the page cache.
    Cached,
    /// Each read and write comes to us.
    Direct,
    /// The kernel reads and writes the object itself; with `direct`, it does so for mappings only.
    Passed {
        /// Reads and writes come to us.
        direct: bool,
    },
}

/// The opens of one inode.
#[derive(Default)]
pub struct Modes {
    cached: usize,
    direct: usize,
    passed: usize,
    /// The backing file that all passed opens share.
    backing: Option<Arc<BackingId>>,
}

/// What an open wants.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Bypass the page cache, if nobody uses it.
    pub direct: bool,
    /// Bypass it whoever uses it (`O_DIRECT`).
    pub always_direct: bool,
    /// Let the kernel do it, if it can.
    pub pass: bool,
}

impl Modes {
    /// Decides and counts. `register` makes a backing file, if the file is simple enough and the kernel can.
    pub fn enter(
        &mut self,
        wish: Wish,
        register: impl FnOnce(bool) -> Option<(PassthroughGuard, Option<BackingId>)>,
    ) -> (Mode, Option<Arc<BackingId>>, Option<PassthroughGuard>) {
        if let Some(backing) = &self.backing {
            // Whoever comes now must join; one that may not write to the object by itself sends its writes to us.
            let guard = if wish.pass { register(false).map(|(guard, _)| guard) } else { None };
            self.passed += 1;
            return (Mode::Passed { direct: guard.is_none() }, Some(backing.clone()), guard);
        }
        if wish.pass
            && self.cached == 0
            && self.direct == 0
            && let Some((guard, Some(backing))) = register(true)
        {
            let backing = Arc::new(backing);
            self.passed += 1;
            self.backing = Some(backing.clone());
            return (Mode::Passed { direct: false }, Some(backing), Some(guard));
        }
        let join = if self.cached > 0 { false } else { self.direct > 0 || wish.direct };
        if wish.always_direct || join {
            self.direct += 1;
            (Mode::Direct, None, None)
        } else {
            self.cached += 1;
            (Mode::Cached, None, None)
        }
    }

    /// An open ended. Gives back the backing file when it is not needed any more, to be closed outside any lock.
    pub fn leave(&mut self, mode: Mode) -> Option<Arc<BackingId>> {
        match mode {
            Mode::Cached => self.cached -= 1,
            Mode::Direct => self.direct -= 1,
            Mode::Passed { .. } => self.passed -= 1,
        }
        if self.passed == 0 { self.backing.take() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_and_passed_opens_never_meet() {
        let mut modes = Modes::default();
        let wish = Wish { direct: false, always_direct: false, pass: true };
        let (first, backing, _) = modes.enter(Wish { pass: false, ..wish }, |_| panic!("did not ask for it"));
        assert_eq!((first, backing.is_none()), (Mode::Cached, true));
        let (second, ..) = modes.enter(wish, |_| panic!("the page cache is in use"));
        assert_eq!(second, Mode::Cached);
        let (third, ..) = modes.enter(Wish { always_direct: true, ..wish }, |_| panic!("the page cache is in use"));
        assert_eq!(third, Mode::Direct);
        for mode in [first, second, third] {
            assert!(modes.leave(mode).is_none());
        }
        let mut asked = false;
        let (fourth, ..) = modes.enter(wish, |_| {
            asked = true;
            None
        });
        assert!(asked, "nobody is in the way any more");
        assert_eq!(fourth, Mode::Cached, "a file that is not that simple goes through the page cache");
    }
    #[test]
    fn who_comes_second_joins_the_first() {
        let mut modes = Modes::default();
        let (reader, writer) = (wish(false), wish(true));
        let none = |_| None;
        let first = modes.enter(reader, none).0;
        assert_eq!((first, modes.enter(writer, none).0), (Mode::Cached, Mode::Cached));
        modes.leave(Mode::Cached);
        modes.leave(Mode::Cached);
        let first = modes.enter(writer, none).0;
        assert_eq!((first, modes.enter(reader, none).0), (Mode::Direct, Mode::Direct));
    }

    fn wish(direct: bool) -> Wish {
        Wish { direct, always_direct: false, pass: false }
    }
}
