//! A volume in a temporary directory, with sources in memory.

#![allow(missing_docs)] // a test double

use super::*;
use crate::file::Pool;
use crate::source::Identity;
use crate::source::memory::Memory;
use crate::volume::{self, Config};
use policy::Time;
use std::path::PathBuf;

/// A volume in a temporary directory, and sources in memory.
pub struct World {
    pub stager: Stager,
    pub memory: Arc<Memory>,
    pub tree: PathBuf,
    pub dir: tempfile::TempDir,
}

fn now() -> Time {
    Time(object::since_1970().as_nanos() as u64)
}

/// A callback that ignores reports.
pub const QUIET: Report = &|_| {};
pub fn who() -> Identity {
    let uid = rustix::process::geteuid().as_raw();
    Identity { uid, gid: rustix::process::getegid().as_raw(), ..Identity::default() }
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}

impl World {
    pub fn new() -> World {
        World::with("")
    }

    /// A world with more text under `[stage]` in its `volume.toml`.
    pub fn with(more: &str) -> World {
        let dir = tempfile::tempdir().expect("dir");
        let file = volume::init(&dir.path().join("v"), None).expect("init");
        let text = std::fs::read_to_string(&file).expect("volume.toml");
        let text = text.replace("\n[stage]\n", &format!("\n[stage]\n{more}\n"));
        std::fs::write(&file, text).expect("written");
        let config = Config::load(&file).expect("config");
        World::open(dir, config)
    }

    pub fn open(dir: tempfile::TempDir, config: Config) -> World {
        let namespace = config.namespace.clone();
        let volume = Arc::new(Volume::open(config, &crate::volume::NoServers).expect("volume"));
        let ids = volume.clone();
        let pool = Arc::new(Pool {
            inline_bytes_max: 65536,
            clock: Box::new(now),
            ..Pool::new(volume.targets().clone(), move || ids.next_id().expect("number"), volume.placement())
        });
        let files = FileTable::new(pool, namespace.clone());
        let memory = Arc::new(Memory::default());
        let stager = Stager::new(volume, files, memory.clone());
        World { stager, memory, tree: namespace.join("tree"), dir }
    }

    pub fn stage(&self, uris: &[&str], path: &str) -> Result<Staged, StageError> {
        self.stage_as(&request(uris, path), &who())
    }

    /// Stages with a request of its own.
    pub fn stage_as(&self, what: &StageIn, who: &Identity) -> Result<Staged, StageError> {
        self.stager.silent(who).stage_in(what)
    }

    pub fn stage_out(&self, what: &StageOut) -> Result<Staged, StageError> {
        self.stager.silent(&who()).stage_out(what)
    }

    pub fn file(&self, path: &str) -> Arc<crate::file::File> {
        let fd = std::fs::File::options().read(true).write(true).open(self.tree.join(path)).expect("there");
        self.stager.files.get_or_open(fd.into()).expect("opens")
    }

    pub fn read(&self, path: &str) -> Vec<u8> {
        let file = self.file(path);
        let mut bytes = vec![0; file.size() as usize];
        assert_eq!(file.read(0, &mut bytes).expect("read"), bytes.len());
        bytes
    }

    /// The volume and its files.
    pub fn parts(&self) -> (Arc<Volume>, Arc<FileTable>) {
        (self.stager.volume.clone(), self.stager.files.clone())
    }

    pub fn staging_is_empty(&self) -> bool {
        let staging = self.tree.with_file_name("staging");
        std::fs::read_dir(staging).expect("dir").next().is_none()
            && self.stager.volume.state().stagings().expect("state").is_empty()
    }
}

/// Request to stage in these sources.
pub fn request(uris: &[&str], path: &str) -> StageIn {
    StageIn { uris: uris.iter().map(|u| u.to_string()).collect(), path: path.into(), ..StageIn::default() }
}
