//! Random operations of three nodes, one after the other, with lost answers, expelled nodes, late writes, full targets,
//! and failed calls to the stub. Every acknowledged byte must be there for the next reader.

use super::*;
use proptest::prelude::*;
use rustix::io::Errno;

const NODES: usize = 3;
const SIZE_MAX: u64 = 60_000;

#[derive(Clone, Debug)]
enum Op {
    Write {
        at: u64,
        len: usize,
    },
    Append {
        len: usize,
    },
    Truncate {
        size: u64,
    },
    Move,
    Read,
    /// The file is closed, and stays in memory.
    Rest,
    /// The file is closed, and opened again.
    Reopen,
    /// The store starts again without its data.
    NewRun,
    Settle,
    /// The store carries a request out, and its answer is lost.
    LoseAnswer {
        nth: u64,
    },
    /// The node is expelled, writes beyond the end late, and joins again.
    Expel,
    /// The targets take so many bytes during a write.
    WriteFull {
        at: u64,
        len: usize,
        room: u64,
    },
    /// Calls to the stub are carried out during the operation, and their answers are lost.
    Unanswered {
        op: Box<Op>,
        nth: u64,
        calls: u64,
    },
}

fn op() -> impl Strategy<Value = Op> {
    let changes = prop_oneof![
        (0..SIZE_MAX, 1usize..9000).prop_map(|(at, len)| Op::Write { at, len }),
        (1usize..3000).prop_map(|len| Op::Append { len }),
        (0..SIZE_MAX).prop_map(|size| Op::Truncate { size }),
    ];
    let unanswered = (changes, 1u64..8, 1u64..4);
    prop_oneof![
        1 => (0..SIZE_MAX, 1usize..30_000, 0..SIZE_MAX).prop_map(|(at, len, room)| Op::WriteFull { at, len, room }),
        2 => unanswered.prop_map(|(op, nth, calls)| Op::Unanswered { op: Box::new(op), nth, calls }),
        4 => (0..SIZE_MAX, 1usize..9000).prop_map(|(at, len)| Op::Write { at, len }),
        2 => (1usize..3000).prop_map(|len| Op::Append { len }),
        1 => (0..SIZE_MAX).prop_map(|size| Op::Truncate { size }),
        1 => Just(Op::Move),
        3 => Just(Op::Read),
        1 => Just(Op::Settle),
        1 => Just(Op::Rest),
        1 => Just(Op::Reopen),
        1 => Just(Op::NewRun),
        1 => (0u64..4).prop_map(|nth| Op::LoseAnswer { nth }),
        1 => Just(Op::Expel),
    ]
}

fn put(model: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    model.resize(model.len().max(at + bytes.len()), 0);
    model[at..at + bytes.len()].copy_from_slice(bytes);
}

struct Swarm {
    world: World,
    nodes: Vec<One>,
    /// Content as acknowledged.
    model: Vec<u8>,
    /// Nodes that may have a size that the stub lacks.
    unsettled: BTreeSet<usize>,
    byte: u8,
    next_number: u32,
}

impl Swarm {
    fn new() -> Swarm {
        let world = World::new();
        let nodes = (1..=NODES as u32).map(|number| world.node(number)).collect();
        Swarm { world, nodes, model: Vec::new(), unsettled: BTreeSet::new(), byte: 0, next_number: 10 }
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        self.byte = self.byte % 250 + 1;
        vec![self.byte; len]
    }

    fn settle_all(&mut self) {
        std::mem::take(&mut self.unsettled).into_iter().for_each(|i| self.nodes[i].file.settle().expect("settles"));
    }

    /// Carries out a change of content. A failed one leaves each of its bytes as before, or changed.
    fn change(&mut self, i: usize, op: &Op) -> Result<()> {
        let file = self.nodes[i].file.clone();
        match op {
            Op::Write { at, len } | Op::WriteFull { at, len, .. } => {
                let bytes = self.bytes(*len);
                let written = file.write(*at, &bytes);
                self.ended(i, *at as usize..*at as usize + len, written, |model| put(model, *at as usize, &bytes))
            }
            Op::Append { len } => {
                let (bytes, end) = (self.bytes(*len), self.model.len());
                let appended = file.append(&bytes);
                if let Ok(at) = appended {
                    assert_eq!(at, end as u64, "at the end");
                }
                self.ended(i, end..end + len, appended.map(drop), |model| put(model, end, &bytes))
            }
            Op::Truncate { size } => {
                let (size, end) = (*size as usize, self.model.len());
                let cut = file.truncate(size as u64);
                self.ended(i, size.min(end)..size.max(end), cut, |model| model.resize(size, 0))
            }
            _ => Ok(()),
        }
    }

    fn ended(
        &mut self,
        i: usize,
        range: std::ops::Range<usize>,
        done: Result<()>,
        act: impl FnOnce(&mut Vec<u8>),
    ) -> Result<()> {
        self.unsettled.insert(i);
        if done.is_ok() {
            act(&mut self.model);
        } else {
            self.adopt(i, range, act);
        }
        done
    }

