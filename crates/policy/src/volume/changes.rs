//! Changes: queued and running changes of layouts, and the choice of the next one.
//!
//! A file has one change at a time, or several of different segments; a swap may run beside any. Mechanisms take turns,
//! each with a limit of running changes, so that none starves the others. A queued change is checked against the table
//! of [`super::ownership`] when it could begin, since the file's owner may change until then. A change blocked by this
//! machine's own repair waits; a change of a file that another mechanism owns is refused.

use super::event::{Purpose, Reason, Ticket, Verb};
use super::file::File;
use super::ownership::{Aspect, Mechanism};
use crate::ids::{FileId, TargetId};
use crate::stripe::forks::Shape;
use crate::tier::Tier;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Queued changes of one mechanism that are checked for one that can begin. A guess: few files are busy.
const LOOKED_AT: usize = 64;

/// A change that a mechanism requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Want {
    Demote,
    /// Drop of the fast copy. A writer waits for the room, so the drop does not wait for a slow copy of the same file.
    DropFast,
    /// A copy of a checkpoint in the replica group.
    Group,
    Replica,
    DropReplica,
    /// The replica's objects replace those on a failed target.
    Swap(TargetId),
    /// The file's data on that target is rebuilt.
    Rebuild(TargetId),
    Restripe {
        fork: usize,
        to: Shape,
    },
    AddFork(Shape),
    DropFork(usize),
    Move {
        segment: u64,
        to: Tier,
    },
    Copy(u64),
    Repair,
}

/// A requested change, and its reason.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wanted {
    pub by: Mechanism,
    pub file: FileId,
    pub want: Want,
    pub reason: Reason,
}

/// A request of a mechanism to the changes.
#[derive(Debug)]
pub enum Ask {
    Want(Wanted),
    /// Cancels a change that has not begun.
    Withdraw(FileId, Want),
}

/// The next step.
pub enum Next {
    /// This change begins.
    Begin(Ticket, Wanted, Verb),
    /// The layout is already as requested.
    Pointless(Wanted),
    /// The change is impossible or not permitted.
    Refused(Wanted),
    /// Another change of the file is under way, and this one must not wait for its end.
    Busy(Wanted),
}

#[derive(Debug, Default)]
pub struct Changes {
    max: usize,
    repairs: bool,
    wanted: BTreeMap<Mechanism, VecDeque<Wanted>>,
    under_way: BTreeMap<Ticket, Wanted>,
    /// Files that are being changed: these segments of them, or (without segments) the whole file.
    busy: BTreeMap<FileId, BTreeSet<u64>>,
    latest: Option<Mechanism>,
    tickets: Ticket,
}

impl Changes {
    /// Makes a queue with at most `max` changes of one mechanism at a time. `repairs`: damaged files are repaired by
    /// changes.
    pub fn new(max: usize, repairs: bool) -> Changes {
        Changes { max: max.max(1), repairs, ..Changes::default() }
    }

    pub fn want(&mut self, wanted: Wanted) {
        self.wanted.entry(wanted.by).or_default().push_back(wanted);
    }

    /// Cancels a change that has not begun.
    pub fn withdraw(&mut self, file: FileId, want: Want) {
        self.wanted.values_mut().for_each(|queue| queue.retain(|of| (of.file, of.want) != (file, want)));
    }

    /// Whether a change of the file is queued or under way.
    pub fn knows(&self, file: FileId) -> bool {
        self.is_busy(file) || self.wanted.values().flatten().any(|of| of.file == file)
    }

    pub fn is_busy(&self, file: FileId) -> bool {
        self.busy.contains_key(&file)
    }

    /// Whether a queued change waits for those under way: segments of a file change independently of each other.
    fn is_in_the_way(&self, of: &Wanted) -> bool {
        self.busy.get(&of.file).is_some_and(|segments| match segment_of(of.want) {
            _ if goes_beside(of.want) => false,
            Some(segment) => segments.is_empty() || segments.contains(&segment),
            None => true,
        })
    }

