//! One operation over one connection, and over others if that one breaks.

use super::{OpenFile, World};
use crate::broken::{is_broken, is_doubtful};
use crate::mounts::Root;
use crate::opened::Opened;
use crate::readers::about_to_wait;
use crate::set::Connections;
use policy::connections::{Direction, Part, Request};
use rustix::io::{Errno, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Retries of an open by name while renames change the path.
const TRIES: usize = 8;

pub(super) struct Descriptor {
    pub generation: u64,
    pub opened: Arc<Opened>,
}

impl OpenFile {
    /// Returns the descriptor on a connection's mount. An unlinked file keeps the descriptors that it has.
    pub(super) fn descriptor(&self, world: &World, root: &Root) -> Result<Arc<Opened>> {
        let slot = &self.descriptors[usize::from(root.number)];
        if let Some(open) = slot.lock().as_ref().filter(|open| open.generation == root.generation) {
            return Ok(open.opened.clone());
        }
        let opened = Arc::new(Opened::new(self.open_by_name(world, root)?, self.flags, root.client()));
        *slot.lock() = Some(Descriptor { generation: root.generation, opened: opened.clone() });
        Ok(opened)
    }

    fn open_by_name(&self, world: &World, root: &Root) -> Result<OwnedFd> {
        let mut last = Errno::STALE;
        for _ in 0..TRIES {
            let path = world.paths.path(self.id)?;
            match root.open(&path, self.flags) {
                Ok(fd) if world.paths.is(self.id, fd.as_fd())? => return Ok(fd),
                Ok(_) => last = Errno::STALE,
                Err(Errno::NOENT) => last = Errno::NOENT,
                Err(error) => return Err(error),
            }
            if world.paths.path(self.id).is_ok_and(|now| now == path) {
                break;
            }
        }
        Err(last)
    }

    /// Moves bytes over one connection; over others if that one breaks. `act` may run twice.
    pub(super) fn transfer(
        &self,
        world: &World,
        direction: Direction,
        bytes: u64,
        chosen: Option<Part>,
        act: impl Fn(&Opened) -> Result<usize>,
    ) -> Result<usize> {
        let set = &world.set;
        let (mut not, mut first, mut suspects) = (0u64, None, Vec::new());
        let mut part = match chosen {
            Some(part) => part,
            None => self.whole(set, direction, bytes, not)?,
        };
        let until = Instant::now() + set.options.patience;
        about_to_wait();
        loop {
            let (root, began) = (set.root(part.connection), Instant::now());
            let done = match &root {
                Some(root) => self.descriptor(world, root).and_then(|file| act(&file)),
                None => Err(Errno::NOTCONN),
            };
            let moved = done.as_ref().ok().map(|n| *n as u64);
            set.done(Some(&self.using), direction, part, began, moved);
            match (done, root) {
                (Ok(n), _) => {
                    // Another connection succeeded where these failed.
                    suspects.iter().for_each(|(root, error): &(Arc<Root>, Errno)| set.failed(root, *error));
                    if direction == Direction::Write {
                        self.unsynced.fetch_or(1 << part.connection.0, Ordering::Relaxed);
                    }
                    return Ok(n);
                }
                (Err(error), root) if is_broken(error) => {
                    if let Some(root) = &root {
                        set.failed(root, error);
                    }
                    if Instant::now() >= until {
                        return Err(Errno::IO);
                    }
                    if set.usable() & 1 << part.connection.0 != 0 {
                        set.breathe(); // no other connection is usable
                    }
                }
                (Err(error), Some(root)) if is_doubtful(error) => {
                    not |= 1 << root.number;
                    first.get_or_insert(error);
                    if matches!(error, Errno::STALE | Errno::BADFD) {
                        self.descriptors[usize::from(root.number)].lock().take();
                    }
                    if !matches!(error, Errno::NOENT | Errno::BADF) {
                        suspects.push((root, error));
                    }
                }
                (Err(error), _) => return Err(error),
            }
            part = match self.whole(set, direction, bytes, not) {
                Ok(part) => part,
                Err(error) => return Err(first.unwrap_or(error)),
            };
        }
    }

    pub(super) fn whole(&self, set: &Connections, direction: Direction, bytes: u64, not: u64) -> Result<Part> {
        let choice = set.choose(&self.using, Request { direction, bytes, whole: true }, not)?;
        Ok(choice.parts[0])
    }

    /// Runs another operation on the file that may be repeated.
    pub fn run<T>(&self, world: &World, act: impl Fn(BorrowedFd<'_>) -> Result<T>) -> Result<T> {
        self.queue.settle();
        let result = std::cell::RefCell::new(None);
        self.transfer(world, Direction::Read, 0, None, |file| {
            *result.borrow_mut() = Some(act(file.mounted())?);
            Ok(0)
        })?;
        result.into_inner().ok_or(Errno::IO)
    }
}
