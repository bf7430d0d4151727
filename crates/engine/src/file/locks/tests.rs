//! Users of two nodes that lock one file.

use super::*;
use crate::file::held::tests::{One, World};
use object::admission::Admission;

/// A node, and the limits of its users' locked ranges and descriptors.
struct There(One, [Arc<Admission>; 2]);

impl There {
    fn new(world: &World, number: u32) -> There {
        There(world.node(number), [1000, 100].map(|n| Admission::new(n, 0)))
    }

    fn lock(&self, owner: Owner, bytes: Bytes, kind: Option<Kind>) -> Result<Locked, Errno> {
        let wanted = Wanted { owner, handle: owner + 100, process: owner as u32 + 1000, bytes, kind };
        let user = rustix::process::geteuid().as_raw() + 1;
        let take = |n: usize| self.1[n].take(user, 1).map_err(|_| Error::from(Errno::NOLCK));
        let admit = || Ok((take(0)?, take(1)?));
        self.0.file.lock(&wanted, &admit).map_err(|error| error.errno())
    }

    /// Numbers of ranges and descriptors in use.
    fn used(&self) -> [u64; 2] {
        self.1.each_ref().map(|all| all.used())
    }

    fn takes(&self, owner: Owner, bytes: Bytes, kind: Kind) {
        assert_eq!(self.lock(owner, bytes, Some(kind)), Ok(Locked::Done));
    }

    fn gives(&self, owner: Owner, bytes: Bytes) {
        assert_eq!(self.lock(owner, bytes, None), Ok(Locked::Done));
    }

