//! The replica group of the burst buffer: what was demoted gets another copy, on a tier of its own or on other targets of the capacity tier.

use super::burst::{complete, tiers, with_burst, write};
use super::real::{self, Volume};
use serde_json::Value;
use std::collections::BTreeSet;

/// The targets of each of a file's copies.
fn targets(volume: &Volume, file: &str) -> Vec<BTreeSet<String>> {
    let layout = volume.json(&["layout", file]);
    let of = |mirror: &Value| {
        let segments = mirror["segments"].as_array().expect("segments");
        let objects = segments.iter().flat_map(|segment| segment["objects"].as_array().expect("objects"));
        objects.map(|object| object["target"].as_str().expect("a target").to_owned()).collect()
    };
    layout["mirrors"].as_array().expect("mirrors").iter().map(of).collect()
}

#[test]
fn what_was_demoted_is_copied_to_the_replica_group() {
    let data = real::noise(3 << 20);
    // A tier of its own.
    let dir = tempfile::tempdir().expect("temp dir");
    let far = |text: String| {
        let target = format!("[[target]]\nname = \"far0\"\npath = {:?}\ntier = \"far\"\n\n[[target]]", dir.path());
        let text = with_burst("size = \"20MB\"\nreplicas = \"far\"\norder = \"versions\"\n")(text);
        let text = text.replacen("[tier.capacity]\n", "[tier.capacity]\n[tier.far]\n", 1);
        text.replacen("[[target]]", &target, 1)
    };
    let Some(volume) = Volume::up_with(far) else { return };
    write(&volume, "a", "1", &data).expect("write");
    real::until("it is complete", || complete(&volume, "a", "1"));
    real::until("it has a replica", || {
        targets(&volume, "ckpt/a/1/state").iter().any(|of| of.iter().all(|target| target == "far0"))
    });
    let copies = targets(&volume, "ckpt/a/1/state");
    assert!(copies.iter().any(|of| of.iter().any(|target| target.starts_with("capacity"))), "{copies:?}");
    assert!(volume.json(&["checkpoint", "status"])["replicated"].as_u64() > Some(0));
    // The replica is a copy like another: with all others away the bytes come from it.
    for target in ["fast0", "fast1", "fast2", "capacity0", "capacity1", "capacity2"] {
        volume.ok(&["target", "fail", target]);
    }
    assert!(std::fs::read(volume.at.join("ckpt/a/1/state")).expect("read") == data);
}

#[test]
fn the_replica_group_may_be_the_capacity_tier_itself() {
    let edit = with_burst("size = \"20MB\"\nreplicas = \"capacity\"\norder = \"versions\"\n");
    let Some(volume) = Volume::up_with(|text| edit(text).replacen("# stripe_count = 4", "stripe_count = 1", 1)) else {
        return;
    };
    let data = real::noise(3 << 20);
    write(&volume, "a", "1", &data).expect("write");
    real::until("it is complete", || complete(&volume, "a", "1"));
    real::until("two copies are below", || tiers(&volume, "ckpt/a/1/state") == ["fast", "capacity", "capacity"]);
    let copies = targets(&volume, "ckpt/a/1/state");
    assert!(copies[1].is_disjoint(&copies[2]), "on other targets: {copies:?}");
    assert!(std::fs::read(volume.at.join("ckpt/a/1/state")).expect("read") == data);
}
