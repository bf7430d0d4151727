//! The view of the queues in virtual time, and the driver with a volume and a queue of its own.

mod nodes;

use super::queue_view::{Action, QueueView, Room};
use super::*;
use crate::request::{CheckReport, Incoming, RecoveryEvent};
use meta::state::SqliteState;
use parking_lot::Mutex as Lock;
use policy::schedule::just_in_time::{Ledger, Space};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};

const A: Ticket = (QueueKind::Local, 1);
const B: Ticket = (QueueKind::Local, 2);
const MB: u64 = 1_000_000;

/// Margin: 10 s and half of the transfer. Rate: 10 MB/s.
fn settings(by_queue: bool, when_full: WhenFull) -> Settings {
    let machine = Config { margin_min: Time::from_secs(10), early_max: Time::from_secs(60), ..Config::default() };
    Settings { machine, by_queue, when_full, keep_free: 0, poll: Duration::from_millis(20) }
}

fn s(secs: u64) -> Time {
    Time::from_secs(secs)
}

fn incoming(bytes: u64) -> Option<Incoming> {
    Some(Incoming { bytes, source: "http://h".into(), ..Incoming::default() })
}

fn says(job: u64, at_s: u64, kept_waiting: bool) -> BTreeMap<u64, Start> {
    [(job, Start { at_ms: Some(at_s * 1000), kept_waiting })].into()
}

fn view(by_queue: bool, when_full: WhenFull) -> QueueView {
    QueueView::new(&settings(by_queue, when_full), BTreeMap::new())
}

/// Measures the space as a volume of one node does, with this many bytes free.
fn decide(view: &mut QueueView, now: Time, free: Option<u64>) -> Vec<(Ticket, Action)> {
    let room = free.map_or(Room::Unknown, |free| Room::Space(Space { free, elsewhere: 0 }));
    let decided = view.decide(now, view.promises(), room);
    view.carry(now, decided)
}

/// [S-332] A decision counts once other nodes have it; jobs may change until then.
#[test]
fn between_a_decision_and_its_end_jobs_may_go_and_come() {
    let mut view = view(false, WhenFull::Wait);
    for ticket in [A, B] {
        view.expect(ticket);
        view.measured(s(0), ticket, incoming(60 * MB), false);
    }
    let room = || Room::Space(Space { free: 100 * MB, elsewhere: 0 });
    let decided = view.decide(s(0), view.promises(), room());
    assert_eq!((decided.promised(), decided.grants(), view.promised()), (60 * MB, true, 0));
    view.gone(s(0), A);
    assert_eq!(view.carry(s(0), decided), [], "B was told to wait, and A is gone");
    assert_eq!(view.promised(), 0, "nothing is promised to a job that is gone");
    // Another node was quicker: the decision is dropped, and made again with the promises of that node.
    view.estimates(s(31), QueueKind::Local, &BTreeMap::new());
    drop(view.decide(s(31), view.promises(), room()));
    let decided = view.decide(s(31), view.promises(), Room::Space(Space { free: 100 * MB, elsewhere: 50 * MB }));
    assert_eq!(view.carry(s(31), decided), []);
    let why = standing(&view, 31, B);
    assert!(why.contains("47.7 MiB are promised to other jobs (47.7 MiB of them by other nodes)"), "{why}");
    // A job adopted during the measurement counts as coming: its bytes were not there when the space was measured.
    let before = view.promises();
    view.adopt((QueueKind::Local, 3), 70 * MB);
    assert_eq!((before.promised(), view.promised()), (0, 70 * MB));
    let decided = view.decide(s(62), Ledger::new(WhenFull::Wait, 0), Room::Shut("the state is away".into()));
    assert_eq!((view.carry(s(62), decided), standing(&view, 62, B)), (vec![], "the state is away".to_string()));
    let decided = view.decide(s(63), view.promises(), Room::Space(Space { free: 130 * MB, elsewhere: 0 }));
    assert_eq!(view.carry(s(63), decided), [(B, Action::Begin)], "at once when it is back");
}