    /// Returns the numbers of changes queued and under way.
    pub fn pending(&self) -> (usize, usize) {
        (self.wanted.values().map(VecDeque::len).sum(), self.under_way.len())
    }

    /// Ends a change, and returns it.
    pub fn ended(&mut self, ticket: Ticket) -> Option<Wanted> {
        let of = self.under_way.remove(&ticket)?;
        if goes_beside(of.want) {
            return Some(of);
        }
        if let Some(segments) = self.busy.get_mut(&of.file) {
            segment_of(of.want).map(|segment| segments.remove(&segment));
            if segments.is_empty() {
                self.busy.remove(&of.file);
            }
        }
        Some(of)
    }

    /// Returns the next change, the mechanisms in turn.
    pub fn next(&mut self, files: &BTreeMap<FileId, File>) -> Option<Next> {
        let all: Vec<Mechanism> = self.wanted.keys().copied().collect();
        let (before, after): (Vec<_>, Vec<_>) = all.into_iter().partition(|by| Some(*by) <= self.latest);
        for by in after.into_iter().chain(before) {
            let max = match by {
                // Copy costs are measured for them: one at a time.
                Mechanism::Stripes => 1,
                // These mechanisms limit their own requests.
                Mechanism::Tiers | Mechanism::Replicas => usize::MAX,
                _ => self.max,
            };
            let full = self.under_way.values().filter(|of| of.by == by && counts(of.want)).count() >= max;
            if let Some(next) = self.next_of(by, files, full) {
                self.latest = Some(by);
                return Some(next);
            }
        }
        None
    }

    fn next_of(&mut self, by: Mechanism, files: &BTreeMap<FileId, File>, full: bool) -> Option<Next> {
        let queue = self.wanted.get(&by)?;
        let waits = |of: &Wanted| {
            let mends = matches!(of.want, Want::Repair | Want::Swap { .. } | Want::Rebuild { .. });
            let of_mirrors = segment_of(of.want).is_none() && !mends;
            let is_mended = || self.repairs && of_mirrors && files.get(&of.file).is_some_and(File::is_damaged);
            let is_busy = || of.want != Want::DropFast && self.is_in_the_way(of);
            full && counts(of.want) || is_busy() || is_mended()
        };
        let at = queue.iter().take(LOOKED_AT).position(|of| !waits(of))?;
        let queue = self.wanted.get_mut(&by)?;
        let of = queue.remove(at)?;
        if queue.is_empty() {
            self.wanted.remove(&by);
        }
        if self.is_in_the_way(&of) {
            return Some(Next::Busy(of));
        }
        let Some(file) = files.get(&of.file) else { return Some(Next::Refused(of)) };
        let owned = aspect(of.want).is_none_or(|aspect| file.owner(aspect) == Some(by));
        let verb = if owned { verb(of.want, file) } else { Err(Obstacle::Impossible) };
        Some(match verb {
            Ok(verb) => {
                self.tickets += 1;
                self.under_way.insert(self.tickets, of);
                if !goes_beside(of.want) {
                    self.busy.entry(of.file).or_default().extend(segment_of(of.want));
                }
                Next::Begin(self.tickets, of, verb)
            }
            Err(Obstacle::Pointless) => Next::Pointless(of),
            Err(Obstacle::Impossible) => Next::Refused(of),
        })
    }
}

/// Whether a change counts towards its mechanism's limit. Checkpoints do not: they are copied at the buffer's rate,
/// which may be 0 for long, and one file at a time.
fn counts(want: Want) -> bool {
    !matches!(want, Want::Demote | Want::Group) && !goes_beside(want)
}

/// Whether a change neither blocks nor waits for others of the file: only the record changes, at once.
fn goes_beside(want: Want) -> bool {
    matches!(want, Want::Swap { .. })
}

