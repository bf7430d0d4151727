//! A file of bounded segments between two tiers: the first three of six targets are the fast one.

use super::{Options, World};
use engine::file::{File, MirrorWrites};
use engine::mover::{CrashHook, Step};
use parking_lot::Mutex;
use policy::layout::Placement;
use rustix::io::Errno;
use std::sync::Arc;

/// Size of the file in bytes.
pub const SIZE: usize = 50_000;

/// Where its third segment begins.
pub const AT: usize = 16_384;

/// Initial contents of the file.
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

/// Bytes written so far, and the synced ones.
pub type Written = Arc<Mutex<(Vec<u8>, Vec<u8>)>>;

/// Death at a step of a move; from the new record on until then, a writer writes to the third segment if `writes`.
pub fn death_under_a_writer(world: &World, step: Step, writes: bool) -> (CrashHook, Written) {
    let log = Arc::new(Mutex::new((content(), content())));
    let (written, writer, power) = (log.clone(), world.life.file.clone(), world.power.clone());
    let hook = move |at: Step| {
        if writes && at >= Step::Replaced {
            let mut log = written.lock();
            let (from, value) = (AT + at as usize * 500, 0x80 + at as u8);
            writer.write(from as u64, &[value; 900])?;
            log.0[from..from + 900].fill(value);
            if (at as u8).is_multiple_of(2) {
                writer.sync_now(false)?;
                log.1 = log.0.clone();
            }
        }
        if at == step {
            power.cut();
            return Err(Errno::IO.into());
        }
        Ok(())
    };
    (Arc::new(hook), log)
}

/// The first byte that is not what was written, nor what was synced if the power went.
pub fn lost_byte(there: &[u8], written: &[u8], synced: &[u8], power_lost: bool) -> Option<usize> {
    let lost = |at: &usize| there[*at] != written[*at] && (!power_lost || there[*at] != synced[*at]);
    (0..there.len()).find(lost)
}
