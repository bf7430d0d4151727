//! Rules of the table one by one. The exploration of `node` looks at them together.

use super::*;

/// What explorations of nodes see and change.
impl Table {
    /// The session of a member ends.
    pub(crate) fn lapse(&mut self, node: Node) {
        if let Some(session) = self.members.get_mut(&node) {
            session.until = Time(1);
        }
    }

    pub(crate) fn forget(&mut self, node: Node) {
        self.members.remove(&node);
    }

    pub(crate) fn forget_released(&mut self) {
        self.released.clear();
    }

    /// Treats a generation as the newest.
    pub(crate) fn set_newest(&mut self, key: u64, generation: u64) {
        match self.entries.get_mut(&key) {
            Some(entry) => (entry.generation, entry.newest) = (generation, true),
            None => drop(self.released.insert(key, Released { at: Time::ZERO, newest: Some(generation) })),
        }
    }

    /// Treats all holds as shown.
    pub(crate) fn be_sure(&mut self) {
        self.unsure = Time::ZERO;
    }

    /// Treats registered holds as if they had been shown.
    pub(crate) fn trust_reclaimed(&mut self) {
        self.entries.values_mut().for_each(|entry| entry.reclaimed = false);
    }

    pub(crate) fn run(&self) -> Run {
        self.run
    }

    /// Whether a file must be settled.
    pub(crate) fn is_unsettled(&self, key: u64) -> bool {
        self.entry(key).unsettled
    }

    /// Whether the entry shows one of these nodes as a writer.
    pub(crate) fn has_writer(&self, key: u64, nodes: &BTreeSet<Node>) -> bool {
        let writes = |hold: &Hold| matches!(hold.mode, Mode::Write | Mode::Exclusive);
        let entry = self.entries.get(&key);
        entry.is_some_and(|entry| entry.holds.iter().any(|(node, (hold, _))| nodes.contains(node) && writes(hold)))
    }
}

const NOW: Time = Time(100);
const KEY: u64 = 7;

fn caller(node: u32) -> Caller {
    Caller { node: Node(node), run: Run(1), link: 1 }
}

/// A table that nodes 1 to `nodes` have opened, of a volume that was checked.
fn opened(nodes: u32) -> Table {
    let mut table = Table::new(Time(50));
    for node in 1..=nodes {
        table.serve(NOW, caller(node), &Request::Begin);
    }
    for node in 1..=nodes {
        assert_eq!(admit(&mut table, node, 1, true), Answer::Unregistered);
        table.serve(NOW, caller(node), &Request::Register { not_after: NOW });
    }
    assert_eq!(admit(&mut table, 1, 1, true), Answer::Closed);
    let members = (1..=nodes).map(Node).collect();
    assert_eq!(table.serve(NOW, caller(1), &Request::Open { members }), Answer::Done);
    table.serve(NOW, caller(1), &Request::Trust);
    table
}

fn admit(table: &mut Table, node: u32, number: u64, writes: bool) -> Answer {
    table.serve(NOW, caller(node), &Request::Admit { key: KEY, number, writes })
}

fn claim(table: &mut Table, node: u32, number: u64, generation: u64) -> Answer {
    table.serve(NOW, caller(node), &Request::Claim { key: KEY, number, generation })
}

fn granted(mode: Mode) -> Answer {
    Answer::Granted { mode, generation: 0, newest: false, unheld: false }
}

fn recall(node: u32, number: u64, mode: Mode) -> Answer {
    Answer::Recall { nodes: [(Node(node), number)].into(), mode }
}

#[test]
fn readers_share_a_cache_and_a_writer_beside_others_has_none() {
    let mut table = opened(3);
    assert_eq!(admit(&mut table, 1, 1, false), granted(Mode::Read));
    assert_eq!(admit(&mut table, 2, 1, false), granted(Mode::Read));
    assert_eq!(
        admit(&mut table, 3, 1, true),
        Answer::Recall { nodes: [(Node(1), 1), (Node(2), 1)].into(), mode: Mode::Write }
    );
    for node in [1, 2] {
        let lower = Request::Lower { key: KEY, number: 1, mode: Some(Mode::Write), generation: None };
        assert_eq!(table.serve(NOW, caller(node), &lower), Answer::Done);
    }
    assert_eq!(admit(&mut table, 3, 1, true), granted(Mode::Write));
    for node in [1, 2, 3] {
        let lower = Request::Lower { key: KEY, number: 1, mode: None, generation: None };
        table.serve(NOW, caller(node), &lower);
    }
    assert!(table.is_empty(), "an entry without holders disappears");
    assert_eq!(admit(&mut table, 3, 2, true), granted(Mode::Exclusive));
    assert_eq!(admit(&mut table, 1, 2, false), recall(3, 2, Mode::Write));
}

