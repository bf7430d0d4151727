//! Probes of many targets: at the same time, by a few threads, and by one node for others.

use super::*;
use crate::target::table::Others;
use policy::cluster::idle::Share;
use std::sync::Barrier;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

/// A medium whose probes wait for each other, or forever.
struct Meeting(Option<Arc<Barrier>>, Mutex<Receiver<()>>);

impl Medium for Meeting {
    fn create(&self, _: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        Err(Errno::ROFS)
    }
    fn open(&self, _: ObjectId) -> Result<Arc<dyn Handle>, Errno> {
        Err(Errno::NOENT)
    }
    fn remove(&self, _: ObjectId) -> Result<(), Errno> {
        Ok(())
    }
    fn sync_names(&self) -> Result<(), Errno> {
        Ok(())
    }
    fn list(&self) -> Result<Vec<ObjectId>, Errno> {
        Ok(Vec::new())
    }
    fn probe(&self) -> Result<(), Errno> {
        match &self.0 {
            Some(barrier) => drop(barrier.wait()),
            None => drop(self.1.lock().unwrap().recv()),
        }
        Ok(())
    }
    fn space(&self) -> Result<Space, Errno> {
        Ok(Space::default())
    }
}

/// As many targets as a volume takes. Those in `hung` do not answer; the others wait for each other, so they answer
/// only if all are probed at the same time.
fn many_targets(hung: &[u16], deadline: Duration) -> (Arc<Targets>, Vec<Sender<()>>) {
    const COUNT: u16 = crate::target::TARGETS_MAX as u16;
    let targets = threads_within(deadline, Limits::default(), 0);
    let meet = Arc::new(Barrier::new(usize::from(COUNT) - hung.len()));
    let mut releases = Vec::new();
    for id in 0..COUNT {
        let (release, gate) = channel();
        releases.push(release);
        let barrier = (!hung.contains(&id)).then(|| meet.clone());
        targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(Meeting(barrier, Mutex::new(gate)))));
    }
    (targets, releases)
}

/// [S-037]
#[test]
fn all_targets_are_probed_at_the_same_time_and_hung_ones_cost_one_deadline() {
    let deadline = 10 * DEADLINE;
    let (targets, _releases) = many_targets(&[], deadline);
    let began = Instant::now();
    assert_eq!(targets.probe_all(), [], "they met at the barrier, so they ran together");
    assert!(began.elapsed() < deadline, "nobody was waited for");
    let hung = [3, 77, 200, 300, 500, 700, 1000, 1023];
    let (targets, _releases) = many_targets(&hung, deadline);
    let began = Instant::now();
    assert_eq!(targets.probe_all(), hung.map(TargetId));
    let took = began.elapsed();
    assert!(took >= deadline, "an answer is waited for");
    assert!(
        took < deadline * hung.len() as u32 / 2,
        "the deadlines pass at the same time, not one after the other: {took:?}"
    );
}

/// Idle targets that are probed all the time, each by its medium.
fn idle_targets(deadline: Duration, media: impl Iterator<Item = Arc<dyn Medium>>) -> Arc<Targets> {
    let targets = Targets::new(TargetsOptions {
        execution: Execution::Threads,
        limits: Limits { deadline, ..Limits::default() },
        health: Config {
            routine_interval: Some(Time::from_millis(50)),
            probe_interval: Time::from_millis(50),
            probe_deadline: crate::target::clock::time(deadline),
            ..Config::default()
        },
        slots: Arc::new(InlineSlots::new(0)),
    });
    for (id, medium) in (0..).zip(media) {
        targets.add(TargetSpec::new(TargetId(id), 0, medium));
    }
    targets
}

/// Waits until each of these was checked `times` times more. Returns whether all stayed ok.
fn looked_at(targets: &[Arc<Target>], times: u64) -> bool {
    let until: Vec<_> = targets.iter().map(|target| target.counters().ops.get() + times).collect();
    let is_behind = || targets.iter().zip(&until).any(|(target, until)| target.counters().ops.get() < *until);
    let are_ok = || targets.iter().all(|target| target.state() == State::Ok);
    while is_behind() && are_ok() {
        std::thread::yield_now();
    }
    are_ok()
}

