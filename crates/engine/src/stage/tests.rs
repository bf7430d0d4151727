//! Staging into a real volume in a temporary directory, from sources in memory.

mod limits;
mod manifests;
mod replaced;
mod results;

use super::world::{QUIET, World, request, who};
use super::*;
use crate::source::Identity;
use crate::source::memory::data;
use crate::volume::Config;
use meta::state::State;
use std::os::unix::fs::symlink;

fn results(path: &str, uri: &str, compare: Compare) -> StageOut {
    StageOut { path: path.into(), uri: uri.into(), compare, chosen: Chosen::default() }
}

#[test]
fn a_large_file_in_with_record_and_checksums() {
    let world = World::new();
    let bytes = data(21_000_077, 1);
    let remote = world.memory.add("mem://h/a", &bytes);
    std::fs::create_dir(world.tree.join("d")).expect("dir");
    let staged = world.stage(&["mem://h/a"], "d").expect("staged into the directory under its own name");
    assert_eq!((staged.files, staged.bytes, staged.fetched_bytes), (1, 21_000_077, 21_000_077));
    assert!(world.read("d/a") == bytes);
    assert!(remote.reads().iter().all(|(offset, len)| *len as u64 >= 1 << 20 || offset + *len as u64 == 21_000_077));
    let record = world.stager.silent(&who()).source_get("d/a").expect("get").expect("record");
    assert_eq!((record.sources[0].uri.as_str(), record.modified), ("mem://h/a", false));
    let layout = layout_of(&world, "d/a");
    assert!(layout.mirrors[0].segments[0].objects.len() > 1, "striped from the start");
    let opened = sums::Sums::open(world.stager.volume.side(), layout.file, record.stripe_bytes, record.size());
    let opened = opened.expect("open").expect("checksums");
    for (k, stripe) in bytes.chunks(record.stripe_bytes as usize).enumerate() {
        assert!(opened.matches(k as u64, stripe).expect("read"), "stripe {k}");
    }
    assert!(world.staging_is_empty());
}

#[test]
fn small_and_empty_files_stay_in_their_stub() {
    let world = World::new();
    for (name, len) in [("small", 100), ("empty", 0), ("edge", 65536)] {
        let bytes = data(len, 2);
        world.memory.add(&format!("mem://h/{name}"), &bytes);
        world.stage(&[&format!("mem://h/{name}")], name).expect("staged");
        assert!(world.read(name) == bytes, "{name}");
    }
    assert!(world.staging_is_empty());
}

/// [S-040]
#[test]
fn an_interrupted_staging_goes_on_where_it_was_also_after_a_restart() {
    let world = World::new();
    let bytes = data(24 << 20, 3);
    let remote = world.memory.add("mem://h/a", &bytes);
    remote.fail_after(3);
    assert!(matches!(world.stage(&["mem://h/a"], "a"), Err(StageError::Source { .. })));
    assert!(!world.tree.join("a").exists(), "nothing is seen of it");
    let World { stager, memory, dir, .. } = world;
    let file = stager.volume.config().file.clone();
    let state: Arc<dyn State> = stager.volume.state().clone();
    assert_eq!(state.stagings().expect("state").len(), 1);
    drop((state, stager));
    let mut again = World { memory: memory.clone(), ..World::reopened(dir, &file) };
    again.stager.opener = memory.clone();
    remote.fail_after(usize::MAX);
    let before = remote.reads().len();
    let staged = again.stage(&["mem://h/a"], "a").expect("goes on");
    assert!(staged.fetched_bytes < bytes.len() as u64, "not all again: {}", staged.fetched_bytes);
    assert!(remote.reads().len() > before);
    assert!(again.read("a") == bytes);
    assert!(again.staging_is_empty());
}

impl World {
    /// Opens the volume again after the first user released it.
    fn reopened(dir: tempfile::TempDir, file: &std::path::Path) -> World {
        let config = Config::load(file).expect("config");
        World::open(dir, config)
    }
}

