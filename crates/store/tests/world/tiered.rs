//! A file of bounded segments between two tiers: the first three of six targets are the fast one.

use super::{Options, World};
use policy::layout::Placement;
use store::file::{File, MirrorWrites};

/// Its bytes.
pub const SIZE: usize = 50_000;

/// What it holds.
pub fn content() -> Vec<u8> {
    (0..SIZE).map(|i| (i / 7) as u8).collect()
}

/// A world with such a file on the slow tier, synced.
pub fn tiers() -> World {
    let placement = Placement {
        stripe_size: 4096,
        stripe_count: 2,
        single_bytes_max: 8192,
        segment_bytes: 8192,
        mirrors: 1,
        tier: Some(1),
    };
    filled(Options { targets: 6, placement, mirror_writes: MirrorWrites::Sync, inline_bytes_max: 0 })
}

/// A world whose file holds `content`, synced.
pub fn filled(options: Options) -> World {
    let world = World::new(options, 7);
    world.life.file.write(0, &content()).expect("nothing is wrong");
    world.life.file.sync_now(false).expect("nothing is wrong");
    world
}

/// The tier of a segment's objects.
pub fn tier_of(file: &File, segment: usize) -> u8 {
    let layout = file.layout().expect("laid out");
    let objects = &layout.mirrors[0].segments[segment].objects;
    let tiers: Vec<u8> = objects.iter().map(|o| u8::from(o.target.0 >= 3)).collect();
    assert!(tiers.iter().all(|tier| *tier == tiers[0]), "{tiers:?}");
    tiers[0]
}
