//! Sources against real servers on loopback: nginx with and without ranges, sshd, vsftpd. The test starts each server
//! in a directory of its own and stops it; a test without its server is skipped with a message.

#[allow(dead_code, reason = "some of it is for the tests of the whole alone")]
mod server;

use engine::source::{EntryKind, Identity, Opener, Source, SourceError, Started};
use server::{Ftpd, Nginx, Sshd, data, who};
use source::{Settings, Sources};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

fn sources() -> Sources {
    let settings = Settings { timeout: Duration::from_secs(20), ..Settings::default() };
    Sources::new(settings).expect("runtime")
}

/// Reads ranges from several threads at once and all of it in order, and compares.
fn reads_well(source: &Arc<dyn Source>, expected: &[u8]) {
    let version = source.stat().expect("stat");
    assert_eq!(version.size, expected.len() as u64);
    assert!(source.has_ranges().expect("probe"));
    std::thread::scope(|scope| {
        for k in 0..12 {
            let version = &version;
            scope.spawn(move || {
                let offset = k * 70_001;
                let mut buf = vec![0; 300_000.min(expected.len() - offset)];
                source.read_at(version, offset as u64, &mut buf).expect("range");
                assert!(buf == expected[offset..offset + buf.len()], "range {k}");
            });
        }
    });
    let mut all = Vec::new();
    let mut each = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        true
    };
    source.read_all(&version, &mut each).expect("all");
    assert!(all == expected);
}

/// A range that ends beyond the file fails, and the bytes up to there are counted as they arrive.
fn counts_bytes_as_they_arrive(source: &Arc<dyn Source>, from: u64, len: usize) {
    let (version, arrived) = (source.stat().expect("stat"), AtomicU64::new(0));
    let read = source.fetch_at(&version, from, &mut vec![0; len], &arrived);
    assert!(matches!(read, Err(SourceError::Changed(_))), "{read:?}");
    assert!(arrived.into_inner() > 0);
}

/// A completed upload can be read back, byte for byte.
fn reads_back(sources: &Sources, at: &str, who: &Identity, expected: &[u8]) {
    let source = sources.open(at, who).expect("open");
    let version = source.stat().expect("stat");
    assert_eq!(version.size, expected.len() as u64);
    let mut all = Vec::new();
    let mut each = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        true
    };
    source.read_all(&version, &mut each).expect("all");
    assert!(all == expected);
}

/// Uploads, replaces, aborts, and checks the files that remain.
fn writes_well(sources: &Sources, uri: &str, who: &Identity, dir: &std::path::Path) {
    for size in [3_000_000, 17] {
        let bytes = data(size, 9);
        let Started { mut upload, at } = sources.create(uri, who).expect("create");
        for block in bytes.chunks(1 << 20) {
            upload.append(block).expect("append");
        }
        upload.complete(bytes.len() as u64).expect("complete");
        reads_back(sources, &at, who, &bytes);
        let version = upload.finish(bytes.len() as u64).expect("finish");
        assert_eq!(version.size, bytes.len() as u64);
        assert!(std::fs::read(dir.join("result")).expect("there") == bytes);
    }
    let mut upload = sources.create(uri, who).expect("create").upload;
    upload.append(b"half").expect("append");
    assert!(upload.finish(5).is_err(), "four bytes are not five");
    let mut upload = sources.create(uri, who).expect("create").upload;
    upload.append(b"half").expect("append");
    upload.abort();
    let mut upload = sources.create(uri, who).expect("create").upload;
    upload.append(b"whole, and found to be wrong").expect("append");
    upload.complete(28).expect("complete");
    upload.abort();
    assert!(std::fs::read(dir.join("result")).expect("there") == data(17, 9), "the old one stays");
    let names: Vec<_> = std::fs::read_dir(dir).expect("dir").map(|e| e.expect("entry").file_name()).collect();
    assert_eq!(names, ["result"], "no temporary file is left");
}