#[test]
fn a_source_that_changed_meanwhile_begins_anew() {
    let world = World::new();
    let remote = world.memory.add("mem://h/a", &data(24 << 20, 3));
    remote.fail_after(3);
    assert!(world.stage(&["mem://h/a"], "a").is_err());
    remote.fail_after(usize::MAX);
    let other = data(24 << 20, 4);
    remote.put(other.clone());
    let staged = world.stage(&["mem://h/a"], "a").expect("staged");
    assert!(staged.notes.iter().any(|n| n.contains("starts from the beginning")), "{:?}", staged.notes);
    assert_eq!(staged.fetched_bytes, other.len() as u64);
    assert!(world.read("a") == other);
}

/// [S-044]
#[test]
fn a_second_source_that_changed_meanwhile_begins_anew() {
    let world = World::new();
    let (old, new) = (data(24 << 20, 3), data(24 << 20, 4));
    world.memory.add("mem://h/a", &old).fail_after(0);
    let second = world.memory.add("mem://i/a", &old);
    second.fail_after(3);
    let uris = ["mem://h/a", "mem://i/a"];
    assert!(world.stage(&uris, "a").is_err());
    second.fail_after(usize::MAX);
    second.put(new.clone());
    let staged = world.stage(&uris, "a").expect("from the second");
    assert!(staged.notes.iter().any(|note| note.starts_with("mem://i/a changed")), "{:?}", staged.notes);
    assert!(world.read("a") == new, "no bytes of its earlier version");
}

#[test]
fn told_to_stop_it_stops_and_can_go_on() {
    let world = World::new();
    world.memory.add("mem://h/a", &data(24 << 20, 3));
    let stop = Stop::default();
    let report: Report = &|p: &Progress| {
        if p.done_bytes > 0 {
            stop.set();
        }
    };
    stop.set();
    let what = request(&["mem://h/a"], "a");
    assert!(matches!(world.stager.transfer(&who(), report, &stop).stage_in(&what), Err(StageError::Stopped)));
    assert!(!world.tree.join("a").exists());
    world.stage(&["mem://h/a"], "a").expect("goes on");
}

#[test]
fn without_ranges_and_with_a_second_source() {
    let world = World::new();
    let bytes = data(9_000_001, 5);
    world.memory.add("mem://h/a", &bytes).without_ranges();
    let staged = world.stage(&["mem://h/a"], "a").expect("staged");
    assert!(staged.notes.iter().any(|n| n.contains("no ranges")));
    assert!(world.read("a") == bytes);
    assert!(!world.stager.silent(&who()).source_get("a").expect("get").expect("record").sources[0].ranges);
    let first = world.memory.add("mem://h/b", &bytes);
    world.memory.add("mem://i/b", &bytes);
    world.memory.add("mem://j/b", &bytes[1..]);
    first.fail_after(1);
    let staged = world.stage(&["mem://h/b", "mem://i/b", "mem://j/b", "mem://k/none"], "b").expect("from the second");
    assert_eq!(staged.notes.len(), 2, "{:?}", staged.notes);
    assert!(world.read("b") == bytes);
    let record = world.stager.silent(&who()).source_get("b").expect("get").expect("record");
    assert_eq!(record.sources.len(), 2);
}

/// [S-190]
#[test]
fn a_source_that_does_not_tell_its_versions_is_fetched_with_one_request() {
    let world = World::new();
    let (old, new) = (data(24 << 20, 15), data(24 << 20, 16));
    let remote = world.memory.add("mem://h/a", &old);
    remote.without_versions();
    let staged = world.stage(&["mem://h/a"], "a").expect("staged");
    assert_eq!(remote.reads(), [(0, old.len())], "no ranges, between which it could be replaced");
    assert!(staged.notes.iter().any(|note| note.contains("one request")), "{:?}", staged.notes);
    assert!(world.read("a") == old);
    let record = world.stager.silent(&who()).source_get("a").expect("get").expect("record");
    assert!(record.sources[0].ranges, "a recovery may use them: the checksums decide there");
    // An equal size does not prove equal bytes.
    remote.put(new.clone());
    let keep = StageIn { keep: true, ..request(&["mem://h/a"], "a") };
    world.stage_as(&keep, &who()).expect("fetched again");
    assert!(world.read("a") == new);
    let said = world.stager.silent(&who()).source_set("a", &["mem://h/a".into()], true);
    assert!(said.expect("compared byte by byte, in ranges or not").is_some());
}

