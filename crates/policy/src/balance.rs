//! Evens out how full the targets of each tier are, file by file, after a target was added.
//!
//! ```text
//!   fill  A ######## 80 %         a file's part moves from A to C,
//!         B #####    50 %  mean   if A stays at least as full as C becomes
//!         C ##       20 %
//! ```
//! A pass visits all files. A part moves from a target that is fuller than the mean of its tier to the emptiest one
//! without a part of the file. It never moves to another tier: tiers, widths and mirrors are decided by other
//! mechanisms.
//!
//! After a move, the source is at least as full as the destination. So every move lowers the sum of the squares of the
//! fills. No move undoes another, and a pass without a move is the last.
//!
//! Not moved: files in use, and files that a user or another mechanism has pinned to their targets.
//!
//! Ours; no paper has it.

use crate::ids::{FileId, TargetId};
use crate::machine::Machine;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Limit on passes, so that it ends even while clients write and remove files. A guess.
const PASSES_MAX: u32 = 16;

/// Fill of a target that accepts new objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Target that is described.
    pub target: TargetId,
    /// Tier of the target.
    pub tier: u8,
    /// File system of the target: targets on one file system share their fill.
    pub file_system: u64,
    /// Size in bytes.
    pub total_bytes: u64,
    /// Free space in bytes.
    pub free_bytes: u64,
}

/// Input of [`Balance`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A pass begins, with the present fill of the targets.
    Begin(Vec<Room>),
    /// The pass reached a file.
    File {
        /// File that was reached.
        file: FileId,
        /// Bytes of the file on each target.
        parts: Vec<(TargetId, u64)>,
        /// Whether the file is in use or pinned to its targets.
        keep: bool,
    },
    /// The requested move succeeded.
    Moved,
    /// The requested move was not made.
    Left,
    /// The pass reached the last file.
    Walked,
}

/// Output of [`Balance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Move a file's parts between two targets; answer with [`Event::Moved`] or [`Event::Left`].
    Move {
        /// File to move.
        file: FileId,
        /// Target of the parts now.
        from: TargetId,
        /// Target of the parts afterwards.
        to: TargetId,
        /// Fills behind the decision.
        reason: Reason,
    },
    /// Measure the targets, send [`Event::Begin`] and visit all files.
    Walk,
    /// Balancing has ended.
    End(End),
}

/// Fills of the two targets and of their tier before a move, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason {
    /// Fill of the source.
    pub from_permille: u64,
    /// Fill of the destination.
    pub to_permille: u64,
    /// Mean fill of the tier.
    pub mean_permille: u64,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reason { from_permille: from, to_permille: to, mean_permille: mean } = self;
        let percent = |n: &u64| format!("{}.{} %", n / 10, n % 10);
        write!(f, "its target was {} full, the other {}, the tier {}", percent(from), percent(to), percent(mean))
    }
}

/// Outcome of balancing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Every target is within the spread around its tier's mean.
    Balanced,
    /// Nothing more can be moved: the rest is in use, pinned, or too large.
    NothingToMove,
    /// The limit on passes was reached.
    PassesMade,
}

/// Progress so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Passes begun so far.
    pub passes: u32,
    /// Files reached in this pass.
    pub seen: u64,
    /// Files of these that were skipped: in use or pinned.
    pub kept: u64,
    /// Moves that succeeded.
    pub moves: u64,
    /// Bytes of these moves.
    pub bytes: u64,
    /// Moves that were not made.
    pub left: u64,
}

#[derive(Clone, Copy, Debug)]
struct Fill {
    used: u64,
    total: u64,
}

impl Fill {
    fn permille(self) -> u64 {
        (u128::from(self.used) * 1000 / u128::from(self.total.max(1))) as u64
    }

    /// Whether this fill is higher than the other.
    fn exceeds(self, other: Fill) -> bool {
        u128::from(self.used) * u128::from(other.total) > u128::from(other.used) * u128::from(self.total)
    }
}

type Place = (u8, u64);

