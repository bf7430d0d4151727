//! Mapping of an array's sectors to its members.
//!
//! ```text
//! RAID-0, 3 members   0 1 2 | 3 4 5 | ...
//! RAID-5, 4 members   0 1 2 P | 4 5 P 3 | 8 P 6 7 | P 9 10 11      left-symmetric: data goes on behind the parity
//! ```

use crate::block::Io;

/// Layout of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array {
    /// A single member.
    Single,
    /// Striping without parity.
    Raid0 {
        /// Sectors of a stripe unit.
        unit_sectors: u64,
    },
    /// Striping with rotating parity. A partial write reads old data and old parity first (read-modify-write).
    Raid5 {
        /// Sectors of a stripe unit.
        unit_sectors: u64,
    },
}

/// A request for one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Index of the member.
    pub member: u32,
    /// First sector on the member.
    pub sector: u64,
    /// Number of sectors.
    pub count: u64,
    /// Whether it is a write.
    pub write: bool,
}

/// A split request: the pieces `first`, and after their completion, `then`.
#[derive(Debug, Default)]
pub(super) struct Split {
    pub(super) first: Vec<Piece>,
    pub(super) then: Vec<Piece>,
}

impl Array {
    /// Returns the addressable sectors of `members` of `member_sectors` each.
    pub fn sectors(&self, member_sectors: u64, members: u64) -> u64 {
        match *self {
            Array::Single => member_sectors,
            Array::Raid0 { unit_sectors } => member_sectors / unit_sectors * unit_sectors * members,
            Array::Raid5 { unit_sectors } => member_sectors / unit_sectors * unit_sectors * (members - 1),
        }
    }

    pub(super) fn split(&self, io: &Io, members: u64, split: &mut Split) {
        split.first.clear();
        split.then.clear();
        match *self {
            Array::Single => {
                split.first.push(Piece { member: 0, sector: io.sector, count: io.count, write: io.write });
            }
            Array::Raid0 { unit_sectors } => {
                for_units(io.sector, io.count, unit_sectors, |unit, within, count| {
                    let sector = unit / members * unit_sectors + within;
                    let member = (unit % members) as u32;
                    split.first.push(Piece { member, sector, count, write: io.write });
                });
            }
            Array::Raid5 { unit_sectors } => raid5(io, members, unit_sectors, split),
        }
    }
}

/// Calls `part` with the unit, the offset in it, and the length of each part of `[sector, sector + count)`.
fn for_units(sector: u64, count: u64, unit_sectors: u64, mut part: impl FnMut(u64, u64, u64)) {
    let (mut sector, end) = (sector, sector + count);
    while sector < end {
        let within = sector % unit_sectors;
        let length = (unit_sectors - within).min(end - sector);
        part(sector / unit_sectors, within, length);
        sector += length;
    }
}

fn raid5(io: &Io, members: u64, unit_sectors: u64, split: &mut Split) {
    let data = members - 1;
    let stripe_sectors = data * unit_sectors;
    let parity_of = |stripe: u64| data - stripe % members;
    let place = |unit: u64, within: u64, count: u64, write: bool| {
        let stripe = unit / data;
        let member = ((parity_of(stripe) + 1 + unit % data) % members) as u32;
        Piece { member, sector: stripe * unit_sectors + within, count, write }
    };
    if !io.write {
        for_units(io.sector, io.count, unit_sectors, |unit, within, count| {
            split.first.push(place(unit, within, count, false));
        });
        return;
    }
    // Each stripe is handled alone: a whole stripe is written with its parity, a partial one is read first.
    let mut any_partial = false;
    for_units(io.sector, io.count, stripe_sectors, |stripe, from, count| {
        let whole = count == stripe_sectors;
        any_partial |= !whole;
        let (mut low, mut high) = (unit_sectors, 0);
        for_units(stripe * stripe_sectors + from, count, unit_sectors, |unit, within, count| {
            (low, high) = (low.min(within), high.max(within + count));
            if !whole {
                split.first.push(place(unit, within, count, false));
            }
            split.then.push(place(unit, within, count, true));
        });
        let parity = Piece {
            member: parity_of(stripe) as u32,
            sector: stripe * unit_sectors + low,
            count: high - low,
            write: true,
        };
        if !whole {
            split.first.push(Piece { write: false, ..parity });
        }
        split.then.push(parity);
    });
    if !any_partial {
        std::mem::swap(&mut split.first, &mut split.then);
    }
}