#[test]
fn a_claim_admits_no_other_and_ends_with_its_generation() {
    let mut table = opened(2);
    admit(&mut table, 1, 1, true);
    assert_eq!(claim(&mut table, 2, 1, 8), recall(1, 1, Mode::Open));
    assert_eq!(admit(&mut table, 1, 2, true), Answer::Claimed(Node(2)));
    assert_eq!(claim(&mut table, 1, 2, 8), Answer::Claimed(Node(2)));
    table.serve(NOW, caller(1), &Request::Lower { key: KEY, number: 1, mode: Some(Mode::Open), generation: None });
    assert_eq!(claim(&mut table, 2, 1, 8), Answer::Drained { unsettled: false });
    let finish = Request::Finish { key: KEY, number: 1, generation: 8, settled: true, keeps: false };
    assert_eq!(table.serve(NOW, caller(2), &finish), Answer::Done);
    assert_eq!(
        admit(&mut table, 1, 2, true),
        Answer::Granted { mode: Mode::Exclusive, generation: 8, newest: false, unheld: false }
    );
}

#[test]
fn a_writer_or_a_claim_of_a_node_that_is_over_leaves_the_file_unsettled() {
    for claims in [false, true] {
        let mut table = opened(2);
        if claims {
            claim(&mut table, 1, 1, 8)
        } else {
            admit(&mut table, 1, 1, true)
        };
        table.serve(NOW, caller(2), &Request::Over { node: Node(1) });
        assert_eq!(admit(&mut table, 2, 1, false), Answer::Unsettled);
        assert_eq!(table.len(), 1, "the debt stays");
        assert_eq!(claim(&mut table, 2, 1, 9), Answer::Drained { unsettled: true });
        let finish = Request::Finish { key: KEY, number: 1, generation: 9, settled: true, keeps: true };
        assert_eq!(
            table.serve(NOW, caller(2), &finish),
            Answer::Granted { mode: Mode::Exclusive, generation: 9, newest: false, unheld: false }
        );
    }
    let mut table = opened(2);
    admit(&mut table, 1, 1, false);
    table.serve(NOW, caller(2), &Request::Over { node: Node(1) });
    table.serve(NOW, caller(2), &Request::Sweep { part: KEY % PARTS });
    assert!(table.is_empty(), "a reader leaves nothing");
}

#[test]
fn without_the_session_of_a_member_nothing_is_cached_or_claimed() {
    let mut table = opened(2);
    admit(&mut table, 1, 1, true);
    table.lapse(Node(1));
    assert_eq!(claim(&mut table, 2, 1, 8), Answer::Lapsed(Node(1)));
    assert_eq!(claim(&mut table, 2, 1, 0), Answer::Lapsed(Node(1)));
    let beside = Answer::Granted { mode: Mode::Write, generation: 0, newest: false, unheld: false };
    assert_eq!(admit(&mut table, 2, 1, true), beside, "the cache of the other ended with its session");
    let renew = Request::Renew { not_after: NOW };
    assert_eq!(table.serve(NOW, caller(1), &renew), Answer::Unregistered, "it registers its holds first");
    let late = Request::Register { not_after: Time(99) };
    assert_eq!(table.serve(NOW, caller(1), &late), Answer::Unregistered);
}

#[test]
fn requests_of_an_earlier_connection_and_of_another_run_do_nothing() {
    let mut table = opened(2);
    admit(&mut table, 1, 1, true);
    let again = Caller { link: 2, ..caller(1) };
    table.serve(NOW, again, &Request::Begin);
    assert_eq!(admit(&mut table, 1, 2, true), Answer::Unregistered);
    assert_eq!(claim(&mut table, 2, 1, 8), Answer::Lapsed(Node(1)), "its holds count until it has registered");
    table.serve(NOW, again, &Request::Register { not_after: NOW });
    assert_eq!(claim(&mut table, 2, 1, 8), Answer::Drained { unsettled: false }, "it registered none");
    let other = Caller { run: Run(2), ..caller(2) };
    assert_eq!(table.serve(NOW, other, &Request::Sweep { part: 0 }), Answer::OtherRun);
    table.serve(NOW, other, &Request::Begin);
    table.serve(NOW, other, &Request::Register { not_after: NOW });
    let open = |members: &[u32]| Request::Open { members: members.iter().copied().map(Node).collect() };
    assert_eq!(table.serve(NOW, other, &open(&[1, 2])), Answer::Lapsed(Node(1)));
    assert_eq!(table.serve(NOW, other, &open(&[2])), Answer::Done);
    let admit = Request::Admit { key: 99, number: 1, writes: false };
    assert_eq!(table.serve(NOW, other, &admit), Answer::Unsettled, "the run may have forgotten the file");
}

#[test]
fn objects_of_a_removed_file_stay_until_the_last_node_has_closed_it() {
    let mut table = opened(2);
    admit(&mut table, 1, 1, false);
    let lower = |mode| Request::Lower { key: KEY, number: 1, mode, generation: None };
    table.serve(NOW, caller(1), &lower(Some(Mode::Open)));
    let holders = Request::OtherHolders { key: KEY };
    assert_eq!(table.serve(NOW, caller(2), &holders), recall(1, 1, Mode::Exclusive));
    assert_eq!(table.serve(NOW, caller(1), &holders), Answer::Done, "it is the only one");
    table.serve(NOW, caller(1), &lower(None));
    assert_eq!(table.serve(NOW, caller(2), &holders), Answer::Done);
}

