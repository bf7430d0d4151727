//! A volume in a temporary directory, mounted, with as many targets as wanted; gone at the end, whatever the test did.

use engine::cache::BlockCache;
use engine::file::{Adviser, File, FileTable, Pool};
use engine::stats::Stats;
use engine::volume::VolumeId;
use meta::namespace::Namespace;
use meta::places::Places;
use node::mount::{Mount, Options, Parts, Sources};
use object::target::{
    DirectoryMedium, Execution, Identity, InlineSlots, Limits, Medium, State, TargetSpec, Targets, TargetsOptions,
};
use policy::cache::LevelConfig;
use policy::layout::Placement;
use policy::{TargetId, Time};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Source records that are kept as they are set: the volume has no staging.
struct PlainSources;

impl Sources for PlainSources {
    fn set(&self, file: &Arc<File>, _uid: u32, text: &str) -> std::result::Result<(), object::Error> {
        file.set_source((!text.is_empty()).then_some(text))
    }
    fn show(&self, file: &Arc<File>) -> std::result::Result<Option<String>, object::Error> {
        file.source()
    }
}

/// Parameters of a test's volume.
pub struct Wanted {
    pub targets: u16,
    pub placement: Placement,
    pub inline_bytes_max: u64,
    pub options: Options,
    /// The block cache, if there is to be one.
    pub cache: Option<LevelConfig>,
    pub deadline: Duration,
    /// Observer of applications' operations, if any.
    pub adviser: Option<Arc<dyn Adviser>>,
    /// Puts something between a target and its directory.
    pub wrap: fn(u16, Arc<dyn Medium>) -> Arc<dyn Medium>,
}

impl Default for Wanted {
    fn default() -> Wanted {
        let stripe = 64 << 10;
        Wanted {
            targets: 4,
            placement: Placement {
                stripe_size: stripe,
                stripe_count: 4,
                single_bytes_max: 4 * stripe,
                segment_bytes: 0,
                mirrors: 1,
                tier: None,
            },
            inline_bytes_max: 16 << 10,
            options: Options {
                threads: 6,
                entry_timeout: Duration::from_millis(100),
                attr_timeout: Duration::from_millis(100),
                ..Options::default()
            },
            cache: None,
            adviser: None,
            deadline: Limits::default().deadline,
            wrap: |_, medium| medium,
        }
    }
}

/// A mounted volume.
pub struct Volume {
    pub mount: Mount,
    pub targets: Arc<Targets>,
    pub places: Arc<Places>,
    pub files: Arc<FileTable>,
    pub stats: Arc<Stats>,
    pub at: PathBuf,
    pub dir: PathBuf,
}

impl Volume {
    /// Mounts a volume in `dir`, formatting what is new there.
    pub fn start(dir: &Path, wanted: Wanted) -> Volume {
        let namespace = dir.join("namespace");
        for part in ["namespace/tree", "namespace/side", "namespace/open", "namespace/staging"] {
            std::fs::create_dir_all(dir.join(part)).unwrap();
        }
        // It exists, and cannot be looked at, where a killed daemon left its mount.
        let _ = std::fs::create_dir(dir.join("mnt"));
        let targets = Targets::new(TargetsOptions {
            execution: Execution::Threads,
            limits: Limits { deadline: wanted.deadline, ..Limits::default() },
            slots: Arc::new(InlineSlots::new(wanted.options.threads - 2)),
            health: Default::default(),
        });
        for number in 0..wanted.targets {
            let path = dir.join(format!("target{number}"));
            std::fs::create_dir_all(&path).unwrap();
            let name = format!("t{number}");
            let identity = Identity { volume: VolumeId(7), target: TargetId(number), name: name.clone() };
            DirectoryMedium::format(&path, &identity).unwrap();
            let medium = (wanted.wrap)(number, Arc::new(DirectoryMedium::new(&path, identity)));
            medium.probe().unwrap();
            targets.add(TargetSpec {
                id: TargetId(number),
                name,
                tier: 0,
                medium,
                state: State::Ok,
                failed_by_operator: false,
            });
        }
        let first = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
        let next = AtomicU64::new(first);
        let pool = Arc::new(Pool {
            inline_bytes_max: wanted.inline_bytes_max,
            clock: Box::new(|| Time(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64)),
            ..Pool::new(targets.clone(), move || next.fetch_add(1, Ordering::Relaxed), wanted.placement)
        });
        if let Some(level) = wanted.cache {
            let cache = BlockCache::new(level, wanted.deadline).unwrap();
            pool.cache.set(cache).ok().unwrap();
        }
        pool.advisers.set(wanted.adviser.into_iter().collect()).ok().unwrap();
        let flags = rustix::fs::OFlags::PATH | rustix::fs::OFlags::DIRECTORY | rustix::fs::OFlags::CLOEXEC;
        let tree = rustix::fs::open(namespace.join("tree"), flags, rustix::fs::Mode::empty()).unwrap();
        let places = Places::open(&dir.join("files.db"), &namespace).unwrap();
        pool.places.set(places.clone()).ok().unwrap();
        let files = FileTable::new(pool.clone(), namespace);
        let stats = Arc::new(Stats::new());
        let parts = Parts {
            namespace: Arc::new(Namespace::new(tree).unwrap().telling(places.clone())),
            files: files.clone(),
            pool,
            stats: stats.clone(),
            tiers: vec!["fast".into()],
            sources: Arc::new(PlainSources),
            uses: None,
        };
        let at = dir.join("mnt");
        let mount = Mount::start(parts, wanted.options, &at).unwrap();
        Volume { mount, targets, places, files, stats, at: at.canonicalize().unwrap(), dir: dir.to_path_buf() }
    }

    /// Unmounts, and waits for requests under way.
    pub fn unmount(&self) -> std::io::Result<()> {
        self.mount.take_away().map_err(std::io::Error::other)?;
        self.mount.wait()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            let _ = self.mount.abort();
        }
        self.places.write_noted();
        self.targets.stop();
    }
}

/// Whether FUSE is missing here; prints so.
pub fn cannot_mount() -> bool {
    match std::fs::OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => false,
        Err(error) => {
            eprintln!("skipped: /dev/fuse cannot be opened: {error}");
            true
        }
    }
}