#[test]
fn http_with_ranges() {
    let Some(nginx) = Nginx::start() else { return };
    let bytes = data(2_000_000, 1);
    std::fs::write(nginx.root().join("a file"), &bytes).expect("write");
    let sources = sources();
    let source = sources.open(&nginx.uri("a%20file"), &who()).expect("open");
    reads_well(&source, &bytes);
    let version = source.stat().expect("stat");
    assert!(version.etag.is_some());
    std::fs::write(nginx.root().join("a file"), data(2_000_000, 2)).expect("write");
    let before = filetime(&nginx.root().join("a file"), 1_000_000_000);
    assert!(before);
    let changed = source.read_at(&version, 0, &mut [0; 10]);
    assert!(matches!(changed, Err(SourceError::Changed(_))), "{changed:?}");
    let missing = sources.open(&nginx.uri("none"), &who()).expect("open").stat();
    assert!(matches!(missing, Err(SourceError::Permanent(_))), "{missing:?}");
    assert_eq!(sources.sessions(), 1, "one session per server");
    std::fs::write(nginx.root().join("empty"), b"").expect("write");
    assert_eq!(sources.open(&nginx.uri("empty"), &who()).expect("open").stat().expect("stat").size, 0);
}

fn filetime(path: &std::path::Path, seconds: u64) -> bool {
    let file = std::fs::File::options().write(true).open(path).expect("open");
    file.set_modified(std::time::UNIX_EPOCH + Duration::from_secs(seconds)).is_ok()
}

#[test]
fn a_question_does_not_wait_behind_slow_transfers() {
    let Some(nginx) = Nginx::start() else { return };
    std::fs::write(nginx.root().join("x"), data(2_000_000, 1)).expect("write");
    let sources = sources();
    let source = sources.open(&nginx.uri("trickle/x"), &who()).expect("open");
    let version = source.stat().expect("stat");
    assert!(source.has_ranges().expect("probe"));
    let (source, version, n_done) = (&source, &version, &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for k in 0..8 {
            scope.spawn(move || {
                source.read_at(version, k, &mut vec![0; 1_000_000]).expect("range");
                n_done.fetch_add(1, Ordering::Relaxed);
            });
        }
        std::thread::sleep(Duration::from_millis(200));
        assert_eq!(source.stat().expect("stat").size, 2_000_000);
        assert_eq!(n_done.load(Ordering::Relaxed), 0, "all of them are still on their way");
    });
}

#[test]
fn http_without_ranges_is_found_out() {
    let Some(nginx) = Nginx::start() else { return };
    let bytes = data(2_000_000, 1);
    std::fs::write(nginx.root().join("x"), &bytes).expect("write");
    let source = sources().open(&nginx.uri_without_ranges("x"), &who()).expect("open");
    assert!(!source.has_ranges().expect("probe"));
    let version = source.stat().expect("stat");
    let refused = source.read_at(&version, 10, &mut [0; 10]);
    assert!(matches!(refused, Err(SourceError::Permanent(_))), "{refused:?}");
    let mut all = Vec::new();
    let mut each = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        true
    };
    source.read_all(&version, &mut each).expect("all");
    assert!(all == bytes);
}

/// [S-046]
#[test]
fn http_put_and_move() {
    let Some(nginx) = Nginx::start() else { return };
    writes_well(&sources(), &nginx.uri("up/result"), &who(), &nginx.root().join("up"));
}

/// [S-367]
#[test]
fn an_sftp_session_that_died_is_replaced_and_what_it_left_is_removed() {
    let Some(sshd) = Sshd::start() else { return };
    let (up, who, sources) = (sshd.dir().join("up"), sshd.who(), sources());
    std::fs::create_dir(&up).expect("dir");
    let uri = sshd.uri(&up.join("result"));
    let mut cut = sources.create(&uri, &who).expect("create").upload;
    cut.append(b"half").expect("append");
    sshd.end_sessions();
    let sent = cut.append(&[0; 1 << 20]).and_then(|()| cut.complete(4 + (1 << 20)));
    assert!(matches!(sent, Err(SourceError::Passing(_))), "{sent:?}");
    assert_eq!(cut.abort(), None, "removed over a session of its own");
    writes_well(&sources, &uri, &who, &up);
    // The present session dies while it is idle.
    sshd.end_sessions();
    writes_well(&sources, &uri, &who, &up);
    // The server is out of reach at the end of an upload. The next one to the same path removes the temporary file.
    let mut lost = sources.create(&uri, &who).expect("create").upload;
    lost.append(b"half").expect("append");
    std::fs::rename(&up, sshd.dir().join("away")).expect("rename");
    let lies = lost.abort().expect("it could not be removed");
    assert!(lies.contains("/up/.result.entrepot-"), "{lies}");
    std::fs::rename(sshd.dir().join("away"), &up).expect("rename");
    writes_well(&sources, &uri, &who, &up);
}