/// State machine that balances the targets of each tier.
#[derive(Debug, Default)]
pub struct Balance {
    /// Largest allowed distance of a target's fill from its tier's mean, in thousandths.
    spread_permille: u64,
    places: BTreeMap<TargetId, Place>,
    fills: BTreeMap<Place, Fill>,
    /// Move without an answer so far: source, destination and bytes.
    under_way: Option<(Place, Place, u64)>,
    moved_in_pass: u64,
    stats: Stats,
    says: VecDeque<Action>,
}

impl Balance {
    /// Begins by requesting a pass.
    pub fn new(spread_permille: u64) -> Balance {
        Balance { spread_permille, says: VecDeque::from([Action::Walk]), ..Balance::default() }
    }

    /// Progress so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Whether every target is within the spread around its tier's mean.
    pub fn is_even(&self) -> bool {
        self.fills
            .iter()
            .all(|((tier, _), fill)| fill.permille().abs_diff(self.mean(*tier).permille()) <= self.spread_permille)
    }

    fn begin(&mut self, rooms: Vec<Room>) {
        self.stats.passes += 1;
        (self.stats.seen, self.stats.kept, self.moved_in_pass, self.under_way) = (0, 0, 0, None);
        let rooms = || rooms.iter().filter(|room| room.total_bytes > 0);
        self.places = rooms().map(|room| (room.target, (room.tier, room.file_system))).collect();
        let fill =
            |room: &Room| Fill { used: room.total_bytes.saturating_sub(room.free_bytes), total: room.total_bytes };
        self.fills = rooms().map(|room| ((room.tier, room.file_system), fill(room))).collect();
    }

    fn mean(&self, tier: u8) -> Fill {
        let of_tier = self.fills.range((tier, 0)..=(tier, u64::MAX));
        of_tier.fold(Fill { used: 0, total: 0 }, |sum, (_, fill)| Fill {
            used: sum.used.saturating_add(fill.used),
            total: sum.total.saturating_add(fill.total),
        })
    }

    /// Returns the best move of the file's parts, if any makes the fills more even.
    fn choose(&self, parts: &[(TargetId, u64)]) -> Option<(TargetId, TargetId, u64)> {
        let taken: BTreeSet<TargetId> = parts.iter().map(|(target, _)| *target).collect();
        // Tries the fullest target of the file first.
        let mut sources: Vec<_> =
            parts.iter().filter_map(|(target, bytes)| Some((*target, *bytes, *self.places.get(target)?))).collect();
        sources.sort_by_key(|(target, _, place)| (std::cmp::Reverse(self.fills[place].permille()), *target));
        sources.into_iter().filter(|(_, bytes, _)| *bytes > 0).find_map(|(from, bytes, place)| {
            let (source, mean) = (self.fills[&place], self.mean(place.0));
            let others = self.places.iter().filter(|(to, other)| {
                other.0 == place.0 && **other != place && !taken.contains(to) && mean.exceeds(self.fills[other])
            });
            let (to, other) = others.min_by_key(|(to, other)| (self.fills[other].permille(), **to))?;
            let sink = self.fills[other];
            let (high, low) = (source.permille(), sink.permille());
            let is_uneven =
                high > mean.permille() + self.spread_permille || low + self.spread_permille < mean.permille();
            let after =
                (Fill { used: source.used.saturating_sub(bytes), ..source }, Fill { used: sink.used + bytes, ..sink });
            let is_better = source.exceeds(mean) && !after.1.exceeds(after.0) && after.1.used <= after.1.total;
            (is_uneven && is_better).then_some((from, *to, bytes))
        })
    }

    fn meet(&mut self, file: FileId, parts: &[(TargetId, u64)], keep: bool) {
        self.stats.seen += 1;
        if keep {
            self.stats.kept += 1;
            return;
        }
        let Some((from, to, bytes)) = self.choose(parts) else { return };
        let (source, sink) = (self.places[&from], self.places[&to]);
        let reason = Reason {
            from_permille: self.fills[&source].permille(),
            to_permille: self.fills[&sink].permille(),
            mean_permille: self.mean(source.0).permille(),
        };
        self.shift(source, sink, bytes);
        self.under_way = Some((source, sink, bytes));
        self.says.push_back(Action::Move { file, from, to, reason });
    }

