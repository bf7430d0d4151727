//! The kernel as a holder of a file's layout: which open does its I/O how, and when the layout may change.
//!
//! The kernel reads and writes the one object of a file by itself while opens are passed through. It then uses that
//! object for every open of the inode. Each mapping keeps the object, even after the last close. So the kernel holds
//! the layout from the first such open until nothing can use the object:
//!
//! ```text
//!         first open, able                last close            nothing has the object open
//!  free ------------------> passing ------------------> mapped ----------------------------> free
//!                           ^     | joins               | joins
//!                           +-----+<--------------------+
//! ```
//! Layout changes are refused unless the file is free. During a change no open starts to pass.
//!
//! The kernel forbids some mixtures on one inode. Beside an open that is passed through, every open must be, with the
//! same object. None may be while the page cache is in use. So each open of a held file joins. An open that must not
//! write the object by itself joins as a direct one: its reads and writes reach the daemon, its mappings are the
//! object's.
//!
//! Every writer of a file that is not held uses the page cache; `docs/internals/page-cache.md` explains why.
//!
//! Nodes are holders, too: [`table`] records their holds, and [`node`] is one of them.

#[cfg(test)]
mod explore;
pub mod node;
pub mod table;

/// How an open does its I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Through the page cache.
    Cached,
    /// Each read is sent to the daemon.
    Direct,
    /// The kernel reads and writes the object itself; with `direct`, it does so for mappings only.
    Passed {
        /// Reads and writes are sent to the daemon.
        direct: bool,
    },
}

/// One open, as the application and the configuration request it.
#[derive(Clone, Copy, Debug)]
pub struct OpenRequest {
    /// Whether the open may write.
    pub writes: bool,
    /// Read past the page cache, unless something can write.
    pub direct: bool,
    /// Pass it through, if file and kernel allow it.
    pub pass: bool,
    /// Other nodes write the file, too, so each read and write is sent to the daemon.
    pub shared: bool,
}

/// Part of the kernel in the layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Hold {
    #[default]
    Free,
    /// Opens are passed through.
    Passing,
    /// All opens ended; a mapping may still use the object.
    Mapped,
}

/// Reason why a layout may not change now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The kernel uses the object.
    Held,
    /// Another change is under way.
    Changing,
}

/// The opens of one inode, and the change of its layout.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Holders {
    cached: u32,
    direct: u32,
    passed: u32,
    /// Cached and direct opens that may write.
    writers: u32,
    hold: Hold,
    changing: bool,
}

impl Holders {
    /// Whether this open would be the first that is passed through, so that the kernel must get the object before.
    pub fn starts(&self, request: &OpenRequest) -> bool {
        let wanted = request.pass && !request.shared;
        wanted && self.hold == Hold::Free && self.cached == 0 && self.direct == 0 && !self.changing
    }

    /// Whether this open joins those that are passed through.
    pub fn joins(&self, request: &OpenRequest) -> bool {
        !request.shared && self.is_held()
    }

    /// Decides and counts. `able`: the kernel may read and write the object by itself for this open, and has the object.
    pub fn open(&mut self, request: OpenRequest, able: bool) -> Mode {
        if self.joins(&request) || (able && self.starts(&request)) {
            self.passed += 1;
            self.hold = Hold::Passing;
            return Mode::Passed { direct: !(able && request.pass) };
        }
        if request.shared || (request.direct && !request.writes && self.writers == 0) {
            self.direct += 1;
            self.writers += u32::from(request.writes);
            return Mode::Direct;
        }
        self.cached += 1;
        self.writers += u32::from(request.writes);
        Mode::Cached
    }

    /// An open ended, which could write or not.
    pub fn close(&mut self, mode: Mode, writes: bool) {
        match mode {
            Mode::Cached => {
                self.cached -= 1;
                self.writers -= u32::from(writes);
            }
            Mode::Direct => {
                self.direct -= 1;
                self.writers -= u32::from(writes);
            }
            Mode::Passed { .. } => {
                self.passed -= 1;
                if self.passed == 0 {
                    self.hold = Hold::Mapped;
                }
            }
        }
    }

    /// Whether the hold ends as soon as no mapping uses the object.
    pub fn awaits_unmapping(&self) -> bool {
        self.hold == Hold::Mapped
    }