#[test]
fn a_second_source_that_helped_out_must_not_have_changed_either() {
    let world = World::new();
    let bytes = data(24 << 20, 17);
    let first = world.memory.add("mem://h/a", &bytes);
    let second = world.memory.add("mem://i/a", &bytes);
    let uris = ["mem://h/a", "mem://i/a"].map(String::from);
    let stop = Stop::default();
    let sources = super::sources::Sources::open(&*world.memory, &uris, &who(), &stop).expect("both");
    first.fail_after(0);
    assert!(sources.read_at(0, 100, None).expect("from the second") == bytes[..100]);
    first.put(data(24 << 20, 18));
    sources.check_unchanged().expect("the first gave nothing");
    second.put(data(24 << 20, 18));
    let found = sources.check_unchanged().expect_err("it was replaced").to_string();
    assert!(found.contains("mem://i/a") && found.contains("replaced"), "{found}");
}

/// [S-040]
#[test]
fn a_wrong_checksum_keeps_the_file_out() {
    let world = World::new();
    let bytes = data(3_000_000, 8);
    let remote = world.memory.add("mem://h/a", &bytes);
    let right = blake3::hash(&bytes).to_hex().to_string();
    let with = |sum: &str| StageIn {
        checksums: vec![Checksum { algorithm: Algorithm::Blake3, hex: sum.to_string() }],
        ..request(&["mem://h/a"], "a")
    };
    let refused = world.stage_as(&with("abc"), &who());
    assert!(matches!(refused, Err(StageError::BadChecksum(_))), "{refused:?}");
    assert!(remote.reads().is_empty(), "before anything is fetched");
    let wrong = world.stage_as(&with(&right.replace('a', "b")), &who());
    assert!(matches!(wrong, Err(StageError::Checksum { .. })), "{wrong:?}");
    assert!(!world.tree.join("a").exists() && world.staging_is_empty());
    world.stage_as(&with(&right), &who()).expect("right");
}

/// [S-052]
#[test]
fn no_path_leads_out_of_the_mount() {
    let world = World::new();
    world.memory.add("mem://h/a", b"x");
    let elsewhere = tempfile::tempdir().expect("dir");
    symlink(elsewhere.path(), world.tree.join("abroad")).expect("link");
    symlink("../..", world.tree.join("up")).expect("link");
    std::fs::create_dir(world.tree.join("real")).expect("dir");
    symlink("real", world.tree.join("inside")).expect("link");
    for path in ["../a", "d/../../a", "abroad/a", "up/a", "a\nb", "a\0b", "missing/a", "/../a"] {
        assert!(world.stage(&["mem://h/a"], path).is_err(), "{path:?}");
    }
    let outside = [world.dir.path().to_owned(), world.dir.path().join("v"), elsewhere.path().to_owned()];
    outside.iter().for_each(|dir| assert!(!dir.join("a").exists(), "{} has the file", dir.display()));
    world.stage(&["mem://h/a"], "inside/a").expect("a link inside is followed");
    assert!(world.read("real/a") == b"x");
    world.stage(&["mem://h/a"], "/b").expect("the root of the mount");
}

