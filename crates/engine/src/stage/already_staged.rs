//! Repeated staging. An unchanged file from the same source is kept, and a verified one can be verified again. Remains
//! of an abandoned staging can be removed.

use super::checksum::{Checksum, Expected};
use super::place::{Place, names};
use super::record::Progress;
use super::sources::Sources;
use super::{Result, StageError, StageIn, Stop, Transfer, sums};
use crate::file::File;
use crate::source::Record;
use meta::descent::Descent;
use object::host::remembered;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum wait for a staging to stop; a longer one hangs in a device.
const STOP_WAIT_MAX: Duration = Duration::from_secs(10);
const STOP_LOOK_EVERY: Duration = Duration::from_millis(20);
/// Twice the time in which the control socket detects that a caller hung up.
const HANG_UP_NOTICED: Duration = Duration::from_millis(400);

impl Transfer<'_> {
    /// Returns the file at `place` if it came from one of these sources and was not written to since.
    pub(super) fn there(&self, place: &Place, what: &StageIn) -> Result<Option<(Arc<File>, Record)>> {
        let regular = place.stat()?.is_some_and(|s| FileType::from_raw_mode(s.st_mode) == FileType::RegularFile);
        if !what.keep || !regular {
            return Ok(None);
        }
        let fd = self.open_at(&names(&place.shown)?, OFlags::RDONLY | OFlags::NOFOLLOW)?;
        let file = self.files.get_or_open(fd)?;
        let Some(record) = file.source()?.map(|text| Record::parse(&text)).transpose()? else { return Ok(None) };
        let ours = !record.modified && record.sources.iter().any(|source| what.uris.contains(&source.uri));
        Ok(ours.then_some((file, record)))
    }

    /// Compares a file with its first source: returns its size if the source still has the staged version, `None` for
    /// another version.
    pub(super) fn still_the_same(
        &self,
        (file, record): &(Arc<File>, Record),
        sources: &Sources,
        what: &StageIn,
        shown: &str,
    ) -> Result<Option<u64>> {
        let now = &sources.list[0].0;
        if !now.version.tells_apart() {
            return Ok(None); // an equal size does not prove equal bytes
        }
        if !record.sources.iter().any(|source| source.uri == now.uri && source.version == now.version) {
            return Ok(None);
        }
        self.compare(file, record, &what.checksums, shown)?;
        Ok(Some(record.size()))
    }

    /// Reads the file at `path` (or all files below it) and compares sizes and checksums with those of its stage-in.
    /// Files without a source record only have to exist. Returns the bytes compared.
    pub fn verify(&self, path: &str) -> Result<u64> {
        let names = names(path)?;
        let open = |names: &[String], flags| self.open_at(names, OFlags::RDONLY | flags);
        let fd = open(&names, OFlags::empty())?;
        if FileType::from_raw_mode(remembered(&fd)?.st_mode) != FileType::Directory {
            return self.verify_file(fd, &names);
        }
        let (mut walk, mut bytes) = (Descent::at(fd, true)?, 0);
        while let Some(entry) = walk.entry() {
            let (name, kind) = entry?;
            let Some(at) = walk.names_of(&name) else { continue };
            let at = [&names[..], &at].concat();
            match kind {
                FileType::Directory => walk.enter(&name, open(&at, OFlags::NOFOLLOW)?)?,
                FileType::RegularFile => bytes += self.verify_file(open(&at, OFlags::NOFOLLOW)?, &at)?,
                _ => {}
            }
        }
        Ok(bytes)
    }

    fn verify_file(&self, fd: OwnedFd, at: &[String]) -> Result<u64> {
        if FileType::from_raw_mode(remembered(&fd)?.st_mode) != FileType::RegularFile {
            return Ok(0);
        }
        let file = self.files.get_or_open(fd)?;
        let record = file.source()?.map(|text| Record::parse(&text)).transpose()?;
        let Some(record) = record.filter(|record| !record.modified) else { return Ok(0) };
        self.compare(&file, &record, &[], &at.join("/"))?;
        Ok(record.size())
    }

    /// Reads the whole file and compares each stripe with its checksum, and the file with the checksums from the user.
    fn compare(&self, file: &Arc<File>, record: &Record, checksums: &[Checksum], shown: &str) -> Result<()> {
        let wrong = |why: String| StageError::path(shown, why);
        let size = record.size();
        if file.size() != size {
            return Err(wrong(format!("it has {} bytes and its source {size}; stage it in again", file.size())));
        }
        let layout = file.layout();
        let sums = match &layout {
            Some(layout) => sums::Sums::open(self.volume.side(), layout.file, record.stripe_bytes, size)?,
            None => None,
        };
        let stripe = sums.as_ref().map_or(1 << 20, sums::Sums::stripe_bytes);
        let (mut offset, mut whole, mut buf) = (0, Expected::new(checksums), vec![0; stripe as usize]);
        while offset < size {
            self.check_stop()?;
            let len = (size - offset).min(stripe) as usize;
            if file.read(offset, &mut buf[..len])? < len {
                return Err(wrong(format!("it ends before byte {}", offset + len as u64)));
            }
            let same = sums.as_ref().map_or(Ok(true), |sums| sums.matches(offset / stripe, &buf[..len]))?;
            if !same {
                return Err(wrong(format!("its bytes from {offset} are not those that were staged in")));
            }
            whole.update(&buf[..len]);
            offset += len as u64;
        }
        whole.compare()
    }

    /// Discards the data of interrupted stagings by this user to `path` (or below it). Waits for stagings that are
    /// being stopped. Returns their number.
    pub fn forget(&self, path: &str) -> Result<usize> {
        let path = names(path)?.join("/");
        let below =
            |other: &str| other.strip_prefix(&path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        // A staging whose caller has just hung up may not have noticed that, nor have written its record.
        std::thread::sleep(HANG_UP_NOTICED);
        let until = Instant::now() + STOP_WAIT_MAX;
        while self.running.lock().values().any(|(other, _)| below(other)) {
            if Instant::now() >= until {
                return Err(StageError::Running(path));
            }
            std::thread::sleep(STOP_LOOK_EVERY);
        }
        let mut forgotten = 0;
        for (key, bytes) in self.volume.state().stagings()? {
            let Ok(progress) = serde_json::from_slice::<Progress>(&bytes) else { continue };
            let mine = below(&progress.path) && key == super::incoming::key_of(self.who, &progress.path, &progress.uri);
            // The key is held, so that the same staging cannot start at the same time.
            if mine && self.hold(&key, &progress.path, &Stop::default()) {
                let discarded = self.discard(&key);
                self.running.lock().remove(&key);
                discarded?;
                forgotten += 1;
            }
        }
        Ok(forgotten)
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::{World, who};
    use super::*;
    use crate::source::memory::data;

    fn keep(world: &World, path: &str) -> Result<super::super::Staged> {
        let what = StageIn { uris: vec!["mem://h/a".into()], path: path.into(), keep: true, ..StageIn::default() };
        world.stager.silent(&who()).stage_in(&what)
    }

    /// [S-080]
    #[test]
    fn what_is_there_and_the_same_is_kept_what_is_older_is_replaced_and_what_is_not_ours_is_left() {
        let world = World::new();
        let bytes = data(5_000_000, 1);
        world.memory.add("mem://h/a", &bytes);
        assert_eq!(keep(&world, "a").expect("fetched").fetched_bytes, 5_000_000);
        let kept = keep(&world, "a").expect("kept");
        assert_eq!((kept.files, kept.bytes, kept.fetched_bytes), (1, 5_000_000, 0));
        assert_eq!(world.stager.silent(&who()).verify("a").expect("the same"), 5_000_000);
        let newer = data(5_000_001, 2);
        world.memory.add("mem://h/a", &newer);
        assert_eq!(keep(&world, "a").expect("fetched anew").fetched_bytes, 5_000_001);
        assert!(world.read("a") == newer);
        std::fs::write(world.tree.join("mine"), "precious").expect("write");
        assert!(keep(&world, "mine").expect_err("not from there").to_string().contains("there already"));
    }

    #[test]
    fn what_an_abandoned_staging_left_is_given_up() {
        let world = World::new();
        let remote = world.memory.add("mem://h/a", &data(21_000_000, 1));
        remote.fail_after(3);
        keep(&world, "a").expect_err("it broke off");
        assert!(!world.staging_is_empty(), "kept to go on from");
        assert_eq!(world.stager.silent(&who()).forget("b").expect("nothing"), 0);
        assert_eq!(world.stager.silent(&who()).forget("a").expect("forgotten"), 1);
        assert!(world.staging_is_empty());
    }

    #[test]
    fn other_bytes_are_found_by_their_checksums() {
        let world = World::new();
        world.memory.add("mem://h/a", &data(5_000_000, 1));
        keep(&world, "a").expect("fetched");
        let fd = std::fs::File::options().read(true).write(true).open(world.tree.join("a")).expect("there");
        let file = world.stager.files.get_or_open(fd.into()).expect("opens");
        let layout = file.layout().expect("objects");
        let object = layout.mirrors[0].segments[0].objects[1];
        let target = world.stager.volume.targets().get(object.target).expect("target");
        target.run(move |m| m.open(object.id)?.write_at(7, b"x")).expect("one byte");
        let found = world.stager.silent(&who()).verify("a").expect_err("other bytes");
        assert!(found.to_string().contains("not those that were staged in"), "{found}");
    }
}