    /// Takes over what a failed change of a range has left, after a look at it.
    fn adopt(&mut self, i: usize, range: std::ops::Range<usize>, act: impl FnOnce(&mut Vec<u8>)) {
        self.world.lift_faults();
        let mut after = self.model.clone();
        act(&mut after);
        self.settle_all();
        let read = self.nodes[(i + 1) % NODES].bytes();
        let (least, most) = (self.model.len().min(after.len()), self.model.len().max(after.len()));
        assert!(least <= read.len() && read.len() <= most, "{least} to {most} bytes: {}", read.len());
        for (at, byte) in read.iter().enumerate() {
            let before = self.model.get(at).copied().unwrap_or(0);
            let changed = after.get(at).copied().unwrap_or(0);
            let may_differ = range.contains(&at) && *byte == changed;
            assert!(*byte == before || may_differ, "byte {at} is {byte}, not {before} or {changed}");
        }
        self.model = read;
    }

    fn run(&mut self, i: usize, op: &Op) {
        match op {
            Op::Write { .. } | Op::Append { .. } | Op::Truncate { .. } => match self.change(i, op) {
                // On a slow machine a hold ends by itself.
                Ok(()) | Err(Error::Elsewhere(_)) => {}
                Err(error) => panic!("{error}"),
            },
            Op::WriteFull { room, .. } => {
                self.world.media.iter().for_each(|medium| medium.set_capacity_bytes(*room));
                drop(self.change(i, op));
                self.world.lift_faults();
            }
            Op::Unanswered { op, nth, calls } => {
                self.world.stub.lose_answers(*nth, *calls);
                drop(self.change(i, op));
                self.world.lift_faults();
            }
            Op::Move => match self.nodes[i].tries_to_move() {
                Ok(_) | Err(Error::Busy(_)) => {}
                Err(error) => panic!("{error}"),
            },
            Op::Read => {
                self.settle_all();
                let read = self.nodes[i].bytes();
                let differs = read.iter().zip(&self.model).position(|(one, other)| one != other);
                assert_eq!((differs, read.len()), (None, self.model.len()));
            }
            Op::Rest => self.nodes[i].file.rest(),
            Op::Reopen => self.nodes[i].reopens(),
            Op::NewRun => self.world.shared.begins_anew(),
            Op::Settle => self.settle_all(),
            Op::LoseAnswer { nth } => *self.nodes[i].member.loses.lock() = (*nth, 1),
            Op::Expel => self.expel(i),
        }
    }

    fn expel(&mut self, i: usize) {
        let one = &self.nodes[i];
        let view = one.file.view();
        // A write is under way only under a hold for writing, which the present number has.
        let writes = one.holds.is_under(one.member.node()) && one.holds.begin(one.file.key(), Use::Write).is_some();
        let piece = view.layout.as_ref().and_then(|layout| layout.mirrors[0].pieces(0, one.file.size(), 10).next());
        *one.member.standing.lock() = Standing::Lost;
        self.world.shared.end(one.member.node());
        self.unsettled.remove(&i);
        // Another node settles what the lost one has left.
        let other = &self.nodes[(i + 1) % NODES];
        drop(other.file.alone().expect("settles"));
        if let Some(piece) = piece.filter(|_| writes && one.file.size() as usize >= self.model.len()) {
            let at = piece.object_offset;
            let late = view.slot(piece.at).run(one.file.pool(), move |object| object.write_at(at, &[255; 10]));
            assert!(
                matches!(late, Ok(()) | Err(object::target::TargetError::Io(Errno::NOENT | Errno::STALE))),
                "{late:?}"
            );
        }
        one.joins_again(self.next_number);
        self.next_number += 1;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// [S-204]
    #[test]
    fn no_acknowledged_byte_is_lost(ops in proptest::collection::vec((0..NODES, op()), 1..40)) {
        let mut swarm = Swarm::new();
        ops.iter().for_each(|(i, op)| swarm.run(*i, op));
        (0..NODES).for_each(|i| swarm.run(i, &Op::Read));
    }
}

/// A node that was expelled cannot load its next hold, and then has to lower it. [S-204]
#[test]
fn a_size_of_a_lost_number_is_not_set_under_the_next() {
    let mut swarm = Swarm::new();
    let ops = [
        (0, Op::Write { at: 6849, len: 1927 }),
        (2, Op::Append { len: 2209 }),
        (2, Op::Expel),
        (0, Op::Truncate { size: 0 }),
        (2, Op::Unanswered { op: Box::new(Op::Write { at: 0, len: 1 }), nth: 2, calls: 1 }),
        (0, Op::Append { len: 1 }),
    ];
    ops.iter().for_each(|(i, op)| swarm.run(*i, op));
}