#[test]
fn a_user_stages_where_she_may_and_owns_what_comes() {
    if who().uid != 0 {
        eprintln!("skipped: needs root to act for another user");
        return;
    }
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let world = World::new();
    world.memory.add("mem://h/a", &data(100_000, 9));
    let mode = std::fs::Permissions::from_mode;
    std::fs::set_permissions(&world.tree, mode(0o755)).expect("chmod");
    std::fs::create_dir(world.tree.join("open")).expect("dir");
    std::fs::set_permissions(world.tree.join("open"), mode(0o777)).expect("chmod");
    std::fs::create_dir(world.tree.join("closed")).expect("dir");
    let nobody = Identity { uid: 65534, gid: 65534, ..Identity::default() };
    let stage = |path: &str| world.stage_as(&request(&["mem://h/a"], path), &nobody);
    let refused = stage("closed/a").expect_err("refused").to_string();
    assert!(refused.contains("Permission"), "{refused}");
    stage("open/a").expect("staged");
    let meta = std::fs::metadata(world.tree.join("open/a")).expect("there");
    assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o777), (65534, 65534, 0o644));
    std::fs::set_permissions(world.tree.join("open/a"), mode(0o600)).expect("chmod");
    let other = Identity { uid: 65533, gid: 65533, ..Identity::default() };
    assert!(world.stager.silent(&other).stage_out(&results("open/a", "mem://h/out", Compare::Content)).is_err());
    assert!(world.stager.silent(&other).source_get("open/a").is_err());
}

/// [S-052]
#[test]
fn directories_with_links_and_hostile_listings() {
    let world = World::new();
    world.memory.add("mem://h/t/x", b"x");
    world.memory.add("mem://h/t/sub/y", &data(200_000, 10));
    world.memory.add_link("mem://h/t/sub/l", "../x");
    let tree =
        |uri: &str, path: &str| world.stager.silent(&who()).stage_in_tree(&request(&[uri], path), &Chosen::default());
    let staged = tree("mem://h/t", "t").expect("staged");
    assert_eq!((staged.files, staged.directories, staged.symlinks), (2, 2, 1));
    assert!(world.read("t/sub/y") == data(200_000, 10));
    assert_eq!(std::fs::read_link(world.tree.join("t/sub/l")).expect("link").to_str(), Some("../x"));
    world.memory.add("mem://h/evil/../../z", b"z");
    let refused = tree("mem://h/evil", "e").expect_err("refused").to_string();
    assert!(refused.contains("nothing was changed"), "{refused}");
    assert!(!world.tree.join("e").exists());
    let elsewhere = tempfile::tempdir().expect("dir");
    world.memory.add_link("mem://h/trap/d", elsewhere.path().to_str().expect("text"));
    world.memory.add("mem://h/trap/d/z", b"z");
    let _ = tree("mem://h/trap", "trap");
    assert!(!elsewhere.path().join("z").exists(), "nothing is written through a link of the listing");
}

/// [S-052]
#[test]
fn a_manifest_is_checked_whole_before_anything_changes() {
    let world = World::new();
    world.memory.add("mem://h/a", b"a");
    world.memory.add("mem://h/b", b"b");
    let stage = |text: &str| {
        let what = ManifestIn { text: Some(text.into()), ..ManifestIn::default() };
        world.stager.silent(&who()).stage_in_manifest(&what, &Chosen::default())
    };
    let of = |result: Result<Staged, StageError>| match result {
        Err(StageError::Manifest(bad)) => bad.iter().map(|bad| bad.line).collect(),
        _ => Vec::new(),
    };
    for (bad, lines) in [
        ("mem://h/a d/a\nmem://h/none d/b\n", &[2][..]),
        ("mem://h/a d/a\nmem://h/b ../b\n", &[2]),
        ("mem://h/no d/a\nmem://h/b b\nmem://h/none d/b\n", &[1, 3]),
    ] {
        assert_eq!(of(stage(bad)), lines, "{bad}");
        assert!(!world.tree.join("d").exists());
    }
    let staged = stage("# two\nmem://h/a\td/e/a\nmem://h/b d/b\n").expect("staged");
    assert_eq!((staged.files, staged.directories), (2, 2));
    assert!(world.read("d/e/a") == b"a" && world.read("d/b") == b"b");
    assert_eq!(of(stage("mem://h/a new\nmem://h/b d/b\n")), [2]);
    assert!(!world.tree.join("new").exists());
}

