//! The mount against a plain local directory: the same random operations on both must give the same answers and the
//! same tree. The seed is printed; `ENTREPOT_SEED` repeats one, `ENTREPOT_STEPS` makes it longer.

#[path = "mount/steps.rs"]
mod steps;
#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

fn same(seed: u64, steps: usize, wanted: volume::Wanted) {
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), wanted);
    steps::same_as_local(seed, steps, &volume.at);
}

fn seeds() -> Vec<u64> {
    match std::env::var("ENTREPOT_SEED") {
        Ok(seed) => vec![seed.parse().expect("ENTREPOT_SEED is a number")],
        Err(_) => vec![1, 2, 3],
    }
}

fn steps() -> usize {
    std::env::var("ENTREPOT_STEPS").map_or(600, |steps| steps.parse().expect("ENTREPOT_STEPS is a number"))
}

/// [S-001] [S-007] [S-010]
#[test]
fn the_mount_is_like_a_local_directory() {
    if volume::cannot_mount() {
        return;
    }
    for seed in seeds() {
        same(seed, steps(), volume::Wanted::default());
    }
}

/// [S-010]
#[test]
fn it_is_with_the_page_cache_and_without_passthrough() {
    if volume::cannot_mount() {
        return;
    }
    let mut wanted = volume::Wanted::default();
    wanted.options.io = store::volume::Io::Cached;
    wanted.options.passthrough = store::volume::Passthrough::Off;
    same(11, steps(), wanted);
}

/// [S-010]
#[test]
fn it_is_with_two_mirrors() {
    if volume::cannot_mount() {
        return;
    }
    let mut wanted = volume::Wanted::default();
    wanted.placement.mirrors = 2;
    wanted.placement.stripe_count = 2;
    same(21, steps(), wanted);
}

/// [S-010]
#[test]
fn it_is_with_one_object_per_file() {
    if volume::cannot_mount() {
        return;
    }
    let mut wanted = volume::Wanted::default();
    wanted.placement.stripe_count = 1;
    same(31, steps(), wanted);
}
