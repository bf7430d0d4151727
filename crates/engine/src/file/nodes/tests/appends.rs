//! Appends of two nodes: each is in the file once, at its end at that time.

use super::*;

/// [S-202]
#[test]
fn each_append_lies_at_the_end_as_it_is_then() {
    let (_world, a, b) = two();
    for turn in 0..6 {
        let one = if turn % 2 == 0 { &a } else { &b };
        assert_eq!(one.file.append(&[turn; 700]).unwrap(), u64::from(turn) * 700);
    }
    let all: Vec<(u8, usize)> = (0..6).map(|turn| (turn, 700)).collect();
    assert!(a.bytes() == expected(&all) && b.bytes() == expected(&all));
}

/// [S-202]
#[test]
fn an_append_lies_there_once_also_if_its_node_loses_its_lease_meanwhile() {
    for (size, more) in [(0, 700), (100, 700), (20_000, 200)] {
        let (_world, a, b) = two();
        b.writes(0, 1, size);
        *a.member.standing.lock() = Standing::Lost;
        std::thread::scope(|scope| {
            let appends = scope.spawn(|| a.file.append(&vec![2; more]));
            std::thread::sleep(Duration::from_millis(50));
            a.member.number.store(3, Ordering::Relaxed);
            *a.member.standing.lock() = Standing::Held;
            assert_eq!(appends.join().expect("no panic").unwrap(), size as u64);
        });
        assert!(b.bytes() == expected(&[(1, size), (2, more)]), "{size} and {more}: {}", b.bytes().len());
        assert_eq!(b.file.append(&[3; 10]).unwrap(), (size + more) as u64);
        assert!(a.bytes() == expected(&[(1, size), (2, more), (3, 10)]));
    }
}

/// [S-202]
#[test]
fn an_append_lies_there_once_also_if_the_file_moves_when_its_node_has_lost_its_lease() {
    for (size, more) in [(0, 100), (100, 700), (20_000, 200), (20_000, 9000)] {
        for nth in 1..30 {
            let world = World::new();
            let (a, b) = (world.node(1), Arc::new(world.node(2)));
            b.writes(0, 1, size);
            b.file.end_writing().unwrap();
            a.file.refresh().unwrap();
            let mover = b.clone();
            let moves = move || {
                if size > 1000 {
                    mover.moves();
                }
                mover.file.append(&[3; 50]).expect("appended by another");
            };
            *a.member.loses.lock() = Some((nth, Box::new(moves)));
            let at = a.file.append(&vec![2; more]).expect("appended");
            if a.member.loses.lock().is_some() {
                assert!(nth > 2, "so often it looks at least");
                break;
            }
            let other =
                if at == size as u64 { [(1, size), (2, more), (3, 50)] } else { [(1, size), (3, 50), (2, more)] };
            assert!(a.bytes() == expected(&other), "{size} and {more}, lost at look {nth}: {} bytes", a.bytes().len());
            assert!(b.bytes() == expected(&other), "on the other node");
        }
    }
}
