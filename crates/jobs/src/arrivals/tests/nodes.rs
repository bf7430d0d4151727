//! Several drivers over one state store, as on several nodes.

use super::*;
use meta::state::PROMISED;
use policy::cluster::Node;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

struct Peer {
    own: &'static str,
    number: AtomicU32,
    has_lease: AtomicBool,
}

impl Peer {
    fn new(own: &'static str, number: u32) -> Arc<Peer> {
        Arc::new(Peer { own, number: AtomicU32::new(number), has_lease: AtomicBool::new(true) })
    }
}

impl Peers for Peer {
    fn own(&self) -> String {
        self.own.into()
    }
    fn number(&self) -> Option<Node> {
        self.has_lease.load(Ordering::Acquire).then(|| Node(self.number.load(Ordering::Acquire)))
    }
    fn is_over(&self, _: Node) -> bool {
        false
    }
}

fn store() -> Arc<dyn State> {
    Arc::new(SqliteState::in_memory().expect("state"))
}

/// The published promises.
fn known(state: &Arc<dyn State>) -> String {
    let read = state.record_get(PROMISED, "nodes").expect("read").unwrap_or_default();
    let text: serde_json::Value = serde_json::from_slice(&read).unwrap_or_default();
    text["nodes"].to_string()
}

fn until(what: impl Fn() -> bool) {
    let began = Instant::now();
    while !what() {
        assert!(began.elapsed() < Duration::from_secs(60), "it never comes");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn standing(arrivals: &Arrivals, ticket: Ticket) -> String {
    arrivals.told(ticket).map(|told| told.standing).unwrap_or_default()
}

/// [S-332]
#[test]
fn of_jobs_of_several_nodes_that_ask_in_the_same_moment_as_many_begin_as_there_is_room_for() {
    let (state, disk) = (store(), Arc::new(Disk(Lock::new(150 * MB))));
    let nodes: Vec<_> = [("a", 1), ("b", 2), ("c", 3)]
        .into_iter()
        .map(|(own, number)| driver_of(disk.clone(), &state, Some(Peer::new(own, number))))
        .collect();
    for (arrivals, _) in &nodes {
        arrivals.ask(A, OWNER, wanted());
        arrivals.ask(B, OWNER, wanted());
    }
    nodes.iter().for_each(|(arrivals, _)| arrivals.taken_up());
    until(|| {
        nodes.iter().flat_map(|(n, _)| [A, B].map(|t| standing(n, t))).filter(|s| s.contains("no space")).count() == 4
    });
    let begun: Vec<(usize, u64)> =
        nodes.iter().enumerate().flat_map(|(n, (_, told))| told.try_iter().map(move |(job, _)| (n, job))).collect();
    assert_eq!(begun.len(), 2, "two times 60 of 150 MB: {begun:?}");
    let waiting = nodes.iter().flat_map(|(node, _)| [A, B].map(|ticket| standing(node, ticket)));
    let waiting: Vec<String> = waiting.filter(|text| text.contains("no space")).collect();
    assert!(waiting.iter().all(|text| text.contains("114 MiB are promised to other jobs")), "{waiting:?}");
    assert!(waiting.iter().any(|text| text.contains("by other nodes)")), "{waiting:?}");
    // The data of one job are there and take space. Then a user removes them.
    let (n, job) = begun[0];
    *disk.0.lock() -= 60 * MB;
    nodes[n].0.arrived((QueueKind::Local, job), None);
    until(|| known(&state).matches(&(60 * MB).to_string()).count() == 1);
    *disk.0.lock() += 60 * MB;
    until(|| nodes.iter().any(|(_, told)| told.try_recv().is_ok()));
}

/// [S-333]
#[test]
fn a_daemon_that_is_started_anew_keeps_what_it_promised_and_writes_nothing_before_it_knows() {
    let (state, disk) = (store(), Arc::new(Disk(Lock::new(100 * MB))));
    let (first, told) = driver_of(disk.clone(), &state, Some(Peer::new("a", 1)));
    first.taken_up();
    first.ask(A, OWNER, wanted());
    assert_eq!(told.recv(), Ok((1, Ok(()))));
    let promised = first.told(A).expect("known").bytes;
    drop(first);
    let (again, _) = driver_of(disk.clone(), &state, Some(Peer::new("a", 3)));
    let (other, told) = driver_of(disk, &state, Some(Peer::new("b", 2)));
    other.taken_up();
    other.ask(B, OWNER, wanted());
    until(|| standing(&other, B).contains("no space"));
    assert!(known(&state).contains("\"a\":[1,60000000]"), "{}", known(&state));
    again.adopt(A, OWNER, wanted(), promised);
    assert_eq!(again.promised(), 60 * MB, "before its source is asked");
    again.taken_up();
    until(|| known(&state) == r#"{"a":[3,60000000]}"#);
    assert!(told.try_recv().is_err(), "the other waits all the while");
    again.failed(A);
    until(|| told.try_recv().is_ok());
    assert!(!known(&state).contains("\"a\""), "{}", known(&state));
}

/// [S-334]
#[test]
fn a_node_without_its_lease_promises_nothing_and_says_so() {
    let (state, peer) = (store(), Peer::new("a", 1));
    peer.has_lease.store(false, Ordering::Release);
    let (arrivals, told) = driver_of(Arc::new(Disk(Lock::new(100 * MB))), &state, Some(peer.clone()));
    arrivals.taken_up();
    arrivals.ask(A, OWNER, wanted());
    until(|| standing(&arrivals, A).contains("no lease now"));
    assert!(told.try_recv().is_err() && known(&state) == "null");
    peer.has_lease.store(true, Ordering::Release);
    assert_eq!(told.recv(), Ok((1, Ok(()))), "without another word");
}