#[test]
fn a_file_counts_as_unheld_once_it_had_no_holder_and_no_member_registered_for_a_session() {
    let mut table = opened(2);
    let mut admit = |now: u64, key: u64| {
        let now = Time(now);
        for node in [1, 2] {
            table.serve(now, caller(node), &Request::Renew { not_after: now });
        }
        let answer = table.serve(now, caller(1), &Request::Admit { key, number: now.0, writes: true });
        table.serve(now, caller(1), &Request::Lower { key, number: now.0, mode: None, generation: None });
        matches!(answer, Answer::Granted { mode: Mode::Exclusive, unheld: true, .. })
    };
    assert!(!admit(149, 1), "a member registered less than a session ago");
    assert!(admit(150, 2));
    assert!(!admit(190, 2), "it had a holder");
    assert!(admit(239, 3));
    assert!(admit(240, 2), "that was a session ago");
    let other = Caller { link: 2, ..caller(2) };
    table.serve(Time(240), other, &Request::Begin);
    table.serve(Time(240), other, &Request::Register { not_after: Time(240) });
    let renew = Request::Renew { not_after: Time(289) };
    table.serve(Time(289), caller(1), &renew);
    table.serve(Time(289), other, &renew);
    let last = table.serve(Time(289), caller(1), &Request::Admit { key: 4, number: 1, writes: true });
    assert_eq!(last, granted(Mode::Exclusive), "the other may have released a hold that the table did not show");
}

#[test]
fn a_used_generation_stays_the_newest_until_a_claim_also_after_the_hold() {
    let mut table = opened(2);
    let lower = |table: &mut Table, node: u32, number: u64, mode: Option<Mode>, generation: u64| {
        let request = Request::Lower { key: KEY, number, mode, generation: Some(generation) };
        table.serve(NOW, caller(node), &request)
    };
    let known = |answer: Answer| match answer {
        Answer::Granted { generation, newest, .. } => newest.then_some(generation),
        other => panic!("{other:?}"),
    };
    assert_eq!(known(admit(&mut table, 1, 1, true)), None, "nothing is known of the first use");
    lower(&mut table, 1, 1, None, 5);
    assert!(table.is_empty());
    assert_eq!(known(admit(&mut table, 2, 1, true)), Some(5));
    assert_eq!(admit(&mut table, 1, 2, true), recall(2, 1, Mode::Write));
    lower(&mut table, 2, 1, Some(Mode::Write), 5);
    assert_eq!(known(admit(&mut table, 1, 2, true)), Some(5), "beside the other");
    assert_eq!(claim(&mut table, 1, 3, 6), recall(2, 1, Mode::Open));
    lower(&mut table, 2, 1, Some(Mode::Open), 5);
    assert_eq!(claim(&mut table, 1, 3, 6), Answer::Drained { unsettled: false });
    let finish = Request::Finish { key: KEY, number: 3, generation: 6, settled: true, keeps: false };
    table.serve(NOW, caller(1), &finish);
    lower(&mut table, 2, 1, Some(Mode::Open), 5);
    assert_eq!(known(admit(&mut table, 2, 2, true)), None, "a repeated request tells nothing");
    lower(&mut table, 1, 2, None, 6);
    lower(&mut table, 2, 2, None, 6);
    let other = |node| Caller { run: Run(2), ..caller(node) };
    for request in [Request::Begin, Request::Register { not_after: NOW }] {
        [1, 2].into_iter().for_each(|node| drop(table.serve(NOW, other(node), &request)));
    }
    table.serve(NOW, other(1), &Request::Open { members: [Node(1), Node(2)].into() });
    table.serve(NOW, other(1), &Request::Trust);
    let admit = Request::Admit { key: KEY, number: 4, writes: true };
    assert_eq!(table.serve(NOW, other(1), &admit), granted(Mode::Exclusive), "another run knows nothing");
}

#[test]
fn a_node_that_was_over_and_registers_its_hold_shows_no_newest_generation() {
    let mut table = opened(2);
    admit(&mut table, 1, 1, true);
    table.serve(NOW, caller(2), &Request::Over { node: Node(1) });
    for generation in [1, 2] {
        claim(&mut table, 2, generation, generation);
        let (key, number, settled) = (KEY, generation, true);
        table.serve(NOW, caller(2), &Request::Finish { key, number, generation, settled, keeps: false });
    }
    let late = Caller { link: 2, ..caller(1) };
    let hold = Some(Hold { mode: Mode::Write, number: 1 });
    let lower = |number, generation| Request::Lower { key: KEY, number, mode: None, generation: Some(generation) };
    let reclaim = Request::Reclaim { key: KEY, hold, claim: None };
    for request in [Request::Begin, reclaim, Request::Register { not_after: NOW }, lower(1, 0)] {
        table.serve(NOW, late, &request);
    }
    assert_eq!(admit(&mut table, 2, 3, true), granted(Mode::Exclusive));
    table.serve(NOW, caller(2), &lower(3, 2));
    let known = Answer::Granted { mode: Mode::Exclusive, generation: 2, newest: true, unheld: false };
    assert_eq!(admit(&mut table, 2, 4, true), known, "its hold was shown all the time");
}
