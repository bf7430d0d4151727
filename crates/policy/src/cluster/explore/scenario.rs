//! Settings of an exploration: programs, number of faults, and the rule that is broken on purpose.

pub const NODES: usize = 3;

/// Operation of a node.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Write this value into this block.
    Write { block: u8, value: u8 },
    /// Move this block to a new object.
    Move { block: u8 },
    /// Add to the layout, beside writers.
    Add,
    /// End the claim of a node that is over, if there is one.
    Settle,
    /// Open the file and read this block.
    Read { block: u8 },
    /// Cut the file to one block. It is a write of block 1 under this name.
    Cut { value: u8 },
}

/// A rule that is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guilt {
    None,
    /// A write is acknowledged without a look at the lease.
    NoLook,
    /// A new object gets the lowest number that is free.
    NumbersReused,
    /// A dead node's claim is removed without the next generation.
    ClaimJustRemoved,
    /// Registrations are in a store that may forget its last writes.
    Forgetful,
    /// A registration has the name of the one before.
    OneEntry,
    /// A node whose lease file was missing in one listing is taken for over.
    MissingIsOver,
    /// A changer that gives up just removes its claim.
    GivesUpByRemoving,
    /// A writer or a reader does not look again once it has loaded the layout.
    LoadedUnseen,
    /// A changer that finds its generation published takes it for another's, whatever its lease.
    RefusedIsNot,
    /// A writer acknowledges beyond the size of the stub without a mark.
    GrowsUnmarked,
    /// A changer leaves the sizes of nodes that are over unsettled.
    SkipsSettling,
    /// A changer removes such marks before it sets the size.
    SettlesMarksFirst,
    /// A writer that ends removes its mark before it sets the size.
    UnmarksFirst,
    /// A cut sets no mark.
    CutsUnmarked,
    /// A mark of growth from before a cut counts.
    OldGrowthCounts,
    /// A writer makes the file longer beside the mark of a cut.
    ExtendsBesideCut,
    /// Marks of growth of a node that is over are litter.
    GrowthIsLitter,
    /// The size is set, and a tail is cut, without a look at the lease.
    SizedUnseen,
    /// A writer marks nothing within the reach of the objects, though the stub's size is less.
    TrustsReach,
    /// A writer forgets what a write that failed has left in the objects.
    FailureForgotten,
    /// A reader reads the size before it lists the marks.
    SizeBeforeMarks,
    /// A reader returns zeros for bytes within the size that no object holds.
    ShortIsHole,
    /// A reader does so if the size is the same after the read.
    SizeAfterIsEnough,
}

/// How long the file is at the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Two blocks throughout: sizes are not explored.
    Still,
    /// Two blocks long.
    Long,
    /// One block long.
    Short,
}

/// Number of faults of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Leases that end while their node goes on; it may renew, or be expelled.
    pub lapses: u8,
    /// Leases that end while their node goes on, which is expelled in the same step. This has fewer states and covers
    /// as much: a node that renews after a lapse behaves like a slow one.
    pub expulsions: u8,
    pub crashes: u8,
    /// Doorbells that ring at any time.
    pub bells: u8,
    /// Doorbells that do not ring.
    pub silent: u8,
    /// Creates whose answer is lost.
    pub doubts: u8,
    /// Removals that are carried out once more at any later time.
    pub late: u8,
    /// Changers that give up.
    pub give_ups: u8,
    /// Writes that fail half way.
    pub fails: u8,
}

impl Faults {
    /// Allows `depth` more faults of each kind that is allowed at all.
    pub fn more(self, depth: u8) -> Faults {
        let more = |n: u8| if n > 0 { n + depth } else { 0 };
        Faults {
            lapses: more(self.lapses),
            expulsions: more(self.expulsions),
            crashes: more(self.crashes),
            bells: more(self.bells),
            silent: more(self.silent),
            doubts: more(self.doubts),
            late: more(self.late),
            give_ups: more(self.give_ups),
            fails: more(self.fails),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    pub programs: [&'static [Op]; NODES],
    pub faults: Faults,
    pub guilt: Guilt,
    pub start: Start,
}

impl Scenario {
    /// Whether sizes change.
    pub fn sizes(&self) -> bool {
        self.start != Start::Still
    }

    fn ops(&self) -> impl Iterator<Item = &Op> {
        self.programs.iter().flat_map(|program| program.iter())
    }

    /// A bit per write that is a cut.
    pub fn cuts(&self) -> u8 {
        self.ops().fold(0, |cuts, op| if let Op::Cut { value } = op { cuts | 1 << (value - 1) } else { cuts })
    }
}

/// Returns the block of a value. The blocks hold values 1 and 2 at the start.
pub fn block_of(scenario: &Scenario, value: u8) -> u8 {
    let of = |op: &Op| match op {
        Op::Write { block, value: v } if *v == value => Some(*block),
        Op::Cut { value: v } if *v == value => Some(1),
        _ => None,
    };
    if value <= 2 { value - 1 } else { scenario.ops().find_map(of).unwrap() }
}
