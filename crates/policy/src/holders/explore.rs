//! Explores every order of three opens of every kind beside a change of the layout. Every read returns each
//! acknowledged write, no layout changes under the kernel, and the change ends. Broken rules are convicted.

use super::{Holders, Mode, OpenRequest};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Use that an application makes of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    /// `O_APPEND`: never passed through.
    Append,
    /// A mapping for reading, which outlives the close.
    MapRead,
    /// A mapping for reading and writing.
    MapWrite,
}

const KINDS: [Kind; 5] = [Kind::Read, Kind::Write, Kind::Append, Kind::MapRead, Kind::MapWrite];

impl Kind {
    fn request(self) -> OpenRequest {
        let writes = matches!(self, Kind::Write | Kind::Append | Kind::MapWrite);
        OpenRequest { writes, direct: false, pass: self != Kind::Append, shared: false }
    }

    fn maps(self) -> bool {
        matches!(self, Kind::MapRead | Kind::MapWrite)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    /// The bytes go to another object.
    Move,
    /// Another object has them, too.
    Mirror,
    /// The file gets longer: in its object while it is held, else in another.
    Grow,
}

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guilt {
    None,
    /// An open that joins without passing its own reads and writes keeps no hold.
    JoinsHoldNothing,
    /// The hold ends with the last close.
    MappingsHoldNothing,
    /// While the layout is to change, opens of a held file use the page cache.
    Mixes,
    /// Opens are passed through during a change.
    StartsInChange,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Before,
    Open(Mode),
    /// Closed; the mapping lives on the object.
    Mapped,
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Progress {
    Waiting,
    /// The copy has that version; a write of the daemon is repeated in it.
    Copying(u8),
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct State {
    holders: Holders,
    /// Opens that count as holders under the broken rule.
    guards: u8,
    opens: [Phase; 3],
    wrote: [bool; 3],
    /// Newest acknowledged version, and that of both objects and of the kernel's page.
    newest: u8,
    objects: [u8; 2],
    page: Option<u8>,
    /// Object that the kernel uses.
    backing: Option<u8>,
    /// Objects of the layout.
    layout: [bool; 2],
    /// The file's end lies in another object.
    split: bool,
    change: Progress,
}

struct Scenario {
    kinds: [Kind; 3],
    change: Change,
    guilt: Guilt,
}

type Next = Result<State, &'static str>;

impl State {
    fn start() -> State {
        State {
            holders: Holders::default(),
            guards: 0,
            opens: [Phase::Before; 3],
            wrote: [false; 3],
            newest: 0,
            objects: [0; 2],
            page: None,
            backing: None,
            layout: [true, false],
            split: false,
            change: Progress::Waiting,
        }
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    fn is_single(&self) -> bool {
        !self.split && self.layout != [true; 2]
    }

    fn kernel_uses_object(&self) -> bool {
        self.opens.iter().any(|open| matches!(open, Phase::Open(Mode::Passed { .. }) | Phase::Mapped))
    }

    fn is_held(&self, guilt: Guilt) -> bool {
        match guilt {
            Guilt::JoinsHoldNothing => self.guards > 0,
            _ => self.holders.is_held(),
        }
    }

    fn open(mut self, scenario: &Scenario, i: usize) -> Next {
        let request = scenario.kinds[i].request();
        let guilt = scenario.guilt;
        let copies = matches!(self.change, Progress::Copying(_));
        let starts = self.holders.starts(&request)
            || (guilt == Guilt::StartsInChange && copies && request.pass && !self.holders.is_held());
        let able = self.is_single() && request.pass;
        let mode = if guilt == Guilt::Mixes && self.change == Progress::Waiting && self.holders.is_held() {
            Mode::Cached
        } else if guilt == Guilt::StartsInChange && copies && starts && able && self.page.is_none() {
            self.holders.end_change();
            self.holders.open(request, able)
        } else {
            self.holders.open(request, able)
        };
        if let Mode::Passed { direct } = mode {
            if self.opens.contains(&Phase::Open(Mode::Cached)) {
                return Err("the kernel refuses an open that is passed through beside the page cache");
            }
            if self.backing.is_none() {
                if !self.is_single() {
                    return Err("a file of several objects is passed through");
                }
                self.backing = Some(u8::from(self.layout[1]));
            }
            self.page = None;
            self.guards += u8::from(!direct);
        } else if self.kernel_uses_object() && self.opens.iter().any(|o| matches!(o, Phase::Open(Mode::Passed { .. })))
        {
            return Err("the kernel refuses the page cache beside an open that is passed through");
        }
        self.opens[i] = Phase::Open(mode);
        Ok(self)
    }

    /// A write that the daemon does.
    fn daemon_writes(&mut self) {
        for (object, used) in self.objects.iter_mut().zip(self.layout) {
            if used {
                *object = self.newest;
            }
        }
        if let Progress::Copying(copy) = &mut self.change {
            *copy = self.newest;
        }
    }

    fn write(mut self, scenario: &Scenario, i: usize) -> Next {
        self.wrote[i] = true;
        self.newest += 1;
        let mapped = scenario.kinds[i].maps();
        match self.opens[i] {
            Phase::Open(Mode::Passed { direct }) if !direct || mapped => self.store(),
            Phase::Mapped => self.store(),
            Phase::Open(mode) => {
                if mode == Mode::Cached {
                    self.page = Some(self.newest);
                }
                self.daemon_writes();
            }
            Phase::Before | Phase::Over => unreachable!("it is not open"),
        }
        Ok(self)
    }

    /// The kernel writes the object that it uses.
    fn store(&mut self) {
        let object = self.backing.expect("a passed open has a backing object");
        self.objects[usize::from(object)] = self.newest;
    }

    fn close(mut self, scenario: &Scenario, i: usize, mode: Mode) -> Next {
        let passed = matches!(mode, Mode::Passed { .. });
        self.guards -= u8::from(mode == Mode::Passed { direct: false });
        if !(scenario.guilt == Guilt::Mixes && mode == Mode::Cached && self.holders.is_held()) {
            self.holders.close(mode, scenario.kinds[i].request().writes);
        }
        // A mapping of the page cache keeps the open; one of an object does not.
        self.opens[i] = if passed && scenario.kinds[i].maps() { Phase::Mapped } else { Phase::Over };
        Ok(self.look(scenario))
    }

    /// The daemon looks whether anything else has the object open.
    fn look(mut self, scenario: &Scenario) -> State {
        let mapped = self.opens.contains(&Phase::Mapped) && scenario.guilt != Guilt::MappingsHoldNothing;
        if !mapped && self.holders.unmapped() {
            self.backing = self.backing.filter(|_| self.opens.contains(&Phase::Mapped));
        }
        self
    }

    fn changes(mut self, scenario: &Scenario) -> Option<Next> {
        let held = self.is_held(scenario.guilt);
        if scenario.change == Change::Grow {
            self.split = !held;
            self.change = Progress::Done;
            return Some(Ok(self));
        }
        match self.change {
            Progress::Waiting if held => None,
            Progress::Waiting => {
                if scenario.guilt == Guilt::None && self.holders.begin_change().is_err() {
                    return Some(Err("a file that is not held refuses a change"));
                }
                self.change = Progress::Copying(self.objects[0]);
                Some(Ok(self))
            }
            Progress::Copying(copy) => {
                self.objects[1] = copy;
                self.layout = [scenario.change == Change::Mirror, true];
                self.holders.end_change();
                self.change = Progress::Done;
                Some(Ok(self))
            }
            Progress::Done => None,
        }
    }

    fn next(self, scenario: &Scenario) -> Vec<Next> {
        let mut next = Vec::new();
        for i in 0..3 {
            let writes = scenario.kinds[i].request().writes && !self.wrote[i];
            match self.opens[i] {
                // Opens of the same kind are alike.
                Phase::Before
                    if i > 0 && self.opens[i - 1] == Phase::Before && scenario.kinds[i - 1] == scenario.kinds[i] => {}
                Phase::Before => next.push(self.open(scenario, i)),
                Phase::Open(mode) => {
                    next.push(self.close(scenario, i, mode));
                    if writes {
                        next.push(self.write(scenario, i));
                    }
                }
                Phase::Mapped => {
                    let mut unmapped = self;
                    unmapped.opens[i] = Phase::Over;
                    next.push(Ok(unmapped.look(scenario)));
                    if writes {
                        next.push(self.write(scenario, i));
                    }
                }
                Phase::Over => {}
            }
        }
        if self.change != Progress::Done {
            next.extend(self.changes(scenario));
        }
        next
    }

    /// The first promise that does not hold in this state.
    fn broken(&self, scenario: &Scenario) -> Option<&'static str> {
        let in_layout = (0..2).filter(|o| self.layout[*o]);
        if in_layout.into_iter().any(|o| self.objects[o] != self.newest) {
            return Some("the layout's objects lack an acknowledged write");
        }
        for (open, kind) in self.opens.iter().zip(scenario.kinds) {
            let sees = match open {
                Phase::Open(Mode::Cached) => self.page.unwrap_or(self.newest),
                Phase::Open(Mode::Passed { direct }) if !direct || kind.maps() => self.by_kernel()?,
                Phase::Mapped => self.by_kernel()?,
                _ => self.newest,
            };
            if sees != self.newest {
                return Some("a read misses an acknowledged write");
            }
        }
        let changed = self.split || self.layout != [true, false];
        (changed && self.kernel_uses_object() && self.backing == Some(0))
            .then_some("the layout changed under the kernel")
    }

    fn by_kernel(&self) -> Option<u8> {
        self.backing.map(|object| self.objects[usize::from(object)])
    }
}

/// Number of states, and the first promise that is broken.
fn explore(scenario: &Scenario) -> (usize, Option<&'static str>) {
    let mut seen = BTreeSet::from([State::start().fingerprint()]);
    let mut open = vec![State::start()];
    while let Some(state) = open.pop() {
        let next = state.next(scenario);
        let over = state.opens.iter().all(|open| *open == Phase::Over);
        if next.is_empty() && !(over && state.change == Progress::Done && !state.holders.is_held()) {
            return (seen.len(), Some("the change does not come to its end"));
        }
        for to in next {
            match to {
                Ok(to) if seen.contains(&to.fingerprint()) => {}
                Ok(to) => {
                    if let Some(why) = to.broken(scenario) {
                        return (seen.len(), Some(why));
                    }
                    seen.insert(to.fingerprint());
                    open.push(to);
                }
                Err(why) => return (seen.len(), Some(why)),
            }
        }
    }
    (seen.len(), None)
}

fn scenarios(guilt: Guilt) -> impl Iterator<Item = Scenario> {
    let kinds = KINDS.into_iter().enumerate().flat_map(|(a, first)| {
        KINDS[a..]
            .iter()
            .enumerate()
            .flat_map(move |(b, second)| KINDS[a + b..].iter().map(move |third| [first, *second, *third]))
    });
    kinds.flat_map(move |kinds| {
        [Change::Move, Change::Mirror, Change::Grow].map(|change| Scenario { kinds, change, guilt })
    })
}

/// [S-345]
#[test]
fn an_acknowledged_write_is_seen_whatever_is_open_when_the_layout_changes() {
    let mut states = 0;
    for scenario in scenarios(Guilt::None) {
        let (number, broken) = explore(&scenario);
        assert_eq!(broken, None, "{:?} beside {:?}", scenario.kinds, scenario.change);
        states += number;
    }
    assert!(states > 10_000, "the search looked at {states} states only");
}

#[test]
fn broken_rules_are_convicted() {
    for guilt in [Guilt::JoinsHoldNothing, Guilt::MappingsHoldNothing, Guilt::Mixes, Guilt::StartsInChange] {
        let convicted = scenarios(guilt).filter(|scenario| explore(scenario).1.is_some()).count();
        assert!(convicted > 0, "{guilt:?} breaks no promise");
    }
}

/// The rule that lost writes: a reader leaves, a writer that had joined stays, and the file moves.
#[test]
fn a_join_that_holds_nothing_loses_a_write() {
    let kinds = [Kind::Read, Kind::Write, Kind::Append];
    let (_, broken) = explore(&Scenario { kinds, change: Change::Move, guilt: Guilt::JoinsHoldNothing });
    assert!(broken.is_some());
}