#[test]
fn a_server_that_is_gone_is_a_passing_failure() {
    let uri = format!("http://127.0.0.1:{}/x", server::port::free_port());
    let gone = sources().open(&uri, &who()).expect("open").stat();
    assert!(matches!(gone, Err(SourceError::Passing(_))), "{gone:?}");
}

#[test]
fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bind");
    let uri = format!("http://{}/x", listener.local_addr().expect("address"));
    let settings = Settings { timeout: Duration::from_millis(300), ..Settings::default() };
    let silent = Sources::new(settings).expect("runtime").open(&uri, &who()).expect("open").stat();
    assert!(matches!(silent, Err(SourceError::Passing(_))), "{silent:?}");
}

/// [S-046] [S-422]
#[test]
fn sftp() {
    let Some(sshd) = Sshd::start() else { return };
    let bytes = data(2_000_000, 3);
    let dir = sshd.dir().join("data dir");
    std::fs::create_dir(&dir).expect("dir");
    std::fs::write(dir.join("x"), &bytes).expect("write");
    let sources = sources();
    let who = sshd.who();
    let source = sources.open(&sshd.uri(&dir.join("x")), &who).expect("open");
    reads_well(&source, &bytes);
    counts_bytes_as_they_arrive(&source, 1_999_990, 20);
    assert_eq!(sources.sessions(), 1, "one session per server");
    let version = source.stat().expect("stat");
    let missing = sources.open(&sshd.uri(&dir.join("none")), &who).expect("open").stat();
    assert!(matches!(missing, Err(SourceError::Permanent(_))), "{missing:?}");
    assert!(filetime(&dir.join("x"), 1_000_000_000));
    let other = sources.open(&sshd.uri(&dir.join("x")), &who).expect("open");
    let changed = other.read_at(&version, 0, &mut [0; 10]);
    assert!(matches!(changed, Err(SourceError::Changed(_))), "{changed:?}");

    std::fs::create_dir(dir.join("sub")).expect("dir");
    std::fs::write(dir.join("sub/y"), b"y").expect("write");
    std::os::unix::fs::symlink("../x", dir.join("sub/l")).expect("link");
    let listed = sources.list(&sshd.uri(&dir), &who).expect("list");
    let listed: Vec<_> = listed.into_iter().map(|e| (e.path, e.kind)).collect();
    let expected = [
        ("sub".to_string(), EntryKind::Directory),
        ("sub/l".to_string(), EntryKind::Symlink("../x".into())),
        ("sub/y".to_string(), EntryKind::File(1)),
        ("x".to_string(), EntryKind::File(2_000_000)),
    ];
    assert_eq!(listed, expected);

    let up = sshd.dir().join("up");
    std::fs::create_dir(&up).expect("dir");
    writes_well(&sources, &sshd.uri(&up.join("result")), &who, &up);
}

#[test]
fn sftp_to_a_server_with_another_key_is_refused() {
    let Some(sshd) = Sshd::start() else { return };
    let known = sshd.dir().join("known_hosts");
    let other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHJrMJwNpKYXFWXkhgtuqt/qFqGoLnHZzLQUa0ZlYOlR";
    std::fs::write(&known, format!("[127.0.0.1]:{} {other}\n", sshd.port())).expect("write");
    let refused = sources().open(&sshd.uri(std::path::Path::new("/etc/passwd")), &sshd.who()).expect("open").stat();
    assert!(matches!(refused, Err(SourceError::Permanent(_))), "{refused:?}");
}

#[test]
fn ftp() {
    let Some(ftpd) = Ftpd::start() else { return };
    let bytes = data(2_000_000, 4);
    std::fs::write(ftpd.root().join("pub/x"), &bytes).expect("write");
    let sources = sources();
    let source = sources.open(&ftpd.uri("pub/x"), &who()).expect("open");
    reads_well(&source, &bytes);
    let missing = sources.open(&ftpd.uri("pub/none"), &who()).expect("open").stat();
    assert!(matches!(missing, Err(SourceError::Permanent(_))), "{missing:?}");
    let mut listed = sources.list(&ftpd.uri("pub"), &who()).expect("list");
    listed.sort_by(|a, b| a.path.cmp(&b.path));
    assert_eq!(listed.into_iter().map(|e| e.path).collect::<Vec<_>>(), ["up", "x"]);

    // Without temporary names: a completed file is there, and an aborted one is gone.
    let (uri, path) = (ftpd.uri("pub/up/result"), ftpd.root().join("pub/up/result"));
    for size in [3_000_000, 17] {
        let bytes = data(size, 9);
        let Started { mut upload, at } = sources.create(&uri, &who()).expect("create");
        bytes.chunks(1 << 20).for_each(|block| upload.append(block).expect("append"));
        upload.complete(size as u64).expect("complete");
        assert_eq!(at, uri);
        reads_back(&sources, &at, &who(), &bytes);
        assert_eq!(upload.finish(size as u64).expect("finish").size, size as u64);
        assert!(std::fs::read(&path).expect("there") == bytes);
    }
    let mut upload = sources.create(&uri, &who()).expect("create").upload;
    upload.append(b"wrong").expect("append");
    upload.complete(5).expect("complete");
    upload.abort();
    assert!(!path.exists(), "no wrong copy keeps the name");
}