fn standing(view: &QueueView, now: u64, ticket: Ticket) -> String {
    view.told(s(now), ticket).expect("known").standing
}

#[test]
fn the_queue_decides_when_data_begin_to_come_and_rates_are_learnt() {
    let mut view = view(true, WhenFull::Wait);
    assert!(view.expect(A) && !view.expect(A), "asked twice");
    view.measured(s(0), A, incoming(200 * MB), false);
    assert_eq!(view.waiting(), [QueueKind::Local].into());
    // 200 MB at 10 MB/s are 20 s, the margin 20 s: 40 s before the start.
    view.estimates(s(0), QueueKind::Local, &says(1, 1000, false));
    assert_eq!(decide(&mut view, s(0), Some(u64::MAX)), []);
    assert!(standing(&view, 0, A).contains("begin to come in 16 min"), "{}", standing(&view, 0, A));
    // A job ahead ended early, and the queue corrects its estimate.
    view.estimates(s(100), QueueKind::Local, &says(1, 500, false));
    assert_eq!(decide(&mut view, s(459), Some(u64::MAX)), []);
    assert_eq!(decide(&mut view, s(460), Some(u64::MAX)), [(A, Action::Begin)]);
    view.arrived(s(470), A, Some(10_000));
    assert_eq!(view.new_rates(), [("http://h".to_string(), 20 * MB)]);
    assert_eq!(view.new_rates(), []);
    view.started(s(500), A);
    assert_eq!(standing(&view, 600, A), "its data came 30 s before its start");
    view.gone(s(700), A);
    assert_eq!((view.told(s(700), A), view.stats().in_time, view.stats().idle_total), (None, 1, s(30)));
    // The next begin is computed with the measured rate: 10 s of transfer and 15 s of margin.
    assert_eq!(view.due(&incoming(200 * MB).expect("some"), s(2000)), s(1975));
}

/// [S-311]
#[test]
fn a_limit_has_data_begin_earlier_and_is_named() {
    let mut view = view(true, WhenFull::Wait);
    view.expect(A);
    let limited_by = Some("--limit".to_string());
    let limited = Incoming { limited: [(2 * MB, 200 * MB)].into(), limited_by, ..incoming(200 * MB).expect("some") };
    view.measured(s(0), A, Some(limited), false);
    // 200 MB at 2 MB/s are 100 s, the margin 60 s; without the limit it would be 40 s before the start.
    view.estimates(s(0), QueueKind::Local, &says(1, 1000, false));
    assert_eq!(decide(&mut view, s(839), Some(u64::MAX)), []);
    let told = view.told(s(839), A).expect("known");
    assert_eq!((told.rate, told.limited_by.as_deref()), (2 * MB, Some("--limit")));
    assert!(told.standing.ends_with("they take about 1 min 40 s"), "{}", told.standing);
    assert_eq!(decide(&mut view, s(840), Some(u64::MAX)), [(A, Action::Begin)]);
    view.arrived(s(940), A, Some(100_000));
    assert_eq!(view.new_rates(), [], "the limit is not taken for the rate of the source");
}

