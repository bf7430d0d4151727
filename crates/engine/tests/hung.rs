//! Files on targets whose writes hang: callers are answered, files go on, and nothing lands late.

mod gate;
#[allow(dead_code)]
mod interposed;

use engine::file::{File, InlineRead, InlineWrite, Pool};
use engine::mover::{Mover, Step};
use gate::Gate;
use interposed::{Interposed, Op};
use meta::state::SqliteState;
use meta::stub::memory::MemoryStub;
use object::target::{
    Execution, InlineSlots, Limits, MemoryMedium, OnDeadline, Order, OrderError, State, TargetSpec, Targets,
    TargetsOptions,
};
use parking_lot::Mutex;
use policy::layout::{Placement, Reason};
use policy::{TargetId, Time};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// A file of one object on one target behind a gate of its own.
fn file() -> (Arc<File>, Arc<Targets>, Arc<Gate>) {
    file_behind(Gate::before(Op::Write))
}

fn file_behind(gate: Gate) -> (Arc<File>, Arc<Targets>, Arc<Gate>) {
    file_within(gate, Duration::from_millis(300))
}

fn file_within(gate: Gate, deadline: Duration) -> (Arc<File>, Arc<Targets>, Arc<Gate>) {
    let gate = Arc::new(gate);
    let targets = Targets::new(TargetsOptions {
        execution: Execution::Threads,
        limits: Limits { deadline, ..Limits::default() },
        slots: Arc::new(InlineSlots::new(2)),
        health: Default::default(),
    });
    let medium = Interposed::new(Arc::new(MemoryMedium::new(1)), gate.clone());
    targets.add(TargetSpec::new(TargetId(0), 0, Arc::new(medium)));
    let next = AtomicU64::new(1);
    let pool = Pool {
        clock: Box::new(|| Time(1_000_000_000)),
        ..Pool::new(
            targets.clone(),
            move || next.fetch_add(1, Ordering::Relaxed),
            Placement {
                stripe_size: 4096,
                stripe_count: 1,
                single_bytes_max: 4096,
                segment_bytes: 0,
                mirrors: 1,
                tier: None,
            },
        )
    };
    let file = File::open(Arc::new(MemoryStub::new()), Arc::new(pool)).unwrap();
    file.write(0, &[1; 8192]).unwrap();
    (file, targets, gate)
}

fn request() -> (Arc<dyn OnDeadline>, Receiver<()>) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    (Arc::new(move || tell.lock().send(()).unwrap()), told)
}

#[test]
fn a_write_on_the_callers_thread_that_hangs_is_answered_and_the_file_goes_on() {
    let (file, targets, gate) = file();
    gate.close();
    let (answer, answered) = request();
    let writer = file.clone();
    let hung = std::thread::spawn(move || writer.write_inline(4096, &[2; 4096], answer));
    answered.recv().expect("the watchdog answers while the write hangs");
    file.truncate(2048).expect("nobody waits for the write that hangs");
    gate.open();
    assert!(matches!(hung.join().unwrap(), InlineWrite::Taken));
    assert!(answered.try_recv().is_err(), "once");
    let mut buf = [0; 4096];
    assert_eq!(file.read(0, &mut buf).unwrap(), 2048);
    assert!(buf[..2048] == [1; 2048]);
    targets.stop();
}

#[test]
fn a_request_on_the_callers_thread_that_does_not_hang_is_over_when_it_returns() {
    let (file, targets, _) = file();
    let (answer, answered) = request();
    assert!(matches!(file.write_inline(4096, &[2; 8192], answer.clone()), InlineWrite::Done(Ok(()))));
    assert_eq!(file.size(), 12288);
    let mut got = [0; 9000];
    assert_eq!(file.read_inline(4096, &mut got, &answer), InlineRead::Done(8192), "cut at the end of the file");
    assert!(got[..8192] == [2; 8192]);
    targets.operate(TargetId(0), Order::Fail).unwrap();
    let refused = file.write_inline(0, &[3; 10], answer);
    assert!(matches!(&refused, InlineWrite::Done(Err(e)) if e.errno() == Errno::IO), "{refused:?}");
    assert!(answered.try_recv().is_err(), "nothing hung");
    assert_eq!(targets.get(TargetId(0)).unwrap().state(), State::Failed);
    targets.stop();
}