#[test]
fn sources_said_afterwards() {
    let world = World::new();
    let bytes = data(3_000_000, 13);
    let remote = world.memory.add("mem://h/a", &bytes);
    world.stage(&["mem://h/a"], "a").expect("staged");
    let set = |uris: &[&str], verify: bool| {
        let uris: Vec<String> = uris.iter().map(|u| u.to_string()).collect();
        world.stager.silent(&who()).source_set("a", &uris, verify)
    };
    assert_eq!(set(&[], false).expect("forgotten"), None);
    assert_eq!(world.stager.silent(&who()).source_get("a").expect("get"), None);
    let record = set(&["mem://h/a"], true).expect("set").expect("record");
    assert_eq!(world.stager.silent(&who()).source_get("a").expect("get"), Some(record));
    remote.rot(7);
    assert!(set(&["mem://h/a"], false).is_ok(), "not compared");
    assert!(set(&["mem://h/a"], true).is_err(), "compared");
    world.memory.add("mem://h/b", &bytes[1..]);
    assert!(set(&["mem://h/b"], false).is_err(), "another size");
}

/// Layout of a staged file.
fn layout_of(world: &World, path: &str) -> Arc<policy::layout::Layout> {
    world.file(path).layout().expect("objects")
}

/// [S-048]
#[test]
fn staged_files_take_mask_and_layout_request_as_created_ones_do() {
    use std::os::unix::fs::MetadataExt;
    let world = World::new();
    world.memory.add("mem://h/t/sub/large", &data(3_000_000, 12));
    world.memory.add("mem://h/t/small", &data(100, 12));
    let asked = world.tree.join("asked");
    std::fs::create_dir(&asked).expect("dir");
    let request_name = meta::namespace::attributes::REQUEST;
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&asked, request_name, b"stripe_count=2 stripe_size=64K single_max=64K mirrors=2", flags)
        .expect("request");
    let tight = Identity { umask: Some(0o027), ..who() };
    let tree = request(&["mem://h/t"], "asked/t");
    world.stager.silent(&tight).stage_in_tree(&tree, &Chosen::default()).expect("staged");
    let mode = |path: &str| std::fs::metadata(world.tree.join(path)).expect("there").mode() & 0o7777;
    for (path, expected) in [("t", 0o750), ("t/sub", 0o750), ("t/sub/large", 0o640), ("t/small", 0o640)] {
        assert_eq!(mode(&format!("asked/{path}")), expected, "{path}");
    }
    let layout = layout_of(&world, "asked/t/sub/large");
    let shape: Vec<_> =
        layout.mirrors.iter().map(|m| (m.segments[0].stripe_size, m.segments[0].objects.len())).collect();
    assert_eq!(shape, [(65536, 2); 2], "inherited through two directories that staging made");
    assert!(world.read("asked/t/sub/large") == data(3_000_000, 12));

    world.stage(&["mem://h/t/sub/large"], "plain").expect("staged");
    assert_eq!((mode("plain"), layout_of(&world, "plain").mirrors.len()), (0o644, 1), "a client that says nothing");
}

/// [S-048]
#[test]
fn a_default_acl_stands_in_for_the_mask() {
    let world = World::new();
    world.memory.add("mem://h/a", &data(100, 13));
    let shared = world.tree.join("shared");
    std::fs::create_dir(&shared).expect("dir");
    // Version 2; owner rwx, user 12345 rw-, group r-x, mask rwx, others nothing.
    let entries =
        [(0x01_u16, 7_u16, u32::MAX), (0x02, 6, 12345), (0x04, 5, u32::MAX), (0x10, 7, u32::MAX), (0x20, 0, u32::MAX)];
    let mut acl = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        acl.extend([&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    }
    if let Err(e) = rustix::fs::setxattr(&shared, "system.posix_acl_default", &acl, rustix::fs::XattrFlags::empty()) {
        eprintln!("skipped: no ACLs here: {e}");
        return;
    }
    std::fs::write(shared.join("made"), b"x").expect("write");
    let mut tight = request(&["mem://h/a"], "shared/staged");
    tight.replace = true;
    let who = Identity { umask: Some(0o077), ..who() };
    world.stage_as(&tight, &who).expect("staged");
    let access = |name: &str| {
        let mut value = vec![0; 1024];
        let len = rustix::fs::getxattr(shared.join(name), "system.posix_acl_access", &mut value).expect("an ACL");
        value.truncate(len);
        value
    };
    assert_eq!(access("staged"), access("made"));
}