#[test]
fn too_late_too_early_and_without_any_lead_are_told_apart() {
    let mut view = view(true, WhenFull::Wait);
    for ticket in [A, B] {
        view.expect(ticket);
        view.measured(s(0), ticket, incoming(100 * MB), false);
    }
    view.estimates(s(0), QueueKind::Local, &[says(1, 1000, false), says(2, 80, false)].concat_maps());
    assert_eq!(decide(&mut view, s(60), None), [(B, Action::Begin)]);
    view.arrived(s(65), B, None);
    // All jobs ahead of A were cancelled: A could start now if its data were there.
    view.estimates(s(70), QueueKind::Local, &says(1, 70, true));
    assert_eq!(decide(&mut view, s(70), None), [(A, Action::Begin)]);
    assert!(standing(&view, 71, A).contains("the job waits for them"));
    view.arrived(s(80), A, None);
    assert_eq!(standing(&view, 81, A), "its data came too late: the job waited 10 s for them");
    view.started(s(200), B);
    assert!(
        standing(&view, 200, B).contains("too early: 135 s before")
            || standing(&view, 200, B).contains("too early: 2 min")
    );
    let stats = view.stats();
    assert_eq!((stats.too_late, stats.too_late_total, stats.too_early, stats.no_lead), (1, s(10), 1, 0));
    // A job that could start at its submission counts as `no_lead`, not as `too_late`.
    let c = (QueueKind::Slurm, 3);
    view.expect(c);
    view.measured(s(300), c, incoming(100 * MB), false);
    view.estimates(s(300), QueueKind::Slurm, &says(3, 300, true));
    assert_eq!(decide(&mut view, s(300), None), [(c, Action::Begin)]);
    view.arrived(s(310), c, None);
    assert_eq!((view.stats().too_late, view.stats().no_lead), (1, 1));
}

trait ConcatMaps {
    fn concat_maps(self) -> BTreeMap<u64, Start>;
}

impl ConcatMaps for [BTreeMap<u64, Start>; 2] {
    fn concat_maps(self) -> BTreeMap<u64, Start> {
        self.into_iter().flatten().collect()
    }
}

#[test]
fn two_jobs_are_not_promised_the_same_space() {
    let mut view = view(false, WhenFull::Wait);
    for ticket in [A, B] {
        view.expect(ticket);
        view.measured(s(0), ticket, incoming(60 * MB), false);
    }
    assert_eq!(decide(&mut view, s(0), Some(100 * MB)), [(A, Action::Begin)]);
    let why = standing(&view, 1, B);
    assert!(why.contains("57.2 MiB needed, 95.4 MiB free, of which 57.2 MiB are promised"), "{why}");
    // A's data are there, and still occupy space; then A ends, and a user removes them.
    view.arrived(s(10), A, Some(6000));
    assert_eq!(decide(&mut view, s(40), Some(40 * MB)), []);
    view.gone(s(50), A);
    assert_eq!(decide(&mut view, s(80), Some(100 * MB)), [(B, Action::Begin)]);
    assert_eq!(view.stats().no_space, 2);
}

/// [S-335]
#[test]
fn what_has_landed_is_promised_no_more() {
    let mut view = view(false, WhenFull::Wait);
    view.expect(A);
    view.measured(s(0), A, incoming(60 * MB), false);
    view.comes_in(A, OWNER, wanted().into_iter().chain(wanted()).zip([50 * MB, 10 * MB]));
    assert!(view.coming().is_empty(), "it has not begun");
    assert_eq!(decide(&mut view, s(0), Some(100 * MB)), [(A, Action::Begin)]);
    let told = |view: &mut QueueView, at: u64, left: [Option<u64>; 2]| {
        for (ticket, mut parts) in view.coming() {
            parts.iter_mut().zip(left).for_each(|(part, left)| part.coming.told(s(at), left));
            view.comes(ticket, parts);
        }
        view.promised()
    };
    assert_eq!(told(&mut view, 1, [Some(30 * MB), None]), 60 * MB, "it may not be on the devices yet");
    assert_eq!(told(&mut view, 6, [Some(20 * MB), None]), 40 * MB);
    assert_eq!(told(&mut view, 11, [Some(0), Some(10 * MB)]), 30 * MB);
    assert_eq!(told(&mut view, 12, [None, Some(10 * MB)]), 60 * MB, "it begins anew");
    view.arrived(s(13), A, None);
    assert!(view.coming().is_empty() && view.promised() == 0);
    view.comes(A, Vec::new());
    assert_eq!(view.promised(), 0);
}