#[test]
fn a_thousand_idle_targets_are_looked_at_by_a_few_threads() {
    let media = (0..1000).map(|at| Arc::new(MemoryMedium::new(at)) as Arc<dyn Medium>);
    let targets = idle_targets(Duration::from_secs(600), media);
    let all = targets.all();
    assert!(looked_at(&all, 5));
    assert!(targets.lookers() <= 4, "{} threads", targets.lookers());
    let own: usize = all.iter().map(|target| target.core.pool.census().0).sum();
    assert_eq!(own, 0, "threads of targets that nobody uses");
}

/// [S-296]
#[test]
fn targets_whose_probes_hang_keep_no_other_from_being_probed() {
    // Few hung targets, and more than the limit of threads. The first four threads hang, and others take their place.
    for (hang, threads) in [(6, ..=10), (40, ..=32)] {
        let is_hung = |at: usize| at < hang;
        let (release, mut gates): (Vec<_>, Vec<_>) = (0..hang).map(|_| channel()).unzip();
        let media = (0..200).map(|at| match is_hung(at) {
            true => Arc::new(Meeting(None, Mutex::new(gates.pop().unwrap()))) as Arc<dyn Medium>,
            false => Arc::new(MemoryMedium::new(at as u64)),
        });
        let targets = idle_targets(3 * DEADLINE, media);
        let (hung, well): (Vec<_>, Vec<_>) = targets.all().into_iter().partition(|t| is_hung(t.id().0.into()));
        assert!(looked_at(&well, 20), "while others hang and are not failed yet");
        while hung.iter().any(|target| target.state() != State::Failed) {
            assert!(looked_at(&well, 1));
        }
        assert!(looked_at(&well, 20), "and when they are");
        assert!(threads.contains(&targets.lookers()), "{} threads, {hang} hang", targets.lookers());
        drop(release);
    }
}

/// Other nodes that check some targets.
struct Lookers(Share, Mutex<Vec<(TargetId, Space)>>);

impl Others for Lookers {
    fn share(&self) -> Share {
        self.0
    }

    fn tell(&self, seen: &[(TargetId, Space)]) {
        self.1.lock().unwrap().extend_from_slice(seen);
    }
}

#[test]
fn an_idle_target_is_looked_at_by_one_who_tells_the_others() {
    let node = |share| {
        let targets = Targets::new(TargetsOptions::inline());
        let media: Vec<_> = (0..40).map(MemoryMedium::new).collect();
        for (id, medium) in (0..).zip(&media) {
            targets.add(TargetSpec::new(TargetId(id), 0, Arc::new(medium.clone())));
        }
        let lookers = Arc::new(Lookers(share, Mutex::default()));
        targets.share_looks(lookers.clone());
        (targets, media, lookers)
    };
    let (looker, looker_media, told) = node(Share::Part(3));
    let (other, media, silent) = node(Share::None);
    looker_media.iter().chain(&media).for_each(|medium| medium.set_capacity_bytes(8192));
    looker.advance(Duration::from_secs(60));
    looker.measure(true);
    looker.tell_space();
    let seen = std::mem::take(&mut *told.1.lock().unwrap());
    let free: Vec<_> = seen.iter().map(|(id, space)| (id.0, space.free_bytes)).collect();
    assert_eq!(free, [(3, 8192), (19, 8192), (35, 8192)]);

    let free = |targets: &Targets, id| targets.get(TargetId(id)).unwrap().space().free_bytes;
    other.advance(Duration::from_secs(60));
    other.measure(true);
    other.tell_space();
    assert!(silent.1.lock().unwrap().is_empty() && free(&other, 3) > 8192, "it neither looks nor tells");
    seen.iter().for_each(|(id, space)| other.hear_space(*id, space.total_bytes, space.free_bytes));
    assert_eq!((free(&other, 3), free(&other, 4) > 8192), (8192, true));
    other.get(TargetId(5)).unwrap().run(|medium| medium.list()).unwrap();
    other.measure(false);
    assert_eq!(free(&other, 5), 8192, "what it uses it looks at");
    other.advance(Duration::from_secs(130));
    other.measure(true);
    assert_eq!(free(&other, 4), 8192, "and what nobody told it of for long");
}
