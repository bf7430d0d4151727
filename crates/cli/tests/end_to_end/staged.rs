//! Attributes of staged files: the layout request of their directory, and permissions under the user's umask.

use crate::real::{Volume, err, noise};
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// [S-048]
#[test]
fn the_mask_of_the_shell_and_the_request_of_the_directory() {
    let Some(volume) = Volume::up() else { return };
    let from = volume.dir.path().join("input");
    std::fs::write(&from, noise(3 << 20)).expect("write");
    let directory = volume.at.join("d");
    std::fs::create_dir(&directory).expect("directory");
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&directory, "user.entrepot.layout", b"stripe_count=2 stripe_size=128K single_max=128K", flags)
        .expect("request");
    let script = "umask 027; exec \"$0\" stage in \"file://$1\" d/";
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).arg(&volume.binary).arg(&from).current_dir(&volume.at);
    let staged = shell.output().expect("sh");
    assert!(staged.status.success(), "{}", err(&staged));
    assert_eq!(std::fs::metadata(directory.join("input")).expect("there").mode() & 0o777, 0o640);
    let layout = volume.json(&["layout", "d/input"]);
    let segment = &layout["mirrors"][0]["segments"][0];
    assert_eq!(segment["stripe_size"], 128 << 10, "{layout}");
    assert_eq!(segment["objects"].as_array().expect("objects").len(), 2, "{layout}");
}
