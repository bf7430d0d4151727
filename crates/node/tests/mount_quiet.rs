//! Requests of ordinary users leave no line in the log above debug: the log is not rotated.

#[allow(dead_code)]
#[path = "mount/volume.rs"]
mod volume;

use parking_lot::Mutex;
use rustix::io::Errno;
use std::fmt::{Debug, Write};
use std::fs::{self, File};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Lines logged at info or above, by our code and by libraries.
static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Ours;

struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, "{field}={value:?} ");
    }
}

impl Subscriber for Ours {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut words = Words(String::new());
        event.record(&mut words);
        LINES.lock().push(words.0);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Libraries;

impl log::Log for Libraries {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Info
    }
    fn log(&self, record: &log::Record<'_>) {
        if self.enabled(record.metadata()) {
            LINES.lock().push(record.args().to_string());
        }
    }
    fn flush(&self) {}
}

/// [S-142]
#[test]
fn odd_requests_leave_no_lines() {
    if volume::cannot_mount() {
        return;
    }
    tracing::subscriber::set_global_default(Ours).unwrap();
    log::set_logger(&Libraries).unwrap();
    log::set_max_level(log::LevelFilter::Info);
    let dir = tempfile::tempdir().unwrap();
    let volume = volume::Volume::start(dir.path(), volume::Wanted::default());
    let (at, path) = (&volume.at, volume.at.join("f"));
    fs::write(&path, vec![3; 400_000]).unwrap();
    // The kernel tries what is new to us once and remembers the answer.
    let odd = || {
        let file = File::options().read(true).write(true).open(&path).unwrap();
        assert_eq!(rustix::termios::tcgetattr(&file).unwrap_err(), Errno::NOTTY);
        assert!(!rustix::termios::isatty(File::open(at).unwrap()));
        let _ = rustix::fs::ioctl_getflags(&file);
        let _ = rustix::event::poll(&mut [rustix::event::PollFd::new(&file, rustix::event::PollFlags::IN)], None);
        let _ = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::COLLAPSE_RANGE, 0, 65_536);
        for (name, value) in
            [("user.entrepot.layout", "nonsense"), ("user.entrepot.source", "no://where"), ("user.entrepot.x", "")]
        {
            let _ = rustix::fs::setxattr(&path, name, value.as_bytes(), rustix::fs::XattrFlags::empty());
            let _ = rustix::fs::setxattr(at, name, value.as_bytes(), rustix::fs::XattrFlags::empty());
        }
        let _ = rustix::fs::statx(&file, "", rustix::fs::AtFlags::EMPTY_PATH, rustix::fs::StatxFlags::ALL);
        let flags = rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR;
        let _ = rustix::fs::open(at, flags, rustix::fs::Mode::RUSR);
        let _ = rustix::fs::syncfs(&file);
        let _ = fs::read(at.join(".stats"));
        let _ = fs::remove_file(at.join(".stats"));
    };
    odd();
    LINES.lock().clear();
    // Two processes that remove the same files and directories, large ones and such with a request to inherit.
    rustix::fs::setxattr(at, "user.entrepot.layout", b"mirrors=1", rustix::fs::XattrFlags::empty()).unwrap();
    let (turns, raced) = (std::sync::Barrier::new(2), at.join("raced"));
    let race = |makes: bool| {
        for turn in 0..60 {
            if makes && turn % 2 == 0 {
                fs::write(&raced, vec![3; 100_000]).unwrap();
            }
            turns.wait();
            if makes && turn % 2 == 1 {
                let _ = fs::create_dir(&raced);
            }
            let _ = fs::remove_file(&raced);
            let _ = fs::remove_dir(&raced);
            turns.wait();
            let _ = fs::remove_dir(&raced);
            turns.wait();
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| race(false));
        race(true);
    });
    for _ in 0..3 {
        odd();
    }
    assert_eq!(*LINES.lock(), Vec::<String>::new());
    // A line of a library would be recorded.
    log::warn!("a library");
    tracing::info!("ours");
    assert_eq!(LINES.lock().len(), 2);
}