    fn refused(&self, owner: Owner, bytes: Bytes, kind: Kind) -> Refusal {
        match self.lock(owner, bytes, Some(kind)) {
            Ok(Locked::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }
}

use Kind::{Exclusive, Shared};

const ALL: Bytes = 0..=LAST;

/// [S-217]
#[test]
fn locks_keep_others_out_on_all_nodes() {
    let world = World::new();
    let (a, b) = (There::new(&world, 1), There::new(&world, 2));
    a.takes(1, 0..=9, Exclusive);
    assert_eq!(a.refused(2, 9..=9, Shared), Refusal::Here);
    assert_eq!(b.refused(1, 0..=0, Shared), Refusal::Elsewhere, "another node's owner of the same number");
    b.takes(1, 10..=19, Exclusive);
    // Shared locks become exclusive and the other way round, and a range is cut in two.
    a.takes(1, 0..=9, Shared);
    b.takes(3, 0..=9, Shared);
    assert_eq!(a.refused(1, 4..=5, Exclusive), Refusal::Elsewhere);
    b.gives(3, 4..=5);
    a.takes(1, 4..=5, Exclusive);
    assert_eq!(b.refused(3, ALL, Shared), Refusal::Here, "by bytes 10 to 19 of another owner there");
    a.gives(1, ALL);
    b.gives(1, ALL);
    b.takes(3, ALL, Exclusive);
    assert_eq!(a.refused(1, LAST..=LAST, Shared), Refusal::Elsewhere);
}

/// [S-217]
#[test]
fn who_asks_hears_what_is_in_the_way_and_whose_it_is() {
    let world = World::new();
    let (a, b) = (There::new(&world, 1), There::new(&world, 2));
    a.takes(1, 5..=9, Exclusive);
    let found = |there: &There, owner, bytes: Bytes| there.0.file.in_the_way(owner, &bytes, Shared).unwrap();
    let shown = |process| Some(InTheWay { bytes: 5..=9, kind: Exclusive, process });
    assert_eq!(found(&a, 2, ALL), shown(1001));
    assert_eq!(found(&b, 2, ALL), shown(0), "no process of that node");
    assert_eq!((found(&a, 1, ALL), found(&b, 2, 0..=4)), (None, None));
    assert_eq!(world.stub.lockers(), 1, "who only asked has nothing open");
}

/// [S-219]
#[test]
fn locks_end_with_their_process_and_their_handle() {
    let world = World::new();
    let (a, b) = (There::new(&world, 1), There::new(&world, 2));
    a.takes(1, 0..=9, Exclusive);
    a.takes(2, 10..=19, Exclusive);
    assert!(!a.0.file.has_closed(3), "it had none");
    assert!(a.0.file.has_closed(1));
    assert_eq!(a.refused(2, 0..=9, Shared), Refusal::Closed, "it is about to be given back");
    assert_eq!(a.refused(1, 30..=39, Shared), Refusal::Closed, "also if the kernel gives the number to another");
    a.0.file.give_locks_back(1);
    b.takes(1, 0..=9, Exclusive);
    assert!(a.0.file.have_closed(101).is_empty());
    assert_eq!(a.0.file.have_closed(102), [2]);
    a.0.file.give_locks_back(2);
    b.takes(1, ALL, Exclusive);
    assert_eq!((world.stub.lockers(), a.used()), (1, [0, 0]));
    // The process whose locks were released locks again.
    b.gives(1, ALL);
    a.takes(1, ALL, Exclusive);
}

/// [S-219]
#[test]
fn a_lock_that_would_keep_nobody_out_is_an_error() {
    let world = World::new();
    let a = There::new(&world, 1);
    a.0.locks_do_not_reach();
    assert_eq!(a.lock(1, ALL, Some(Shared)), Err(Errno::NOLCK));
    a.gives(1, ALL);
    let b = There::new(&world, 2);
    world.stub.refuse_locks(Some(Errno::NOLCK));
    assert_eq!(b.lock(1, ALL, Some(Shared)), Err(Errno::NOLCK));
    b.0.file.lock_not_taken(1);
    assert_eq!(world.stub.lockers(), 0);
}

/// [S-218]
#[test]
fn what_a_user_has_locked_is_bounded_and_given_back() {
    let world = World::new();
    let a = There::new(&world, 1);
    let mut n = 0;
    let refused = loop {
        match a.lock(1, n * 2..=n * 2, Some(Exclusive)) {
            Ok(done) => assert_eq!(done, Locked::Done),
            Err(errno) => break errno,
        }
        n += 1;
    };
    assert_eq!(refused, Errno::NOLCK);
    assert!((490..=500).contains(&n), "half of it: {n}");
    a.gives(1, ALL);
    assert_eq!((a.used(), world.stub.lockers()), ([0, 0], 0));
    // A refused owner leaves no descriptor open.
    let b = There::new(&world, 2);
    b.takes(1, ALL, Exclusive);
    a.refused(1, ALL, Shared);
    a.0.file.lock_not_taken(1);
    assert_eq!((a.used(), world.stub.lockers()), ([0, 0], 1));
}

/// The shared file system or the state store may answer after the call's time. [S-217]
#[test]
fn a_lock_that_comes_too_late_takes_none_from_its_owner() {
    let world = World::new();
    let (a, b) = (There::new(&world, 1), There::new(&world, 2));
    let answered = |bytes, kind| {
        a.0.file.lock_answered(&Wanted { owner: 1, handle: 101, process: 1001, bytes, kind: Some(kind) });
    };
    let given_up = || {
        a.0.file.lock_given_up(1);
        a.0.file.restore_locks(1).unwrap();
    };
    a.takes(1, 0..=9, Exclusive);
    a.takes(1, 0..=9, Exclusive); // its process called again
    given_up();
    assert_eq!(b.refused(2, 0..=9, Shared), Refusal::Elsewhere, "the second call may be answered");
    answered(0..=9, Exclusive);
    a.0.file.restore_locks(1).unwrap();
    assert_eq!(b.refused(2, 0..=9, Shared), Refusal::Elsewhere);
    a.gives(1, ALL);

    a.takes(1, 0..=9, Shared);
    answered(0..=9, Shared);
    a.takes(1, 5..=19, Exclusive);
    given_up();
    assert_eq!(b.refused(2, 0..=9, Exclusive), Refusal::Elsewhere, "the former lock stays");
    b.takes(2, 0..=9, Shared);
    b.takes(2, 10..=19, Exclusive);
    a.gives(1, ALL);
    a.takes(1, 30..=39, Exclusive);
    given_up();
    assert_eq!((a.used(), world.stub.lockers()), ([0, 0], 1));
}
