//! Arrays against the pictures of their layout, and whole storages under random requests.

use super::*;
use crate::block::{Anticipatory, Deadline};
use crate::event::{EventQueue, Rank};
use proptest::prelude::*;
use std::collections::HashMap;

fn io(sector: u64, count: u64, write: bool) -> Io {
    Io { sector, count, write, owner: 0, class: policy::precedence::Class::Awaited }
}

fn split(array: Array, members: u64, request: Io) -> (Vec<Piece>, Vec<Piece>) {
    let mut split = Split::default();
    array.split(&request, members, &mut split);
    (split.first, split.then)
}

#[test]
fn raid_0_deals_units_out() {
    let (pieces, then) = split(Array::Raid0 { unit_sectors: 8 }, 3, io(20, 16, false));
    let places: Vec<_> = pieces.iter().map(|piece| (piece.member, piece.sector, piece.count)).collect();
    assert_eq!(places, [(2, 4, 4), (0, 8, 8), (1, 8, 4)]);
    assert!(then.is_empty());
}

#[test]
fn raid_5_is_left_symmetric() {
    let array = Array::Raid5 { unit_sectors: 1 };
    let member = |unit| split(array, 4, io(unit, 1, false)).0[0].member;
    let rows: Vec<Vec<u32>> = (0..4).map(|stripe| (0..3).map(|n| member(stripe * 3 + n)).collect()).collect();
    assert_eq!(rows, [[0, 1, 2], [3, 0, 1], [2, 3, 0], [1, 2, 3]]);
}

#[test]
fn a_small_write_to_raid_5_costs_two_reads_and_two_writes() {
    let (first, then) = split(Array::Raid5 { unit_sectors: 16 }, 4, io(4, 8, true));
    assert_eq!(first.len(), 2);
    assert!(first.iter().all(|piece| !piece.write && (piece.sector, piece.count) == (4, 8)));
    assert_eq!(then.len(), 2);
    assert!(then.iter().all(|piece| piece.write));
    let (first, then) = split(Array::Raid5 { unit_sectors: 16 }, 4, io(48, 48, true));
    assert_eq!((first.len(), then.len()), (4, 0), "a whole stripe is written without reading");
}

proptest! {
    #[test]
    fn an_array_maps_every_sector_to_one_place(sectors in prop::collection::vec(0u64..5000, 2..50), five in any::<bool>()) {
        let array = if five { Array::Raid5 { unit_sectors: 8 } } else { Array::Raid0 { unit_sectors: 8 } };
        let mut places = HashMap::new();
        for sector in sectors {
            let piece = split(array, 5, io(sector, 1, false)).0[0];
            let before = places.insert((piece.member, piece.sector), sector);
            prop_assert!(before.is_none_or(|before| before == sector));
        }
    }

    #[test]
    fn every_request_comes_back_once(
        requests in prop::collection::vec((0u64..4000, 1u64..200, any::<bool>(), 0u64..20_000_000), 1..60),
        kind in 0..3, scheduler in 0..3,
    ) {
        let scheduler = match scheduler {
            0 => Scheduler::Noop,
            1 => Scheduler::Deadline(Deadline::default()),
            _ => Scheduler::Anticipatory(Anticipatory::default()),
        };
        let disk = || Device::Disk(Box::new(crate::disk::Disk::new(&crate::disk::model::CHEETAH9LP)));
        let sata = crate::disk::devices::find("ssd-sata").unwrap().unwrap().ssd.as_ref().unwrap();
        let (array, devices) = match kind {
            0 => (Array::Single, vec![Device::Ssd(crate::ssd::Ssd::new(sata))]),
            1 => (Array::Raid0 { unit_sectors: 16 }, (0..3).map(|_| disk()).collect()),
            _ => (Array::Raid5 { unit_sectors: 16 }, (0..4).map(|_| disk()).collect()),
        };
        let mut storage = Storage::new(devices, array, scheduler, Merging::default());
        let mut queue = EventQueue::new();
        let mut at = Time::ZERO;
        for (tag, &(sector, count, write, gap)) in requests.iter().enumerate() {
            at = at + Time(gap);
            queue.push(at, Rank::Arrival, Ok((io(sector, count, write), tag as u64)));
        }
        let mut done = Vec::new();
        while let Some((now, event)) = queue.pop() {
            let wake = |at, wake| queue.push(at, Rank::Completion, Err(wake));
            match event {
                Ok((io, tag)) => storage.submit(now, io, tag, wake),
                Err(what) => storage.happen(now, what, wake),
            }
            storage.check();
            storage.drain(|tag| done.push(tag));
        }
        prop_assert!(storage.is_idle());
        done.sort_unstable();
        prop_assert_eq!(done, (0..requests.len() as u64).collect::<Vec<_>>());
    }
}
