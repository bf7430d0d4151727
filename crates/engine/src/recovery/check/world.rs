//! A real volume in a temporary directory with its checker.

#![allow(missing_docs)] // a test double

use super::*;
use crate::source::memory::{Remote, data};
use crate::stage::world::{QUIET, World};
use object::target::Order;
use policy::protect::recovery;
use policy::{ObjectId, TargetId};

/// Size of a staged file.
pub const SIZE: usize = 12_000_007;

pub struct Checked {
    pub world: World,
    pub checker: Checker,
}

impl Drop for Checked {
    fn drop(&mut self) {
        self.checker.repair.stop();
    }
}

pub fn new() -> Checked {
    let world = World::new();
    let (volume, files) = world.parts();
    let side = volume.side().try_clone_to_owned().expect("side");
    let stats = volume.stats().clone();
    let config = recovery::Config::default();
    let repair = Repair::start(config, files.pool().clone(), world.memory.clone(), side, stats);
    assert!(files.pool().recovery.set(repair.clone()).is_ok());
    let mover = Arc::new(Mover::new(files.pool().clone(), volume.state().clone(), None));
    Checked { world, checker: Checker { volume, files, repair, mover, starts: Arc::default(), behalf: None } }
}

impl Checked {
    pub fn check(&self, repair: bool) -> Report {
        self.check_with(&CheckOptions { repair, ..CheckOptions::default() })
    }

    pub fn check_with(&self, options: &CheckOptions) -> Report {
        self.checker.check(options, QUIET, &Stop::default()).expect("checked")
    }

    /// Stages a file of [`SIZE`] bytes from a source of its own.
    pub fn staged(&self, path: &str, seed: u64) -> Arc<Remote> {
        let uri = format!("mem://h/{path}");
        let remote = self.world.memory.add(&uri, &data(SIZE, seed));
        self.world.stage(&[&uri], path).expect("staged");
        remote
    }

    pub fn layout(&self, path: &str) -> Arc<policy::layout::Layout> {
        let fd = std::fs::File::open(self.world.tree.join(path)).expect("there");
        self.checker.files.get_or_open(fd.into()).expect("opens").layout().expect("objects")
    }

    pub fn deep(&self, repair: bool) -> Report {
        self.check_with(&CheckOptions { repair, deep: true, ..CheckOptions::default() })
    }

    pub fn on_object<T: Send + 'static>(
        &self,
        object: policy::layout::Object,
        act: impl FnOnce(&dyn object::target::Handle) -> T + Send + 'static,
    ) -> T {
        let target = self.checker.volume.targets().get(object.target).expect("target");
        target.run(move |medium| medium.open(object.id).map(|handle| act(&*handle))).expect("there")
    }

    /// Changes the first bytes of an object.
    pub fn damage(&self, object: policy::layout::Object) {
        self.on_object(object, |handle| handle.write_at(100, &[0xee; 50]).expect("written"));
    }

    pub fn objects(&self) -> usize {
        let list = |t: Arc<object::target::Target>| t.run(|medium| medium.list()).expect("list").len();
        self.checker.volume.targets().all().into_iter().map(list).sum()
    }

    pub fn lose_attributes(&self, path: &str) {
        let path = self.world.tree.join(path);
        rustix::fs::removexattr(&path, meta::stub::real::LAYOUT_ATTRIBUTE).expect("it has a layout");
        let _ = rustix::fs::removexattr(&path, meta::stub::real::SOURCE_ATTRIBUTE); // not every file has one
    }

    /// An object of an earlier daemon that no file names.
    pub fn orphan(&self) -> Arc<object::target::Target> {
        let target = self.checker.volume.targets().all().remove(0);
        target.run(|medium| medium.create(ObjectId(5)).map(drop)).expect("made");
        target
    }

    pub fn open_file(&self, path: &str) -> crate::Result<Arc<crate::file::File>> {
        let mut options = std::fs::File::options();
        let fd = options.read(true).write(true).create(true).truncate(false).open(self.world.tree.join(path));
        self.checker.files.get_or_open(fd.expect("there").into())
    }

    pub fn fail(&self, target: TargetId) {
        self.checker.volume.targets().operate(target, Order::Fail).expect("failed");
    }

    pub fn restore(&self, target: TargetId) {
        self.checker.volume.targets().operate(target, Order::Restore).expect("restored");
    }

    pub fn remove_object(&self, object: policy::layout::Object) {
        let target = self.checker.volume.targets().get(object.target).expect("target");
        target.run(move |medium| medium.remove(object.id)).expect("removed");
    }
}

pub fn kinds(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(|f| f.kind).collect()
}