    fn shift(&mut self, from: Place, to: Place, bytes: u64) {
        if let Some(fill) = self.fills.get_mut(&from) {
            fill.used = fill.used.saturating_sub(bytes);
        }
        if let Some(fill) = self.fills.get_mut(&to) {
            fill.used = fill.used.saturating_add(bytes);
        }
    }

    fn walked(&mut self) {
        self.says.push_back(match () {
            () if self.is_even() => Action::End(End::Balanced),
            () if self.moved_in_pass == 0 => Action::End(End::NothingToMove),
            () if self.stats.passes >= PASSES_MAX => Action::End(End::PassesMade),
            () => Action::Walk,
        });
    }
}

impl Machine for Balance {
    type Event = Event;
    type Action = Action;

    fn handle(&mut self, _: Time, event: Event) {
        match event {
            Event::Begin(rooms) => self.begin(rooms),
            Event::File { file, parts, keep } => self.meet(file, &parts, keep),
            Event::Moved => {
                if let Some((_, _, bytes)) = self.under_way.take() {
                    self.moved_in_pass += 1;
                    self.stats.moves += 1;
                    self.stats.bytes += bytes;
                }
            }
            Event::Left => {
                if let Some((from, to, bytes)) = self.under_way.take() {
                    self.shift(to, from, bytes);
                    self.stats.left += 1;
                }
            }
            Event::Walked => self.walked(),
        }
    }