/// [S-046] [S-422]
#[test]
fn local_files_and_the_volumes_own() {
    let dir = tempfile::tempdir().expect("dir");
    let bytes = data(1_500_000, 5);
    std::fs::write(dir.path().join("x"), &bytes).expect("write");
    std::fs::create_dir(dir.path().join("objects")).expect("dir");
    std::fs::write(dir.path().join("objects/o"), b"secret").expect("write");
    std::os::unix::fs::symlink("objects/o", dir.path().join("l")).expect("link");
    let settings = Settings { refused: vec![dir.path().join("objects")], ..Settings::default() };
    let sources = Sources::new(settings).expect("runtime");
    let uri = |name: &str| format!("file://{}/{name}", dir.path().display());
    let source = sources.open(&uri("x"), &who()).expect("open");
    reads_well(&source, &bytes);
    counts_bytes_as_they_arrive(&source, 0, 1_500_010);
    for inner in ["objects/o", "l", "objects/../l"] {
        assert!(matches!(sources.open(&uri(inner), &who()), Err(SourceError::Permanent(_))), "{inner}");
    }
    assert!(sources.create(&uri("objects/new"), &who()).is_err());
    assert_eq!(std::fs::read_dir(dir.path().join("objects")).expect("dir").count(), 1);
    let up = dir.path().join("up");
    std::fs::create_dir(&up).expect("dir");
    writes_well(&sources, &uri("up/result"), &who(), &up);
}

/// [S-366]
#[test]
fn what_is_no_plain_file_is_not_replaced_and_a_link_is_followed() {
    let dir = tempfile::tempdir().expect("dir");
    let at = |name: &str| dir.path().join(name);
    let uri = |name: &str| format!("file://{}/{name}", dir.path().display());
    std::fs::create_dir(at("directory")).expect("dir");
    rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), rustix::fs::Mode::RWXU).expect("pipe");
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).expect("socket");
    std::os::unix::fs::symlink("/dev/full", at("device")).expect("link");
    std::os::unix::fs::symlink("nowhere", at("dangling")).expect("link");
    let refused = [
        ("directory", "a directory"),
        ("pipe", "a named pipe"),
        ("socket", "a socket"),
        ("device", "a device"),
        ("dangling", "a symbolic link that leads nowhere"),
    ];
    for (name, kind) in refused {
        let error = sources().create(&uri(name), &who()).err().expect(name);
        assert!(matches!(&error, SourceError::Permanent(why) if why.contains(kind)), "{name}: {error:?}");
    }
    assert!(sources().create("file:///dev/full", &who()).is_err());
    std::fs::write(at("directory/file"), "old").expect("write");
    std::os::unix::fs::symlink("directory/file", at("link")).expect("link");
    let Started { mut upload, at: read_at } = sources().create(&uri("link"), &who()).expect("create");
    upload.append(b"new").expect("append");
    upload.complete(3).expect("complete");
    reads_back(&sources(), &read_at, &who(), b"new");
    upload.finish(3).expect("finish");
    assert!(std::fs::symlink_metadata(at("link")).expect("link").is_symlink());
    assert_eq!(std::fs::read(at("directory/file")).expect("read"), b"new");
}

#[test]
fn root_reads_local_files_with_the_users_rights() {
    if who().uid != 0 {
        eprintln!("skipped: needs root to act for another user");
        return;
    }
    let nobody = Identity { uid: 65534, gid: 65534, ..Identity::default() };
    let refused = sources().open("file:///etc/shadow", &nobody);
    assert!(matches!(refused, Err(SourceError::Denied(_))), "nobody may not read it");
    assert!(sources().open("file:///etc/passwd", &nobody).is_ok());
    assert!(sources().create("file:///etc/entrepot-test", &nobody).is_err());
}