#[test]
fn a_read_on_the_callers_thread_that_hangs_is_answered_once() {
    let (file, targets, gate) = file_behind(Gate::before(Op::Read));
    gate.close();
    let (answer, answered) = request();
    let reader = file.clone();
    let hung = std::thread::spawn(move || reader.read_inline(0, &mut [0; 4096], &answer));
    answered.recv().expect("the watchdog answers while the read hangs");
    file.truncate(2048).expect("a read holds nothing");
    gate.open();
    assert_eq!(hung.join().unwrap(), InlineRead::Taken);
    assert!(answered.try_recv().is_err(), "once");
    targets.stop();
}

#[test]
fn a_late_write_changes_nothing_after_a_restore() {
    let (file, targets, gate) = file();
    gate.close();
    file.write(0, &[2; 4096]).expect_err("it hangs");
    targets.operate(TargetId(0), Order::Fail).unwrap();
    let refused = targets.operate(TargetId(0), Order::Restore).expect_err("the write may still land");
    assert!(matches!(refused, OrderError::Hanging { hanging: 1, .. }), "{refused}");
    gate.open();
    while let Err(refused) = targets.operate(TargetId(0), Order::Restore) {
        assert!(matches!(refused, OrderError::Hanging { .. }), "{refused}");
    }
    file.write(0, &[3; 4096]).unwrap();
    let mut buf = [0; 4096];
    file.read(0, &mut buf).unwrap();
    assert!(buf == [3; 4096]);
    targets.stop();
}

#[test]
fn a_write_on_the_callers_thread_that_hangs_keeps_its_target_from_being_restored() {
    let (file, targets, gate) = file();
    gate.close();
    let (answer, answered) = request();
    let hung = std::thread::spawn(move || file.write_inline(0, &[2; 4096], answer));
    answered.recv().expect("the watchdog answers");
    targets.operate(TargetId(0), Order::Fail).unwrap();
    let refused = targets.operate(TargetId(0), Order::Restore);
    assert!(matches!(refused, Err(OrderError::Hanging { .. })), "{refused:?}");
    gate.open();
    assert!(matches!(hung.join().unwrap(), InlineWrite::Taken));
    assert_eq!(targets.operate(TargetId(0), Order::Restore), Ok(State::Ok));
    targets.stop();
}

/// [S-140]
#[test]
fn a_write_that_runs_while_written_ranges_are_copied_is_in_the_copy() {
    let (file, targets, gate) = file_within(Gate::before(Op::Write), Duration::from_secs(60));
    targets.add(TargetSpec::new(TargetId(1), 0, Arc::new(MemoryMedium::new(2))));
    file.write(0, &vec![1u8; 16 << 20]).unwrap();
    let (copied, late) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(None)));
    let (chunks, hung, writer, closed) = (copied.clone(), late.clone(), file.clone(), gate.clone());
    let hook = move |step: Step| {
        if step == Step::Created {
            // More than is copied while writers are locked out, and a write that has yet to land.
            writer.write(0, &vec![2u8; 9 << 20])?;
            closed.close();
            let writer = writer.clone();
            *hung.lock() = Some(std::thread::spawn(move || writer.write(12 << 20, &[3; 4096])));
            closed.wait_for(1);
        }
        chunks.fetch_add(usize::from(step == Step::ChunkCopied), Ordering::AcqRel);
        Ok(())
    };
    // It lands after a second copy of its range, if there is one within a second.
    std::thread::spawn(move || {
        let mut begun = None;
        while copied.load(Ordering::Acquire) < 26 && begun.is_none_or(|at: Instant| at.elapsed().as_secs() < 1) {
            begun = begun.or_else(|| (copied.load(Ordering::Acquire) >= 16).then(Instant::now));
            std::thread::sleep(Duration::from_millis(1));
        }
        gate.open();
    });
    let state = Arc::new(SqliteState::in_memory().unwrap());
    let mover = Mover::new(file.pool().clone(), state, None).with_crash_hook(Arc::new(hook));
    mover.replace_target(&file, TargetId(0), Reason::Drained(TargetId(0))).unwrap();
    late.lock().take().expect("it began").join().unwrap().unwrap();
    let mut there = [0; 4096];
    file.read(12 << 20, &mut there).unwrap();
    assert!(there == [3; 4096], "an acknowledged write is lost");
    targets.stop();
}