/// [S-064]
#[test]
fn space_that_becomes_free_is_used_at_the_next_look() {
    let mut view = view(false, WhenFull::Wait);
    for ticket in [A, B] {
        view.expect(ticket);
        view.measured(s(0), ticket, incoming(60 * MB), false);
    }
    assert_eq!(decide(&mut view, s(0), Some(100 * MB)), [(A, Action::Begin)]);
    assert_eq!(decide(&mut view, s(1), Some(110 * MB)), []);
    assert_eq!(view.stats().no_space, 1, "not enough: it does not ask");
    assert_eq!(decide(&mut view, s(2), Some(120 * MB)), [(B, Action::Begin)], "somebody removed files");
    let c = (QueueKind::Local, 3);
    view.expect(c);
    view.measured(s(3), c, incoming(60 * MB), false);
    assert_eq!(decide(&mut view, s(3), Some(120 * MB)), []);
    // B's stage-in is given up: its promised space is free.
    view.failed(s(4), B);
    assert_eq!(decide(&mut view, s(5), Some(120 * MB)), [(c, Action::Begin)]);
}

#[test]
fn who_may_not_wait_for_space_fails_with_the_numbers() {
    let mut view = view(false, WhenFull::Fail);
    view.expect(A);
    view.measured(s(0), A, incoming(600 * MB), false);
    let todo = decide(&mut view, s(0), Some(100 * MB));
    let [(A, Action::GiveUp(why))] = todo.as_slice() else { panic!("{todo:?}") };
    assert!(why.contains("572 MiB needed, 95.4 MiB free"), "{why}");
    assert_eq!(view.stats().refused, 1);
}

#[test]
fn what_is_not_known_comes_at_once_and_what_comes_already_is_not_begun_again() {
    let mut view = view(true, WhenFull::Wait);
    view.expect(A);
    view.measured(s(0), A, None, false);
    assert_eq!(decide(&mut view, s(0), Some(0)), [(A, Action::Begin)], "nothing is promised to it either");
    assert_eq!(view.told(s(0), A), None);
    view.expect(B);
    view.measured(s(0), B, incoming(60 * MB), true);
    assert_eq!(decide(&mut view, s(0), Some(100 * MB)), []);
    let c = (QueueKind::Local, 3);
    view.expect(c);
    view.measured(s(0), c, incoming(60 * MB), false);
    view.estimates(s(0), QueueKind::Local, &says(3, 0, false));
    assert_eq!(decide(&mut view, s(0), Some(100 * MB)), [], "B has its space, whoever promised it");
    view.failed(s(1), B);
    assert_eq!(decide(&mut view, s(31), Some(100 * MB)), [(c, Action::Begin)]);
}

/// A volume with this much free space, whose sources have 60 MB each. Those of the user [`SILENT`] do not answer before
/// the volume is full.
struct Disk(Lock<u64>);

const SILENT: u32 = 9;

impl Volume for Disk {
    fn mount_point(&self) -> Option<PathBuf> {
        Some("/m".into())
    }
    fn check_before_job(&self, _: Caller, _: &[PathBuf]) -> Result<CheckReport, String> {
        Ok(CheckReport::default())
    }
    fn verify_staged(&self, _: Caller, _: &[PathBuf]) -> Result<u64, String> {
        Ok(0)
    }
    fn forget_staging(&self, _: Caller, _: &Path) -> Result<(), String> {
        Ok(())
    }
    fn record_source(&self, _: Caller, path: &Path, _: &str) -> Result<PathBuf, String> {
        Ok(path.into())
    }
    fn recoveries(&self, _: Caller, _: &[PathBuf], _: u64, _: u64) -> Vec<RecoveryEvent> {
        Vec::new()
    }
    fn incoming(&self, owner: Caller, wanted: &[StageInput]) -> Option<Incoming> {
        while owner.uid == SILENT && *self.0.lock() > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        incoming(60 * MB * wanted.len() as u64)
    }
    fn free_bytes(&self) -> Option<u64> {
        Some(*self.0.lock())
    }
}

struct FixedQueue(Lock<Sender<(u64, Result<(), String>)>>);

