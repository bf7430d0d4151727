//! The replica group of the burst buffer: what was demoted gets another copy, on a tier of its own or on other targets
//! of the capacity tier.

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

/// A volume whose replica group is a tier of its own.
fn far(dir: &std::path::Path) -> Option<Volume> {
    Volume::up_with(|text: String| {
        let target = format!("[[target]]\nname = \"far0\"\npath = {dir:?}\ntier = \"far\"\n\n[[target]]");
        let text = with_burst("size = \"20MB\"\nreplicas = \"far\"\norder = \"versions\"\n")(text);
        let text = text.replacen("[tier.capacity]\n", "[tier.capacity]\n[tier.far]\n", 1);
        text.replacen("[[target]]", &target, 1)
    })
}

#[test]
fn what_was_demoted_is_copied_to_the_replica_group() {
    let data = real::noise(3 << 20);
    let dir = tempfile::tempdir().expect("temp dir");
    let Some(volume) = far(dir.path()) else { return };
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

/// [S-187]
#[test]
fn what_could_not_be_copied_is_tried_again_also_after_a_restart() {
    let dir = tempfile::tempdir().expect("temp dir");
    let Some(volume) = far(dir.path()) else { return };
    volume.ok(&["target", "fail", "far0"]);
    let status = |key: &str| volume.json(&["checkpoint", "status"])[key].as_u64().expect("a number");
    for version in ["1", "2"] {
        write(&volume, "a", version, &real::noise(3 << 20)).expect("write");
        real::until("it is complete", || complete(&volume, "a", version));
    }
    real::until("both are demoted, whatever becomes of replicas", || status("demoted") == 2);
    assert_eq!((status("replicated"), status("lacking_replicas")), (0, 2));
    volume.kill();
    volume.up_again();
    assert_eq!(status("lacking_replicas"), 2, "as the layouts show");
    volume.ok(&["target", "restore", "far0"]);
    for version in ["1", "2"] {
        let file = format!("ckpt/a/{version}/state");
        real::until("it has a replica", || targets(&volume, &file).iter().any(|of| of.iter().all(|t| t == "far0")));
    }
    real::until("nothing is left to be copied", || status("lacking_replicas") == 0);
}
