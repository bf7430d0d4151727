//! Appends to a file: over one connection, and sent again only if the bytes did not arrive.

use super::{OpenFile, World};
use crate::aligned::Aligned;
use crate::broken::{is_broken, sent};
use crate::opened::Opened;
use crate::readers::about_to_wait;
use policy::connections::{Direction, Operation, Sent, Verdict, verdict};
use rustix::fs::{OFlags, fstat};
use rustix::io::{Errno, Result, fcntl_dupfd_cloexec};
use std::sync::atomic::Ordering;
use std::time::Instant;

impl OpenFile {
    /// Appends over one connection. `expected` is the end of the file in the kernel's view; after a connection
    /// broke, it shows whether the bytes arrived.
    pub(super) fn append(&self, world: &World, expected: u64, data: &[u8]) -> Result<()> {
        about_to_wait();
        let set = &world.set;
        let mut appends = self.appends.lock();
        let until = Instant::now() + set.options.patience;
        loop {
            let on = match appends.filter(|c| set.usable() & 1 << c.0 != 0) {
                Some(on) => set.begin(on, data.len() as u64),
                None => {
                    let part = self.whole(set, Direction::Write, data.len() as u64, 0)?;
                    // Ends the choice for this file, since the following parts use `begin` instead.
                    set.done(Some(&self.using), Direction::Write, part, Instant::now(), Some(0));
                    set.begin(part.connection, data.len() as u64)
                }
            };
            *appends = Some(on.connection);
            let (root, began) = (set.root(on.connection), Instant::now());
            let done = match &root {
                Some(root) => self.descriptor(world, root).and_then(|file| file.append(data)),
                None => Err(Errno::NOTCONN),
            };
            set.done(None, Direction::Write, on, began, done.as_ref().ok().map(|n| *n as u64));
            match (done, root) {
                (Ok(_), _) => {
                    self.unsynced.fetch_or(1 << on.connection.0, Ordering::Relaxed);
                    return Ok(());
                }
                (Err(error), root) if is_broken(error) && Instant::now() < until => {
                    let mut how_far = Sent::Never;
                    if let Some(root) = &root {
                        how_far = sent(root, error);
                        set.failed(root, error);
                    }
                    if set.usable() & 1 << on.connection.0 != 0 {
                        set.breathe();
                    }
                    if verdict(Operation::Append, how_far) == Verdict::Look && self.arrived(world, expected, data)? {
                        return Ok(());
                    }
                }
                (Err(error), _) => return Err(error),
            }
        }
    }

    /// Returns whether appended bytes are in the file; an error if the file has grown without them.
    fn arrived(&self, world: &World, expected: u64, data: &[u8]) -> Result<bool> {
        let file = OpenFile::open(world, self.id, OFlags::RDONLY, 0)?;
        let looked = file.run(world, |fd| {
            if fstat(fd)?.st_size as u64 <= expected {
                return Ok(false);
            }
            let mut found = Aligned::room(data.len());
            let n = Opened::new(fcntl_dupfd_cloexec(fd, 0)?, OFlags::RDONLY, None).read(expected, &mut found)?;
            if n == data.len() && *found == *data { Ok(true) } else { Err(Errno::IO) }
        });
        file.close(world);
        looked
    }
}
