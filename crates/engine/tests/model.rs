//! A file against a plain vector of bytes: random operations without faults, every shape of layout, and the ways that
//! reads and writes of the mount take.

#[allow(dead_code, unused_imports)]
mod world;

use engine::file::{File, InlineRead, InlineWrite, MirrorWrites, OnDeadline};
use policy::layout::Placement;
use proptest::prelude::*;
use std::sync::Arc;
use world::{Options, World};

const SIZE_MAX: u64 = 200 << 10;

#[derive(Clone, Debug)]
enum Op {
    Read(u64, u64),
    Write(u64, u64, u8),
    Append(u64, u8),
    Truncate(u64),
    Punch(u64, u64),
    Zero(u64, u64, bool),
    Allocate(u64, u64, bool),
    Copy(u64, u64, u64),
    SeekData(u64),
    SeekHole(u64),
    Sync,
    Reopen,
    AddMirror,
    DropMirror(usize),
    ReplaceTarget(u16),
    MoveSegment(usize, usize),
    Resync,
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    prop_oneof![
        (0..SIZE_MAX, 0..40_000u64),
        (0..SIZE_MAX, 0..300u64),
        (0..50u64, 0..4u64).prop_map(|(a, b)| (a * 4096, b * 4096)),
        (0..20_000u64, 0..5_000u64),
    ]
    .prop_map(|(offset, len)| (offset, len.min(SIZE_MAX - offset)))
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => range().prop_map(|(o, l)| Op::Read(o, l)),
        8 => (range(), 1..=255u8).prop_map(|((o, l), v)| Op::Write(o, l, v)),
        2 => (0..9_000u64, 1..=255u8).prop_map(|(l, v)| Op::Append(l, v)),
        3 => range().prop_map(|(o, _)| Op::Truncate(o)),
        2 => range().prop_map(|(o, l)| Op::Punch(o, l)),
        1 => (range(), any::<bool>()).prop_map(|((o, l), k)| Op::Zero(o, l, k)),
        1 => (range(), any::<bool>()).prop_map(|((o, l), k)| Op::Allocate(o, l, k)),
        1 => (range(), 0..SIZE_MAX).prop_map(|((o, l), to)| Op::Copy(o, to, l.min(SIZE_MAX - to))),
        1 => range().prop_map(|(o, _)| Op::SeekData(o)),
        1 => range().prop_map(|(o, _)| Op::SeekHole(o)),
        1 => Just(Op::Sync),
        1 => Just(Op::Reopen),
        1 => Just(Op::AddMirror),
        1 => (0..3usize).prop_map(Op::DropMirror),
        1 => (0..6u16).prop_map(Op::ReplaceTarget),
        1 => (0..3usize, 0..3usize).prop_map(|(m, s)| Op::MoveSegment(m, s)),
        1 => Just(Op::Resync),
    ]
}

fn options() -> impl Strategy<Value = Options> {
    let segments = prop_oneof![Just(0u64), 1..60_000u64];
    let shape = (1..=6u16, 1..=3usize, 1..=6usize, 1..=4u64, 0..60_000u64, segments, 0..20_000u64, any::<bool>());
    shape.prop_map(|(targets, mirrors, stripe_count, stripes, single, segment_bytes, inline_bytes_max, sync)| Options {
        targets,
        placement: Placement {
            stripe_size: stripes * 4096,
            stripe_count,
            single_bytes_max: single,
            segment_bytes,
            mirrors,
            tier: None,
        },
        mirror_writes: if sync { MirrorWrites::Sync } else { MirrorWrites::Stale },
        inline_bytes_max,
    })
}

fn bytes(value: u8, len: u64) -> Vec<u8> {
    (0..len).map(|i| value.wrapping_add((i / 97) as u8)).collect()
}

fn put(model: &mut Vec<u8>, offset: u64, data: &[u8]) {
    let (from, to) = (offset as usize, offset as usize + data.len());
    if !data.is_empty() && model.len() < to {
        model.resize(to, 0);
    }
    if !data.is_empty() {
        model[from..to].copy_from_slice(data);
    }
}

fn check_all(file: &Arc<File>, model: &[u8]) {
    assert_eq!(file.size(), model.len() as u64, "size");
    let mut buf = vec![0xEE; model.len() + 10];
    let read = file.read(0, &mut buf).expect("a healthy read");
    assert_eq!(read, model.len());
    if let Some(at) = (0..read).find(|&i| buf[i] != model[i]) {
        panic!("byte {at} is {}, should be {}; layout {:?}", buf[at], model[at], file.layout());
    }
    if let Some(layout) = file.layout() {
        layout.check().expect("a sound layout");
    }
}

fn check_seek(file: &Arc<File>, model: &[u8], offset: u64) {
    let data = file.seek_data(offset).ok();
    let hole = file.seek_hole(offset).ok();
    let size = model.len() as u64;
    assert_eq!(hole.is_some(), offset < size, "every file has a hole at its end");
    // Between the offset and the data found all bytes are zeros; up to the hole found any bytes may be.
    let zeros_to = data.unwrap_or(size).min(size);
    if offset < zeros_to {
        assert!(model[offset as usize..zeros_to as usize].iter().all(|b| *b == 0), "data before {zeros_to}");
    }
    assert!(data.is_none_or(|d| d >= offset && d < size), "data at {data:?} of {size}");
    assert!(hole.is_none_or(|h| h >= offset && h <= size), "hole at {hole:?} of {size}");
}

