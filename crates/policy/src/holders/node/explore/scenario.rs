//! Settings of an exploration: programs, number of faults, and the rule that is broken on purpose.

use crate::holders::node::{Action, Step};

pub const NODES: usize = 3;

/// Operation of a node. Names and files have the numbers 0 and 1. Values are unique.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Create the file of a name, which does not exist before, and keep it open.
    Create { name: usize },
    /// Open a name, and keep it open.
    Open { name: usize },
    /// Read a block of a name.
    Read { name: usize, block: usize },
    /// Write a block of a name. `later`: the size is set by a later close.
    Write { name: usize, block: usize, value: u8, later: bool },
    /// Append a block. `later`: the size is set by a later close.
    Append { name: usize, value: u8, later: bool },
    /// Cut to one block. The value stands for the operation.
    Cut { name: usize, value: u8 },
    /// Close a name: the size of the stub is set.
    Close { name: usize },
    /// Move the blocks to new objects, as for a file that leaves its stub.
    Move { name: usize },
    /// Remove a name.
    Remove { name: usize },
    /// Rename one name over another.
    Replace { from: usize, to: usize },
}

impl Op {
    pub fn name(self) -> usize {
        match self {
            Op::Create { name } | Op::Open { name } => name,
            Op::Close { name } | Op::Move { name } | Op::Remove { name } => name,
            Op::Read { name, .. } | Op::Write { name, .. } | Op::Append { name, .. } | Op::Cut { name, .. } => name,
            Op::Replace { to, .. } => to,
        }
    }

    pub fn value(self) -> Option<u8> {
        match self {
            Op::Write { value, .. } | Op::Append { value, .. } | Op::Cut { value, .. } => Some(value),
            _ => None,
        }
    }
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Guilt {
    None,
    /// A write is acknowledged without a look at hold and lease.
    NoLook,
    /// A new object gets the lowest number that is free.
    NumbersReused,
    /// The run is opened before all members have registered.
    OpensEarly,
    /// A provisional hold is taken while the session may still count.
    ProvisionalEarly,
    /// A mode that caches is used after its bound.
    CachesOn,
    /// A listing, which may be cut short, is taken for the newest generation.
    BelievesList,
    /// A hold is released before the size is set.
    ReleasesFirst,
    /// A changer looks for the newest generation once it has claimed.
    FindsLate,
    /// A provisional hold is taken without a publication.
    NoFence,
    /// A file of a node that is over is settled without new objects beyond its size.
    NoSeal,
    /// The size of a file of a node that is over stays as it is.
    SkipsSettling,
    /// A member without a session is forgotten.
    ForgetsLapsed,
    /// A file without an entry counts as settled in a run that may have forgotten its entry.
    TrustsCopy,
    /// The objects of a removed file are removed while another node has it open.
    RemovesAtOnce,
    /// A node beside others takes the size of the stub for that of the file.
    BelievesStub,
    /// A node goes on with what it has cached after its mode was lowered to `Write`.
    KeepsCache,
    /// A node that was admitted to read writes once its mode is a lower one.
    WritesAsReader,
    /// The table forgets at once that a file had a holder.
    ForgetsReleased,
    /// A claim leaves the generation that the table takes for the newest.
    KeepsGeneration,
    /// The table is sure of all holders although it has lost its data, in a volume that counts as checked.
    IsSure,
    /// The table takes the generation of a hold for the newest that was registered late.
    TrustsReclaimed,
}

/// Number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// Nodes that freeze and are expelled. Their step under way is carried out at any later time.
    pub freezes: u8,
    pub crashes: u8,
    /// Partitions between a node and the store.
    pub partitions: u8,
    /// Restarts of the store with all its data.
    pub restarts: u8,
    /// Restarts of the store with the data of the beginning.
    pub returns: u8,
    /// Requests to the store without an answer.
    pub doubts: u8,
    /// Messages that are lost.
    pub lost: u8,
    /// Messages that arrive twice.
    pub repeated: u8,
    /// Lists that lack the highest name.
    pub short: u8,
    /// Settlements by a node that does not reach an object.
    pub unreached: u8,
}

impl Faults {
    /// Allows `depth` more faults of each kind that is allowed at all.
    pub fn more(self, depth: u8) -> Faults {
        let more = |n: u8| if n > 0 { n + depth } else { 0 };
        Faults {
            freezes: more(self.freezes),
            crashes: more(self.crashes),
            partitions: more(self.partitions),
            restarts: more(self.restarts),
            returns: more(self.returns),
            doubts: more(self.doubts),
            lost: more(self.lost),
            repeated: more(self.repeated),
            short: more(self.short),
            unreached: more(self.unreached),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub programs: [&'static [Op]; NODES],
    pub faults: Faults,
    pub guilt: Guilt,
    /// Whether each request for a session is a step of its own.
    pub fine: bool,
    /// Blocks of both files at the start.
    pub size: usize,
}

impl Scenario {
    /// Whether an action is carried out together with the step before, since no fault of the scenario comes between.
    pub fn is_plain(&self, action: &Action) -> bool {
        let faults = &self.faults;
        let Action::Step { step, .. } = action else {
            let session = matches!(action, Action::Ask { key: None, .. } | Action::Members);
            return session && !self.fine;
        };
        match step {
            Step::Drain | Step::Change(_) => true,
            Step::Publish { .. } | Step::SettleFromObjects(_) => false,
            Step::Tidy(_) | Step::Whole => faults.freezes + faults.short == 0,
            Step::Settle if faults.partitions > 0 && self.only_settles_later() => false,
            Step::Point(_) | Step::Settle => faults.freezes + faults.crashes == 0,
            Step::Pointer | Step::Look(_) | Step::List => {
                faults.partitions + faults.freezes + faults.returns + faults.short == 0
            }
        }
    }

    fn ops(&self) -> impl Iterator<Item = &Op> {
        self.programs.iter().flat_map(|program| program.iter())
    }

    /// Whether a step of its own sets sizes, and no close.
    fn only_settles_later(&self) -> bool {
        let later = |op: &Op| matches!(op, Op::Write { later: true, .. } | Op::Append { later: true, .. });
        self.ops().any(later) && !self.ops().any(|op| matches!(op, Op::Close { .. }))
    }

    /// Whether a file is created.
    pub fn creates(&self, file: usize) -> bool {
        self.ops().any(|op| matches!(op, Op::Create { name } if *name == file))
    }

    /// A bit per value of a cut.
    pub fn cuts(&self) -> u16 {
        self.ops().fold(0, |cuts, op| if let Op::Cut { value, .. } = op { cuts | 1 << value } else { cuts })
    }

    /// A bit per value of an append.
    pub fn appends(&self) -> u16 {
        self.ops().fold(0, |all, op| if let Op::Append { value, .. } = op { all | 1 << value } else { all })
    }

    /// Name of the file that a value belongs to.
    pub fn name_of(&self, value: u8) -> usize {
        let mut names = self.ops().filter(|op| op.value() == Some(value)).map(|op| op.name());
        names.next().unwrap_or((usize::from(value) - 1) / 2)
    }
}
