//! The background tasks: a row for each kind, with its rules.

use crate::ids::{FileId, TargetId};
use crate::time::Time;

/// Tasks with a common bound on how many of them run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Short work at intervals.
    Upkeep,
    /// Short work on one file or target.
    Repair,
    /// Walks over all names.
    Walk,
    /// Checksums of one file, which read all of it.
    Sum,
    /// Passes at a rate of their own, which may last for days.
    Pass,
    /// Drains: each has a target of its own, and lasts until the last file on it is closed.
    Drain,
}

impl Class {
    /// Maximum of tasks of the class that run at the same time.
    pub fn at_once(self) -> usize {
        match self {
            // No row waits for a slow device or state store of another.
            Class::Upkeep => ROWS.iter().filter(|row| row.class == Class::Upkeep).count(),
            // One more than needed, so that garbage on a slow target delays no resync.
            Class::Repair => 2,
            // A rebuild may last for days and a purge for hours. A guess.
            Class::Walk => 3,
            Class::Sum => 1,
            Class::Pass => 2,
            // More targets than a center replaces at the same time. A guess.
            Class::Drain => 32,
        }
    }
}

/// Rules of a kind of task.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Class whose bound counts.
    pub class: Class,
    /// Whether only the leader runs it.
    pub only_leader: bool,
    /// Interval between two starts; `None` if it runs on request only.
    pub every: Option<Time>,
    /// Delay of a wanted task.
    pub first: Time,
    /// Pause after an incomplete run. It doubles up to the maximum.
    pub pause: Time,
    /// Maximum of the pause.
    pub pause_max: Time,
    /// Maximum of incomplete runs in sequence; then the task is dropped.
    pub runs_max: u32,
    /// Whether a further request delays a waiting task.
    pub is_put_off: bool,
    /// Maximum of waiting tasks; further ones are dropped.
    pub waiting_max: usize,
}

/// A task of each node, on request, at once.
const fn row(class: Class) -> Row {
    Row {
        class,
        only_leader: false,
        every: None,
        first: Time::ZERO,
        pause: Time::ZERO,
        pause_max: Time::ZERO,
        runs_max: u32::MAX,
        is_put_off: false,
        waiting_max: 1 << 16, // as many as there are targets
    }
}

impl Row {
    const fn every(self, seconds: u64) -> Row {
        Row { every: Some(Time::from_secs(seconds)), ..self }
    }

    const fn first(self, seconds: u64) -> Row {
        Row { first: Time::from_secs(seconds), ..self }
    }

    const fn pause(self, seconds: u64, max: u64) -> Row {
        Row { pause: Time::from_secs(seconds), pause_max: Time::from_secs(max), ..self }
    }

    /// Row for tasks on files that applications use.
    const fn of_files(self) -> Row {
        Row { is_put_off: true, waiting_max: 10_000, ..self }
    }

    const fn of_leader(self) -> Row {
        Row { only_leader: true, ..self }
    }
}

/// The first of several variants, which has no argument.
macro_rules! first {
    ($kind:ident, $($others:tt)*) => {
        Task::$kind
    };
}

/// Declares a variant of [`Task`] and its [`Row`] for each line; the most urgent is first.
macro_rules! rows {
    ($($(#[doc = $doc:literal])+ $kind:ident $(($of:ty))? = $row:expr;)+) => {
        /// A background task.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Task {
            $($(#[doc = $doc])+ $kind $(($of))?,)+
        }

        #[derive(Clone, Copy)]
        enum Kind {
            $($kind,)+
        }

        impl Task {
            /// The least task.
            pub const FIRST: Task = first!($($kind $(($of))?,)+);

            /// Position of the task's row in [`ROWS`].
            pub fn row(self) -> usize {
                match self {
                    $(Task::$kind { .. } => Kind::$kind as usize,)+
                }
            }
        }

        /// The rules of all kinds of tasks.
        pub const ROWS: &[Row] = &[$($row,)+];
    };
}

/// Longest pause between two walks over a large tree, which are expensive.
const HOUR_S: u64 = 3600;

rows! {
    /// Write the new counts of users and jobs. A crash loses the counts of one interval.
    Accounts = row(Class::Upkeep).every(10).first(10);
    /// Check usage against the limits, and exchange counts with the other nodes. A passed soft limit is noticed one
    /// pause late.
    Quotas = row(Class::Upkeep).first(1).pause(1, 1);
    /// Make the names of new objects durable, and release unused memory. The interval is a guess: longer than any
    /// operation on a target with the default deadline. A loss of power may undo the names of two intervals.
    Names = row(Class::Upkeep).every(20).first(20);
    /// Write the changed rows of the table of places. A change waits for others that are written with it.
    Places = row(Class::Upkeep).first(1);
    /// Send the sizes of files that this node extends to their stubs, where several nodes have the volume.
    Sizes = Row { every: Some(Time::from_millis(500)), ..row(Class::Upkeep) };
    /// Lock this node's byte of the shared file system again, since a server that restarts drops locks silently.
    Locks = row(Class::Upkeep).every(5);
    /// Check whether this node is to be shut down, and whether it may be.
    Shutdown = row(Class::Upkeep).every(1);
    /// Remove the garbage on a target.
    Garbage(TargetId) = row(Class::Repair).of_leader();
    /// Resync the stale mirrors of a file. It waits after the last error, since the writer is probably not done.
    /// `entrepot check --repair` finds files beyond the bound.
    Resync(FileId) = row(Class::Repair).of_leader().of_files().first(2).pause(2, 2);
    /// Rebuild the objects of failed targets, and resync stale mirrors. Delay: algorithms, 6.7.
    Rebuild = row(Class::Walk).of_leader().first(5).pause(2, HOUR_S);
    /// Remove the leftovers of nodes that were killed. Each run asks the state store for such nodes, and walks only if
    /// there are any.
    Left = row(Class::Walk).of_leader().every(5).first(1).pause(3, HOUR_S);
    /// Remove the orphans of a daemon that was killed.
    Sweep = row(Class::Walk).first(1).pause(2, HOUR_S);
    /// Sum up the usage of all names.
    Usage = row(Class::Walk);
    /// Remove files by the rules of the volume. The interval is `[purge] every`.
    Purge = row(Class::Walk).of_leader();
    /// Compute the checksums of a closed file. A file that is opened and written at once would void them. The next
    /// scrub computes those that are missing.
    Sum(FileId) = Row { runs_max: 5, ..row(Class::Sum).of_files().first(2).pause(20, 20) };
    /// Check whether a scrub is due, and compare the copies of all files.
    Scrub = row(Class::Pass).of_leader().every(30);
    /// Even out the usage of targets. A node that leads no more ends the run by itself, so that the run has a result.
    Balance = row(Class::Pass);
    /// Move everything off a target.
    Drain(TargetId) = row(Class::Drain);
}
