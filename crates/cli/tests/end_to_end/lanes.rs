//! Several processes on the files of a default volume beside drains, moves and mirrors: the short form of
//! `tests/lanes.py`.

use super::programs::{python, sources};
use super::real::{Volume, err, out};
use std::process::Command;

/// [S-010] [S-140]
#[test]
fn processes_agree_on_the_files_of_a_default_volume() {
    let (Some(python), Some(_can_mount)) = (python(), Volume::up()) else { return };
    let mut lane = Command::new(python);
    lane.arg(sources().join("tests/lanes.py")).args(["0.1", "1", env!("CARGO_BIN_EXE_entrepot")]);
    let done = lane.env_remove("ENTREPOT_VOLUME").output().expect("python3");
    assert!(done.status.success(), "{}{}", out(&done), err(&done));
    assert!(out(&done).contains("no difference, nothing left over"), "{}", out(&done));
}
