//! Checksum manifests: each file is compared; files with wrong checksums are not put in place and do not stop the
//! others.

use super::*;

fn sum(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

fn what(name: &str, text: Option<String>, keep: bool) -> ManifestIn {
    ManifestIn { name: name.into(), text, from: Some("mem://h/set".into()), path: "in".into(), replace: false, keep }
}

/// [S-266]
#[test]
fn wrong_files_are_not_put_in_place_and_keep_no_other_back() {
    let world = World::new();
    let (large, small) = (data(5_000_000, 1), data(1000, 2));
    world.memory.add("mem://h/set/d/large", &large);
    world.memory.add("mem://h/set/a%20b", &small);
    let wrong = world.memory.add("mem://h/set/wrong", &large);
    wrong.rot(4_000_000);
    world.memory.add("mem://h/set/more", b"not in the manifest");
    let list = |names: &[(&str, &[u8])]| -> String {
        names.iter().map(|(name, bytes)| format!("{}  {name}\n", sum(bytes))).collect()
    };
    let text = list(&[("d/large", &large), ("wrong", &large), ("a b", &small)]);
    world.memory.add("mem://h/set/B3SUMS", text.as_bytes());
    let stage = |what: &ManifestIn| world.stager.silent(&who()).stage_in_manifest(what, &Chosen::default());
    let Err(StageError::Files { failed: 1, of: 3, first }) = stage(&what("mem://h/set/B3SUMS", None, false)) else {
        panic!("one of three")
    };
    assert!(first[0].starts_with("in/wrong: the BLAKE3 checksum of the received bytes is "), "{first:?}");
    assert!(world.read("in/d/large") == large && world.read("in/a b") == small);
    assert!(!world.tree.join("in/wrong").exists() && !world.tree.join("in/more").exists());
    assert!(world.staging_is_empty(), "what is wrong is given up");

    // A repetition after the source is right: files in place are compared and not fetched.
    wrong.put(large.clone());
    let staged = stage(&what("mem://h/set/B3SUMS", None, true)).expect("all of them");
    assert_eq!((staged.files, staged.fetched_bytes), (3, 5_000_000));
    let other = what("B3SUMS", Some(list(&[("d/large", &small)])), true);
    assert!(matches!(stage(&other), Err(StageError::Files { failed: 1, .. })), "what is there is compared too");
}

#[test]
fn a_manifest_that_is_not_there_or_is_none_changes_nothing() {
    let world = World::new();
    world.memory.add("mem://h/bytes", &[0xff; 100]);
    for uri in ["mem://h/none", "mem://h/bytes"] {
        let said = world.stager.silent(&who()).stage_in_manifest(&what(uri, None, false), &Chosen::default());
        let said = said.expect_err("refused").to_string();
        assert!(said.starts_with(uri), "{said}");
        assert!(!world.tree.join("in").exists());
    }
}
