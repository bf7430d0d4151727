//! Asynchronous reads and writes over the library: begun by the thread that brings the request, completed on the
//! library's thread.
//!
//! ```text
//!   one usable connection, the file open over its library -> begin -- ended well --> answer
//!        else: this thread does it and waits                   `---- failed -----> another thread repeats it and waits
//! ```
//! So a request wakes as many threads as in a mount of the library's own, and a connection that hangs blocks no
//! thread of ours.

use super::{OpenFile, World};
use crate::aligned::Aligned;
use crate::broken::is_broken;
use crate::client::ClientFile;
use crate::mounts::Root;
use crate::readers::about_to_wait;
use node::mount::slow::OWN;
use policy::connections::{Choice, Direction, Part, Request};
use rustix::io::{Errno, Result};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Completion callback of a read.
pub(crate) type Answer = Box<dyn FnOnce(Result<&[u8]>) + Send>;

/// Result of trying to begin a write.
pub(crate) enum Begun {
    /// The write has begun, and completes on its own.
    Yes,
    /// The write needs a thread that may block, over the connections chosen so far, if any.
    No(Option<Choice>),
}

impl OpenFile {
    /// Reads, and passes the result to `done` before this returns or later.
    pub fn begin_read(self: &Arc<Self>, world: &Arc<World>, offset: u64, length: usize, answer: Answer) {
        self.queue.settle_range(&(offset..offset.saturating_add(length as u64)));
        let request = Request { direction: Direction::Read, bytes: length as u64, whole: false };
        let chosen = if world.set.over_library { world.set.choose_now(&self.using, request) } else { None };
        let Some((part, root, file)) = chosen.as_ref().and_then(|choice| self.open_over_library(world, choice)) else {
            return self.read_now(world, offset, length, chosen, answer);
        };
        let (open, inside, began) = (self.clone(), world.clone(), Instant::now());
        let done = move |read: Result<Aligned>| {
            open.ended(
                &inside,
                Direction::Read,
                part,
                began,
                &root,
                read.as_ref().map(|bytes| bytes.len()).map_err(|e| *e),
            );
            match read {
                Ok(bytes) => answer(Ok(&bytes)),
                Err(_) => again(&inside.clone(), move || open.read_now(&inside, offset, length, None, answer)),
            }
        };
        file.begin_read(length, offset, Box::new(done));
    }

    fn read_now(
        self: &Arc<Self>,
        world: &Arc<World>,
        offset: u64,
        length: usize,
        chosen: Option<Choice>,
        answer: Answer,
    ) {
        about_to_wait();
        let mut buffer = Aligned::room(length);
        let read = self.read(world, offset, &mut buffer, chosen);
        answer(read.map(|n| &buffer[..n]));
    }

    /// Begins a write of `data` if this does not block. `done` receives the result.
    pub fn begin_write<D: AsRef<[u8]> + Send + Sync + 'static>(
        self: &Arc<Self>,
        world: &Arc<World>,
        offset: u64,
        data: &Arc<D>,
        done: impl FnOnce(Result<()>) + Send + 'static,
    ) -> Begun {
        if !world.set.over_library {
            return Begun::No(None);
        }
        let length = (**data).as_ref().len();
        let request = Request { direction: Direction::Write, bytes: length as u64, whole: false };
        let chosen = world.set.choose_now(&self.using, request);
        let Some((part, root, file)) = chosen.as_ref().and_then(|choice| self.open_over_library(world, choice)) else {
            return Begun::No(chosen);
        };
        let (open, inside, bytes, began) = (self.clone(), world.clone(), data.clone(), Instant::now());
        let ended = move |written: Result<usize>| {
            let written = written.and_then(|n| if n == length { Ok(n) } else { Err(Errno::IO) });
            open.ended(&inside, Direction::Write, part, began, &root, written);
            match written {
                Ok(_) => {
                    open.unsynced.fetch_or(1 << part.connection.0, Ordering::Relaxed);
                    done(Ok(()));
                }
                Err(_) => again(&inside.clone(), move || {
                    done(open.write_through(&inside, offset, (*bytes).as_ref(), None));
                }),
            }
        };
        file.begin_write((**data).as_ref(), offset, Box::new(ended));
        Begun::Yes
    }

    /// Returns the one chosen connection, if the file is open over its library.
    fn open_over_library(&self, world: &World, choice: &Choice) -> Option<(Part, Arc<Root>, Arc<dyn ClientFile>)> {
        let [part] = choice.parts[..] else { return None };
        let root = world.set.root(part.connection)?;
        let slot = self.descriptors[usize::from(root.number)].lock();
        let open = slot.as_ref().filter(|open| open.generation == root.generation)?;
        Some((part, root, open.opened.over_library()?))
    }

    /// Accounts for a part that has ended, with or without an error.
    fn ended(
        &self,
        world: &World,
        direction: Direction,
        part: Part,
        began: Instant,
        root: &Root,
        moved: Result<usize>,
    ) {
        world.set.done(Some(&self.using), direction, part, began, moved.ok().map(|n| n as u64));
        if let Err(error) = moved
            && is_broken(error)
        {
            world.set.failed(root, error);
        }
    }
}

/// Runs `work` on a thread that may block.
fn again(world: &World, work: impl FnOnce() + Send + 'static) {
    if let Err(work) = world.again.push_now(OWN, Box::new(work)) {
        work(); // shutting down
    }
}
