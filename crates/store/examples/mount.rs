//! Mounts a volume in the directory given, until it is unmounted: for the suites in `tests/`, which want a mount point.

#[allow(dead_code)]
#[path = "../tests/mount/volume.rs"]
mod volume;

fn main() {
    let dir = std::env::args_os().nth(1).expect("usage: mount DIRECTORY; mounts at DIRECTORY/mnt");
    let mut wanted = volume::Wanted::default();
    if let Some(inline) = std::env::args().nth(2) {
        wanted.inline_bytes_max = inline.parse().expect("bytes");
    }
    let volume = volume::Volume::start(std::path::Path::new(&dir), wanted);
    println!("mounted at {}", volume.at.display());
    volume.mount.wait().expect("served to the end");
}