impl WaitingJobs for FixedQueue {
    fn starts(&self) -> Option<BTreeMap<u64, Start>> {
        Some(BTreeMap::new())
    }
    fn begin(&self, job: u64) {
        self.0.lock().send((job, Ok(()))).expect("the test listens");
    }
    fn give_up(&self, job: u64, cause: String) {
        self.0.lock().send((job, Err(cause))).expect("the test listens");
    }
}

type Answer = (u64, Result<(), String>);

fn driver(free: u64, state: &Arc<dyn State>) -> (Arrivals, Receiver<Answer>) {
    let (arrivals, told) = driver_of(Arc::new(Disk(Lock::new(free))), state, None);
    arrivals.taken_up();
    (arrivals, told)
}

fn driver_of(disk: Arc<Disk>, state: &Arc<dyn State>, peers: Option<Arc<dyn Peers>>) -> (Arrivals, Receiver<Answer>) {
    let mut settings = settings(false, WhenFull::Wait);
    settings.machine.retry_after = Time::from_millis(30);
    let arrivals = Arrivals::start(settings, disk, state.clone(), peers, &crate::threads(1)).expect("threads");
    let (tell, told) = channel();
    arrivals.attach(QueueKind::Local, Arc::new(FixedQueue(Lock::new(tell))));
    (arrivals, told)
}

const OWNER: Caller = Caller { uid: 1, gid: 1 };

fn wanted() -> Vec<StageInput> {
    let (uris, path) = (vec!["http://h/f".into()], "/m/f".into());
    vec![StageInput { uris, path, recursive: false, limit: None, foreign: false }]
}

#[test]
fn the_driver_lets_one_begin_after_the_other_and_remembers_rates() {
    let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().expect("state"));
    let (owner, wanted) = (OWNER, wanted());
    let (arrivals, told) = driver(100 * MB, &state);
    arrivals.ask(A, owner, wanted.clone());
    assert_eq!(told.recv(), Ok((1, Ok(()))));
    arrivals.ask(B, owner, wanted.clone());
    arrivals.arrived(A, Some(3000));
    assert_eq!(told.recv(), Ok((2, Ok(()))), "what A was promised is free again, for this volume says so");
    while state.records(RATES).expect("records").is_empty() {
        std::thread::yield_now();
    }
    arrivals.stop();
    // The measured rate of 20 MB/s is kept for the next daemon.
    let (arrivals, told) = driver(100 * MB, &state);
    arrivals.ask(A, owner, wanted);
    assert_eq!(told.recv(), Ok((1, Ok(()))));
    assert_eq!(arrivals.told(A).expect("known").rate, 20 * MB);
}

/// [S-088]
#[test]
fn sources_that_do_not_answer_delay_no_other_user_and_their_own_jobs_for_a_while() {
    let state: Arc<dyn State> = Arc::new(SqliteState::in_memory().expect("state"));
    let disk = Arc::new(Disk(Lock::new(1000 * MB)));
    let (arrivals, told) = driver_of(disk.clone(), &state, None);
    arrivals.shared.threads.limit(2 * ASKERS_MAX);
    arrivals.taken_up();
    let silent = 1..=(ASKERS_MAX as u64 + 1);
    for job in silent.clone() {
        arrivals.ask((QueueKind::Local, job), Caller { uid: SILENT, gid: 1 }, wanted());
    }
    arrivals.ask((QueueKind::Local, 100), OWNER, wanted());
    assert_eq!(told.recv_timeout(Duration::from_secs(60)), Ok((100, Ok(()))));
    // The time of the others is over.
    arrivals.shared.flags.lock().sizes_until.values_mut().for_each(|until| *until = Instant::now());
    arrivals.shared.look();
    let next = || told.recv_timeout(Duration::from_secs(60)).expect("it begins").0;
    let begun: BTreeSet<u64> = silent.clone().map(|_| next()).collect();
    assert_eq!(begun, silent.collect::<BTreeSet<u64>>(), "their sizes are unknown");
    *disk.0.lock() = 0;
}