    fn poll(&mut self) -> Option<Action> {
        self.says.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn room(target: u16, tier: u8, file_system: u64, used: u64) -> Room {
        Room { target: TargetId(target), tier, file_system, total_bytes: 1000, free_bytes: 1000 - used }
    }

    fn told(machine: &mut Balance, event: Event) -> Option<Action> {
        machine.handle(Time::ZERO, event);
        machine.poll()
    }

    fn file(n: u64, parts: &[(u16, u64)]) -> Event {
        let parts = parts.iter().map(|(target, bytes)| (TargetId(*target), *bytes)).collect();
        Event::File { file: FileId(n), parts, keep: false }
    }

    #[test]
    fn the_fullest_gives_to_the_emptiest_of_its_tier_that_has_nothing_of_the_file() {
        let mut machine = Balance::new(20);
        assert_eq!(machine.poll(), Some(Action::Walk));
        let rooms = vec![room(1, 0, 1, 800), room(2, 0, 2, 500), room(3, 0, 3, 200), room(4, 1, 4, 0)];
        assert_eq!(told(&mut machine, Event::Begin(rooms)), None);
        let Some(Action::Move { from, to, reason, .. }) = told(&mut machine, file(1, &[(1, 100), (2, 100)])) else {
            panic!("a move")
        };
        assert_eq!((from, to), (TargetId(1), TargetId(3)));
        assert_eq!(reason.to_string(), "its target was 80.0 % full, the other 20.0 %, the tier 50.0 %");
        machine.handle(Time::ZERO, Event::Moved);
        // These files do not move: one on all targets of the tier, a pinned one, and one that would only exchange the
        // fills.
        assert_eq!(told(&mut machine, file(2, &[(1, 100), (2, 100), (3, 100)])), None);
        let kept = Event::File { file: FileId(3), parts: vec![(TargetId(1), 100)], keep: true };
        assert_eq!(told(&mut machine, kept), None);
        assert_eq!(told(&mut machine, file(4, &[(1, 500)])), None);
        assert_eq!(machine.stats(), Stats { passes: 1, seen: 4, kept: 1, moves: 1, bytes: 100, left: 0 });
    }

    #[test]
    fn what_shares_a_file_system_is_as_full_and_nothing_moves_between() {
        let mut machine = Balance::new(20);
        machine.poll();
        machine.handle(Time::ZERO, Event::Begin(vec![room(1, 0, 7, 900), room(2, 0, 7, 900)]));
        assert_eq!(told(&mut machine, file(1, &[(1, 100)])), None);
        assert_eq!(told(&mut machine, Event::Walked), Some(Action::End(End::Balanced)));
    }

    #[test]
    fn a_new_target_among_many_is_filled_though_none_is_far_above_the_mean() {
        let mut machine = Balance::new(20);
        machine.poll();
        let mut rooms: Vec<_> = (0..100).map(|n| room(n, 0, u64::from(n), 800)).collect();
        rooms.push(room(100, 0, 100, 0));
        machine.handle(Time::ZERO, Event::Begin(rooms));
        assert!(matches!(told(&mut machine, file(1, &[(5, 10)])), Some(Action::Move { to: TargetId(100), .. })));
        // A move that was not made leaves no trace in the fills.
        machine.handle(Time::ZERO, Event::Left);
        assert_eq!(told(&mut machine, Event::Walked), Some(Action::End(End::NothingToMove)));
    }

    proptest! {
        /// The balance ends, with and without failing moves. The spread never grows, and `Balanced` is true.
        #[test]
        fn it_ends_and_makes_nothing_worse(
            used in prop::collection::vec((0u64..=1000, 0u8..2, 0u64..6), 1..8),
            files in prop::collection::vec((prop::collection::vec((0u16..8, 1u64..200), 1..4), any::<bool>(), any::<bool>()), 0..60),
        ) {
            let mut rooms: Vec<Room> = Vec::new();
            for (n, (used, tier, file_system)) in used.into_iter().enumerate() {
                let same = rooms.iter().find(|r| r.file_system == file_system && r.tier == tier).copied();
                let used = same.map_or(used, |room| room.total_bytes - room.free_bytes);
                rooms.push(room(n as u16, tier, file_system, used));
            }
            let mut lie: Vec<BTreeMap<TargetId, u64>> =
                files.iter().map(|f| f.0.iter().map(|(t, bytes)| (TargetId(*t), *bytes)).collect()).collect();
            let apart = |rooms: &[Room], tier: u8| {
                let used = || rooms.iter().filter(|r| r.tier == tier).map(|r| r.total_bytes - r.free_bytes);
                used().max().unwrap_or(0) - used().min().unwrap_or(0)
            };
            let before = [apart(&rooms, 0), apart(&rooms, 1)];
            let mut machine = Balance::new(20);
            let mut next = machine.poll();
            let mut passes = 0;
            let end = loop {
                match next.take().expect("it says what comes next") {
                    Action::End(end) => break end,
                    Action::Move { .. } => prop_assert!(false, "a move without a file"),
                    Action::Walk => {}
                }
                passes += 1;
                prop_assert!(passes <= PASSES_MAX);
                machine.handle(Time::ZERO, Event::Begin(rooms.clone()));
                for (n, parts) in lie.iter_mut().enumerate() {
                    let event = Event::File {
                        file: FileId(n as u64), parts: parts.iter().map(|(t, b)| (*t, *b)).collect(), keep: files[n].1,
                    };
                    let Some(Action::Move { from, to, .. }) = told(&mut machine, event) else { continue };
                    prop_assert!(!files[n].1 && !parts.contains_key(&to));
                    if files[n].2 {
                        machine.handle(Time::ZERO, Event::Left);
                        continue;
                    }
                    let bytes = parts.remove(&from).expect("it lies there");
                    parts.insert(to, bytes);
                    let at = |rooms: &[Room], id| *rooms.iter().find(|r| r.target == id).expect("a target");
                    let (source, sink) = (at(&rooms, from), at(&rooms, to));
                    prop_assert_eq!(source.tier, sink.tier);
                    for room in &mut rooms {
                        if (room.tier, room.file_system) == (source.tier, source.file_system) { room.free_bytes = (room.free_bytes + bytes).min(1000) }
                        if (room.tier, room.file_system) == (sink.tier, sink.file_system) { room.free_bytes -= bytes }
                    }
                    machine.handle(Time::ZERO, Event::Moved);
                }
                next = told(&mut machine, Event::Walked);
            };
            for tier in 0..2u8 {
                prop_assert!(apart(&rooms, tier) <= before[usize::from(tier)]);
            }
            if end == End::Balanced { prop_assert!(machine.is_even()) }
        }
    }
}
