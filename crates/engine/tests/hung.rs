//! Files on targets whose writes hang: callers are answered, files go on, and nothing lands late.

mod gate;
#[allow(dead_code)]
mod interposed;

use engine::file::{File, InlineRead, InlineWrite, Pool};
use gate::Gate;
use interposed::{Interposed, Op};
use meta::stub::memory::MemoryStub;
use object::target::{
    Execution, InlineSlots, Limits, MemoryMedium, OnDeadline, Order, OrderError, State, TargetSpec, Targets,
    TargetsOptions,
};
use parking_lot::Mutex;
use policy::layout::Placement;
use policy::{TargetId, Time};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A file of one object on one target behind a gate of its own.
fn file() -> (Arc<File>, Arc<Targets>, Arc<Gate>) {
    file_behind(Gate::before(Op::Write))
}

fn file_behind(gate: Gate) -> (Arc<File>, Arc<Targets>, Arc<Gate>) {
    let gate = Arc::new(gate);
    let targets = Targets::new(TargetsOptions {
        execution: Execution::Threads,
        limits: Limits { deadline: Duration::from_millis(300), ..Limits::default() },
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