fn on_deadline() -> Arc<dyn OnDeadline> {
    Arc::new(|| panic!("nothing hangs"))
}

/// Reads as the mount does: on this thread what can be, else the slow way.
fn read(file: &Arc<File>, offset: u64, buf: &mut [u8]) -> usize {
    if let Some(read) = file.read_in_stub(offset, buf) {
        return read.expect("a healthy read");
    }
    match file.read_inline(offset, buf, &on_deadline()) {
        InlineRead::Done(read) => read,
        _ => file.read(offset, buf).expect("a healthy read"),
    }
}

/// Writes as the mount does: on this thread if possible, else the slow way.
fn write(file: &Arc<File>, offset: u64, data: &[u8]) {
    let done =
        file.write_in_stub(offset, data).unwrap_or_else(|| match file.write_inline(offset, data, on_deadline()) {
            InlineWrite::Done(done) => done,
            _ => file.write(offset, data),
        });
    done.expect("a healthy write");
}

fn apply(world: &mut World, model: &mut Vec<u8>, op: &Op) {
    let file = world.life.file.clone();
    match *op {
        Op::Read(offset, len) => {
            let mut buf = vec![0xEE; len as usize];
            let read = read(&file, offset, &mut buf);
            let end = (offset + len).min(model.len() as u64).max(offset) as usize;
            let expect = model.get(offset as usize..end).unwrap_or(&[]);
            assert!(buf[..read] == *expect, "read of {len} at {offset}");
        }
        Op::Write(offset, len, value) => {
            let data = bytes(value, len);
            write(&file, offset, &data);
            put(model, offset, &data);
        }
        Op::Append(len, value) => {
            let data = bytes(value, len.min(SIZE_MAX - model.len() as u64));
            assert_eq!(file.append(&data).expect("a healthy append"), model.len() as u64);
            model.extend(data);
        }
        Op::Truncate(size) => {
            file.truncate(size).expect("a healthy truncate");
            model.resize(size as usize, 0);
        }
        Op::Punch(offset, len) => {
            file.punch(offset, len).expect("a healthy punch");
            let size = model.len() as u64;
            model[offset.min(size) as usize..(offset + len).min(size) as usize].fill(0);
        }
        Op::Zero(offset, len, keep_size) => {
            file.zero(offset, len, keep_size).expect("a healthy zero");
            let size = model.len() as u64;
            model[offset.min(size) as usize..(offset + len).min(size) as usize].fill(0);
            if !keep_size && offset + len > size {
                model.resize((offset + len) as usize, 0);
            }
        }
        Op::Allocate(offset, len, keep_size) => {
            file.allocate(offset, len, keep_size).expect("a healthy allocate");
            if !keep_size && offset + len > model.len() as u64 {
                model.resize((offset + len) as usize, 0);
            }
        }
        Op::Copy(from, to, len) => {
            if from < to + len && to < from + len {
                return;
            }
            let copied = file.copy_range(&file, from, to, len).expect("a healthy copy");
            let end = (from + len).min(model.len() as u64).max(from);
            assert_eq!(copied, if from < model.len() as u64 { end - from } else { 0 });
            let data = model.get(from as usize..(from + copied) as usize).unwrap_or(&[]).to_vec();
            put(model, to, &data);
        }
        Op::SeekData(offset) | Op::SeekHole(offset) => check_seek(&file, model, offset),
        Op::Sync => file.sync(false, &file.sync_cursor()).expect("a healthy sync"),
        Op::Reopen => {
            drop(file);
            world.kill();
        }
        Op::AddMirror | Op::DropMirror(_) | Op::ReplaceTarget(_) | Op::MoveSegment(..) | Op::Resync => {
            move_bytes(world, &file, op);
        }
    }
}

/// Moves the bytes of a file, which stay the same.
fn move_bytes(world: &World, file: &Arc<File>, op: &Op) {
    let mover = &world.life.mover;
    match *op {
        Op::AddMirror if file.layout().is_none_or(|l| l.mirrors.len() < 3) => {
            let _ = mover.add_mirror(file, &world.options.placement);
        }
        Op::AddMirror => {}
        Op::DropMirror(mirror) => drop(mover.drop_mirror(file, mirror)),
        Op::ReplaceTarget(target) => {
            let id = policy::TargetId(target);
            if mover.replace_target(file, id, policy::layout::Reason::Drained(id)).is_ok() {
                let layout = file.layout().expect("only a file with a layout is moved");
                assert!(layout.objects().all(|(_, o)| o.target != id), "the target is empty");
            }
        }
        Op::MoveSegment(mirror, segment) => {
            drop(mover.move_segment(file, mirror, segment, &world.options.placement));
        }
        Op::Resync => {
            let Ok(_) = mover.resync(file) else { return };
            let all = file.layout().expect("only a file with a layout is resynced");
            assert!(all.mirrors.iter().all(|m| m.state == policy::layout::MirrorState::InSync));
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// [S-010]
    #[test]
    fn a_file_is_a_vector_of_bytes(options in options(), ops in prop::collection::vec(op(), 1..40)) {
        let mut world = World::new(options, 1);
        let mut model = Vec::new();
        for op in &ops {
            apply(&mut world, &mut model, op);
            check_all(&world.life.file, &model);
            prop_assert_eq!(world.orphans(), vec![], "orphans after {:?}", op);
        }
    }
}