    /// Only the daemon has the object open, so the hold ends. Returns false if opens are passed through again.
    pub fn unmapped(&mut self) -> bool {
        let ends = self.awaits_unmapping();
        if ends {
            self.hold = Hold::Free;
        }
        ends
    }

    /// Whether the kernel may have pages with stores through a mapping that it has not sent.
    pub fn may_have_stores(&self) -> bool {
        self.writers > 0
    }

    /// Whether the kernel uses the object, so that the layout must stay.
    pub fn is_held(&self) -> bool {
        self.hold != Hold::Free
    }

    /// Whether a change is under way.
    pub fn is_changing(&self) -> bool {
        self.changing
    }

    /// Begins a change of the layout.
    pub fn begin_change(&mut self) -> Result<(), Refusal> {
        match (self.is_held(), self.changing) {
            (true, _) => Err(Refusal::Held),
            (_, true) => Err(Refusal::Changing),
            _ => {
                self.changing = true;
                Ok(())
            }
        }
    }

    /// Ends the change of the layout.
    pub fn end_change(&mut self) {
        self.changing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: OpenRequest = OpenRequest { writes: false, direct: false, pass: false, shared: false };
    const WRITER: OpenRequest = OpenRequest { writes: true, ..READER };
    const DIRECT: OpenRequest = OpenRequest { direct: true, ..READER };
    const PASS: OpenRequest = OpenRequest { pass: true, ..READER };

    #[test]
    fn cached_and_passed_opens_never_meet() {
        let mut holders = Holders::default();
        let first = holders.open(READER, true);
        assert!(!holders.starts(&PASS), "the page cache is in use");
        let second = holders.open(PASS, true);
        assert_eq!((first, second), (Mode::Cached, Mode::Cached));
        holders.close(first, false);
        holders.close(second, false);
        assert!(holders.starts(&PASS));
        let third = holders.open(PASS, false);
        assert_eq!(third, Mode::Cached, "a file that is not that simple goes through the page cache");
        holders.close(third, false);
        assert_eq!(holders.open(PASS, true), Mode::Passed { direct: false });
        assert_eq!(holders.open(WRITER, true), Mode::Passed { direct: true });
    }

    /// [S-345]
    #[test]
    fn a_layout_is_held_until_the_last_open_has_ended_and_no_mapping_is_left() {
        let mut holders = Holders::default();
        let first = holders.open(PASS, true);
        let appender = holders.open(WRITER, false);
        holders.close(first, false);
        assert_eq!(holders.begin_change(), Err(Refusal::Held), "the appender uses the object");
        assert!(!holders.unmapped(), "it is still open");
        holders.close(appender, true);
        assert_eq!(holders.begin_change(), Err(Refusal::Held), "it may be mapped");
        assert_eq!(holders.open(READER, false), Mode::Passed { direct: true }, "a mapping's stores are in no page");
        holders.close(Mode::Passed { direct: true }, false);
        assert!(holders.unmapped());
        assert_eq!(holders.begin_change(), Ok(()));
        assert_eq!(holders.begin_change(), Err(Refusal::Changing));
        assert!(!holders.starts(&PASS), "nothing is passed through during a change");
        holders.end_change();
        assert!(holders.starts(&PASS));
    }

    /// [S-351]
    #[test]
    fn pages_may_have_stores_while_a_writer_has_the_file_open() {
        for shared in [false, true] {
            let mut holders = Holders::default();
            let reader = holders.open(OpenRequest { shared, ..READER }, false);
            assert!(!holders.may_have_stores());
            let writer = holders.open(OpenRequest { shared, ..WRITER }, false);
            assert!(holders.may_have_stores(), "{writer:?}");
            holders.close(reader, false);
            assert!(holders.may_have_stores(), "{writer:?}");
            holders.close(writer, true);
            assert!(!holders.may_have_stores(), "{writer:?}");
        }
    }

    /// [S-140]
    #[test]
    fn writers_use_the_page_cache_and_no_reader_goes_past_it_beside_them() {
        let mut holders = Holders::default();
        assert_eq!(holders.open(DIRECT, false), Mode::Direct);
        assert_eq!(holders.open(OpenRequest { direct: true, ..WRITER }, false), Mode::Cached, "a writer");
        assert_eq!(holders.open(DIRECT, false), Mode::Cached, "a reader beside a writer");
        holders.close(Mode::Cached, true);
        assert_eq!(holders.open(DIRECT, false), Mode::Direct, "a cached reader is in no one's way");
    }
}
