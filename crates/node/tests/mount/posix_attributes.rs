//! Owners, modes, times, and extended attributes of files and directories.

use super::*;
use std::time::{SystemTime, UNIX_EPOCH};

/// [S-156]
#[test]
fn attributes_of_users_leave_room_for_a_layout() {
    let Some((volume, dir)) = mounted() else { return };
    let (path, stub) = (volume.at.join("f"), dir.path().join("namespace/tree/f"));
    fs::write(&path, b"small").unwrap();
    let stored = || {
        let mut value = [0; 64];
        rustix::fs::getxattr(&stub, "user.entrepot.layout", &mut value).map(|len| value[..len].to_vec())
    };
    assert_eq!(stored(), Err(Errno::NODATA), "nothing is kept before it is needed");
    rustix::fs::setxattr(&path, "user.mine", b"x", XattrFlags::empty()).unwrap();
    assert_eq!(stored(), Ok(b"room for the layout\n".to_vec()));
    let mut list = [0; 256];
    let len = rustix::fs::listxattr(&path, &mut list).unwrap();
    assert_eq!(&list[..len], b"user.mine\0");
    fs::write(&path, pattern(100_000)).unwrap();
    assert_eq!(fs::read(&path).unwrap(), pattern(100_000));
    assert_ne!(stored(), Ok(b"room for the layout\n".to_vec()));
    rustix::fs::setxattr(&path, "user.more", b"x", XattrFlags::empty()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), pattern(100_000), "its layout stays");
    let empty = volume.at.join("empty");
    File::create(&empty).unwrap();
    rustix::fs::setxattr(&empty, "user.mine", b"x", XattrFlags::empty()).unwrap();
    fs::remove_file(&empty).unwrap();
    fs::remove_file(&path).unwrap();
    volume.unmount().unwrap();
    assert_eq!(objects(&volume), 0);
}

/// [S-198]
#[test]
fn reading_a_file_replaces_a_time_of_access_that_is_older_than_a_day() {
    let Some((volume, dir)) = mounted() else { return };
    let directory = volume.at.join("d");
    fs::create_dir(&directory).unwrap();
    let day = Duration::from_secs(86_400);
    let (old, recent) = (UNIX_EPOCH + day, SystemTime::now() - day / 2);
    let files =
        [("small", 100, old), ("large", 300_000, old), ("recent", 100, recent), ("set", 100, old), ("ahead", 100, old)];
    let stub = |name: &str| dir.path().join("namespace/tree/d").join(name);
    let times = |accessed| fs::FileTimes::new().set_accessed(accessed);
    for (name, len, accessed) in files {
        fs::write(directory.join(name), pattern(len)).unwrap();
        OpenOptions::new().write(true).open(stub(name)).unwrap().set_times(times(accessed)).unwrap();
    }
    File::open(&directory).unwrap().set_times(times(old)).unwrap();
    for (name, len, _) in files {
        let flags = if name == "ahead" { rustix::fs::OFlags::NOATIME.bits() as i32 } else { 0 };
        let mut file = OpenOptions::new().read(true).custom_flags(flags).open(directory.join(name)).unwrap();
        if name == "set" {
            file.set_times(times(old)).unwrap();
        }
        assert_eq!(file.read_to_end(&mut Vec::new()).unwrap(), len, "{name}");
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), files.len());
    volume.unmount().unwrap(); // all files are closed
    let accessed = |name: &str| stub(name).metadata().unwrap().accessed().unwrap();
    for (name, _, before) in files {
        match name {
            "small" | "large" => assert!(accessed(name) > recent, "{name}"),
            _ => assert_eq!(accessed(name), before, "{name}"),
        }
    }
    assert_eq!(accessed(""), old, "that of the directory");
}