/// Returns the segment that is changed; `None`: the file as a whole.
fn segment_of(want: Want) -> Option<u64> {
    match want {
        Want::Move { segment, .. } | Want::Copy(segment) => Some(segment),
        _ => None,
    }
}

/// Returns the aspect that the mechanism must own. `None`: a mechanism's own mirror is dropped, or a mirror is
/// completed, whatever the ownership.
fn aspect(want: Want) -> Option<Aspect> {
    match want {
        Want::Move { .. } | Want::Copy { .. } => Some(Aspect::Tier),
        Want::Demote | Want::Group | Want::Replica => Some(Aspect::Shape),
        Want::Restripe { .. } | Want::AddFork { .. } | Want::DropFork { .. } => Some(Aspect::Shape),
        Want::DropFast | Want::DropReplica => None,
        Want::Repair | Want::Swap { .. } | Want::Rebuild { .. } => None,
    }
}

/// Reason why a change cannot begin.
enum Obstacle {
    /// The layout is already as requested.
    Pointless,
    Impossible,
}

/// Returns the verb that makes the change in the current layout.
fn verb(want: Want, file: &File) -> Result<Verb, Obstacle> {
    use Obstacle::{Impossible, Pointless};
    let add = |purpose, shape| match file.intact() {
        0 => Err(Impossible),
        _ => Ok(Verb::AddMirror { purpose, shape }),
    };
    let drop = |mirror: Option<usize>| match mirror {
        None => Err(Pointless),
        Some(mirror) if file.can_lose(mirror) => Ok(Verb::DropMirror(mirror)),
        Some(_) => Err(Impossible),
    };
    match want {
        Want::Demote if file.has(Purpose::Demoted) => Err(Pointless),
        Want::Demote => add(Purpose::Demoted, None),
        Want::DropFast if !file.has(Purpose::Demoted) => Err(Impossible),
        Want::DropFast => drop(file.mirror_for(Purpose::Data)),
        Want::Group if file.has(Purpose::Group) => Err(Pointless),
        Want::Group => add(Purpose::Group, None),
        // Several mirrors protect a file already.
        Want::Replica if file.has(Purpose::Replica) || file.intact() > 1 => Err(Pointless),
        Want::Replica if file.mirror_for(Purpose::Replica).is_some() => Err(Impossible),
        Want::Replica => add(Purpose::Replica, None),
        Want::DropReplica => drop(file.mirror_for(Purpose::Replica)),
        Want::Swap(target) => match file.mirror_for(Purpose::Replica) {
            Some(replica) => Ok(Verb::Swap { replica, target }),
            None => Err(Impossible),
        },
        Want::Rebuild(target) => Ok(Verb::ReplaceTarget(target)),
        Want::Restripe { fork, .. } if !file.lies.mirrors.get(fork).is_some_and(|mirror| mirror.intact) => {
            Err(Impossible)
        }
        Want::Restripe { fork, to } => Ok(Verb::Restripe { mirror: fork, to }),
        Want::AddFork(to) => add(Purpose::Fork, Some(to)),
        Want::DropFork(fork) => drop(Some(fork).filter(|fork| *fork < file.lies.mirrors.len())),
        Want::Move { segment, to } => match file.lies.segments.get(segment as usize) {
            None => Err(Impossible),
            Some(tier) if *tier == to => Err(Pointless),
            Some(_) => Ok(Verb::MoveSegment { segment, to }),
        },
        Want::Copy(segment) => match file.lies.segments.get(segment as usize) {
            Some(Tier::Fast) if file.lies.mirrors.len() == 1 => Ok(Verb::CopySegment(segment)),
            _ => Err(Impossible),
        },
        Want::Repair => match file.lies.mirrors.iter().position(|mirror| !mirror.intact) {
            None => Err(Pointless),
            Some(mirror) => Ok(Verb::ReplaceTargets(mirror)),
        },
    }
}