/// [S-007]
#[test]
fn layouts_are_asked_for_inherited_and_shown() {
    let Some((volume, _dir)) = mounted() else { return };
    let directory = volume.at.join("wide");
    fs::create_dir(&directory).unwrap();
    let layout = "user.entrepot.layout";
    rustix::fs::setxattr(&directory, layout, b"stripe_count=2 stripe_size=128K single_max=0", XattrFlags::empty())
        .unwrap();
    let refused = rustix::fs::setxattr(&directory, layout, b"stripe_count=none", XattrFlags::empty());
    assert_eq!(refused, Err(Errno::INVAL));
    fs::create_dir(directory.join("sub")).unwrap();
    let file = directory.join("sub/file");
    fs::write(&file, pattern(600_000)).unwrap();
    let mut text = [0; 1024];
    let len = rustix::fs::getxattr(&file, layout, &mut text).unwrap();
    let text = String::from_utf8_lossy(&text[..len]);
    assert!(text.contains("stripe_size=131072 stripe_count=2"), "{text}");
    assert!(fs::read(&file).unwrap() == pattern(600_000));
    let small = volume.at.join("small");
    fs::write(&small, b"x").unwrap();
    assert_eq!(rustix::fs::getxattr(&small, layout, &mut [0; 10]), Err(Errno::NODATA), "its bytes are in its stub");
    let hidden = rustix::fs::setxattr(&small, "user.entrepot.other", b"x", XattrFlags::empty());
    assert_eq!(hidden, Err(Errno::PERM));
    let mut names = [0; 1024];
    assert_eq!(rustix::fs::listxattr(&small, &mut names).unwrap(), 0);
}

/// [S-004]
#[test]
fn directories_give_their_group_and_default_acl() {
    let Some((volume, _dir)) = mounted() else { return };
    if !is_root() {
        return;
    }
    let directory = volume.at.join("shared");
    fs::create_dir(&directory).unwrap();
    std::os::unix::fs::chown(&directory, Some(0), Some(4321)).unwrap();
    fs::set_permissions(&directory, PermissionsExt::from_mode(0o2777)).unwrap();
    let as_nobody = |script: &str| sh_as_nobody(&directory, script);
    assert!(as_nobody("umask 027; touch file; mkdir sub; mkfifo pipe"));
    let stat = |name: &str| fs::metadata(directory.join(name)).unwrap();
    assert_eq!((stat("file").uid(), stat("file").gid(), stat("file").mode() & 0o7777), (65534, 4321, 0o640));
    assert_eq!((stat("sub").uid(), stat("sub").gid(), stat("sub").mode() & 0o7777), (65534, 4321, 0o2750));
    assert_eq!((stat("pipe").uid(), stat("pipe").gid()), (65534, 4321));
    assert!(!as_nobody("echo x > /dev/null && echo x > ../not-here"), "the root directory is root's");
    let acl = Command::new("setfacl").args(["-d", "-m", "u:daemon:rwx,g::r-x,o::---"]).arg(&directory).status();
    if !acl.is_ok_and(|s| s.success()) {
        return eprintln!("skipped the rest: no setfacl, or the namespace has no ACLs");
    }
    assert!(as_nobody("umask 077; touch inherited"));
    let shown = Command::new("getfacl").args(["-cpn"]).arg(directory.join("inherited")).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(
        shown.contains("user:1:rwx") && shown.contains("mask::rw-"),
        "the default ACL rules, not the mask: {shown}"
    );
}

#[test]
fn writing_takes_setuid_away_unless_root_writes() {
    let Some((volume, _dir)) = mounted() else { return };
    if !is_root() {
        return;
    }
    for len in [100, 700_000] {
        let path = volume.at.join(format!("program{len}"));
        fs::write(&path, pattern(len)).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o6777)).unwrap();
        OpenOptions::new().write(true).open(&path).unwrap().write_all(b"root").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o6777);
        let script = format!("printf nobody 1<> '{}'", path.display());
        assert!(sh_as_nobody(&volume.at, &script));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o777, "{len} bytes");
    }
}

/// [S-001] The kernel writes the object by itself, and its times would be the object's.
#[test]
fn times_that_were_set_stay_until_the_next_write() {
    let Some((volume, _dir)) = mounted() else { return };
    let dir = volume.at.join("single");
    fs::create_dir(&dir).unwrap();
    ask_for(&dir, "stripe_count=1");
    let path = dir.join("file");
    let modified = || fs::metadata(&path).unwrap().modified().unwrap();
    let then = UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    let mut file = File::create(&path).unwrap();
    file.write_all(&pattern(200_000)).unwrap();
    file.set_modified(then).unwrap(); // as `cp -p` does
    assert_eq!(modified(), then);
    drop(file);
    assert_eq!(modified(), then, "closing brought the object's time");
    drop(OpenOptions::new().write(true).open(&path).unwrap());
    assert_eq!(modified(), then, "nothing was written");
    OpenOptions::new().write(true).open(&path).unwrap().write_all(b"new").unwrap();
    assert!(modified() > then);
}
