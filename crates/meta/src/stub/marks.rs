//! Marks that nodes of a volume set on a stub for each other. `policy::cluster` defines their meaning.
//!
//! ```text
//! user.entrepot.layout.G   the layout of generation G, made once, never replaced; the highest counts
//! user.entrepot.change.G   the claim of a node to make generation G
//! user.entrepot.writer.N.E node N writes the file through its objects, since its E-th entry
//! user.entrepot.grows.N.E.G   the same node makes it longer than the stub's size, since generation G
//! user.entrepot.cut.G      the file is made shorter under the claim on generation G
//! user.entrepot.copy.N     node N copies the file, and no other node changed it since
//! user.entrepot.sums.ID    checksums of that name, valid or being made; removed before each change of the file
//! ```
//! Each is one operation of the shared file system on one inode, so that two nodes see them in the same order.

use super::real::{
    ATTRIBUTE_BYTES_MAX, FdStub, LAYOUT_ATTRIBUTE, ROOM, SOURCE_ATTRIBUTE, decode, permitted, write_all,
};
use super::records;
use crate::{Error, Result};
use policy::FileId;
use policy::cluster::Node;
use policy::cluster::share::{self, Claim, Mark, Marks};
use policy::layout::Layout;
use rustix::fd::AsFd;
use rustix::fs::{self, Mode, OFlags, XattrFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CStr;
use std::time::Duration;

/// Limit of retries of a listing that other nodes change, and number of retries without a pause. A guess: names of a
/// file are removed one at a time, and a thousand nodes close it within a second.
const LISTS_MAX: usize = 1000;
const LISTS_AT_ONCE: usize = 20;
/// Number of equal listings in a row before one is trusted. GlusterFS 10.3 fetches the names, then the value of each.
/// If a name was removed in between, it returns only the names before it. It returns an error only if there are none.
const AGREE: usize = 2;
/// As `AGREE`, for a caller that relies on the absence of a mark (claim, writer).
const AGREE_SURELY: usize = 4;
/// Value of the mark of unfinished checksums.
const MAKING: &str = "making";
/// Prefix of the names of these attributes.
const OURS: &str = "user.entrepot.";
/// Record of a generation whose bytes are in the stub.
pub(super) const IN_STUB: &[u8; 8] = b"in stub\n";
/// Prefix of a record that lies in a file beside the stubs.
pub(super) const BESIDE: &[u8; 7] = b"beside ";
/// Largest record in an attribute. One of this size has room beside others on every file system of
/// `docs/guide/operate/cluster.md`.
const RECORD_BYTES_MAX: usize = 1024;

/// Marks of nodes on a stub.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Generation, writers and claim.
    pub marks: Marks,
    /// Marks from which `marks` was derived.
    pub listed: BTreeSet<Mark>,
    /// Nodes that copy the file.
    pub copies: BTreeSet<Node>,
    /// Set if there is a source record.
    pub has_source: bool,
    /// Set if there is a mark for checksums, finished or not.
    pub has_sums: bool,
}

/// Adds the generation of the plain layout attribute, from a time of one node, if there is no other.
pub(super) fn listed_with(mut listed: BTreeSet<Mark>, plain: Option<u64>) -> BTreeSet<Mark> {
    if let Some(generation) = plain.filter(|_| !listed.iter().any(|mark| matches!(mark, Mark::Layout(_)))) {
        listed.insert(Mark::Layout(generation));
    }
    listed
}

fn name_of(mark: Mark) -> String {
    format!("{OURS}{mark}")
}

/// Returns the name under which checksums were made or are being made.
fn sums_of(name: &str) -> Option<&str> {
    name.strip_prefix(OURS)?.strip_prefix("sums.")
}

fn copy_of(name: &str) -> Option<Node> {
    name.strip_prefix(OURS)?.strip_prefix("copy.")?.parse().ok().map(Node)
}

/// The highest generation among the names of attributes; `None` if they have no number.
pub(super) fn newest(names: &[u8]) -> Option<u64> {
    let generation = |name: &str| match Mark::parse(name.strip_prefix(OURS)?)? {
        Mark::Layout(generation) => Some(generation),
        _ => None,
    };
    texts(names).filter_map(generation).max()
}

/// The number of the file in the record of a generation; `None` while its bytes are in the stub.
pub(super) fn number_in(record: &[u8]) -> rustix::io::Result<Option<FileId>> {
    let (_, record) = records::parse_record(record);
    if record == IN_STUB {
        return Ok(None);
    }
    let file = match record.strip_prefix(BESIDE) {
        Some(name) => {
            let name = String::from_utf8_lossy(name);
            name.split('.').next().and_then(|file| u64::from_str_radix(file, 16).ok()).map(FileId)
        }
        None => Layout::decode(record).ok().map(|layout| layout.file),
    };
    file.map(Some).ok_or(Errno::BADMSG)
}

pub(super) fn texts(names: &[u8]) -> impl Iterator<Item = &str> {
    names.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok()?.to_str().ok())
}

/// Lists the names of a file's attributes. Names added or removed during the call may be missing.
pub fn list(ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    agreed(AGREE, ask)
}

/// Returns a listing that was equal `times` times in a row, or one without names.
fn agreed(times: usize, mut ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let (mut buffer, mut last, mut same) = (vec![0; 1024], None, 0);
    for asked in 0..LISTS_MAX {
        if asked >= LISTS_AT_ONCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        match ask(&mut buffer) {
            Ok(0) => return Ok(Vec::new()),
            Ok(len) => {
                let list = &buffer[..len];
                // Two servers of the same file may list its names in different orders.
                let names: BTreeSet<Vec<u8>> = list.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
                same = if last.as_ref() == Some(&names) { same + 1 } else { 1 };
                if same == times {
                    return Ok(list.to_vec());
                }
                last = Some(names);
            }
            Err(Errno::RANGE) if buffer.len() < ATTRIBUTE_BYTES_MAX => buffer.resize(ATTRIBUTE_BYTES_MAX, 0),
            // The first name was removed during the call.
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::AGAIN)
}

impl FdStub {
    pub(super) fn names(&self, times: usize) -> Result<Vec<u8>> {
        let fd = self.fd();
        Ok(permitted(fd.as_fd(), || agreed(times, |names| fs::flistxattr(&*fd, names)))?)
    }

    fn create(&self, name: &str, value: &[u8]) -> Result<bool> {
        let fd = self.fd();
        match permitted(fd.as_fd(), || fs::fsetxattr(&*fd, name, value, XattrFlags::CREATE)) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    fn set(&self, name: &str) -> Result<()> {
        let fd = self.fd();
        Ok(permitted(fd.as_fd(), || fs::fsetxattr(&*fd, name, b"1", XattrFlags::empty()))?)
    }

    fn take(&self, name: &str) -> Result<bool> {
        let fd = self.fd();
        match permitted(fd.as_fd(), || fs::fremovexattr(&*fd, name)) {
            Ok(()) => Ok(true),
            Err(Errno::NODATA) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The highest generation and its layout.
    pub(super) fn shared_layout(&self) -> Result<(u64, Option<Layout>)> {
        loop {
            let Some(generation) = newest(&self.names(AGREE)?) else {
                let layout = self.plain_layout()?;
                return Ok((layout.as_ref().map_or(0, |layout| layout.generation), layout));
            };
            // A newer generation may have replaced this one.
            let Some(record) = self.attribute(&name_of(Mark::Layout(generation)))? else { continue };
            // A frozen node may have created an old generation again after its removal.
            if newest(&self.names(AGREE)?) != Some(generation) {
                continue;
            }
            let (_, record) = records::parse_record(&record);
            if record == IN_STUB {
                return Ok((generation, None));
            }
            let record = match record.strip_prefix(BESIDE) {
                None => record.to_vec(),
                Some(name) => {
                    let name = String::from_utf8_lossy(name).trim().to_owned();
                    match std::fs::read(self.side().join(&name)) {
                        Ok(record) => record,
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                            if newest(&self.names(AGREE)?) != Some(generation) {
                                continue;
                            }
                            return Err(Error::BadLayout(format!("side/{name}: {error}")));
                        }
                        Err(error) => return Err(Error::BadLayout(format!("side/{name}: {error}"))),
                    }
                }
            };
            return decode(&record).map(|layout| (generation, Some(layout)));
        }
    }

    /// `surely`: for a caller that relies on the absence of a mark.
    pub(super) fn shared_look(&self, surely: bool) -> Result<Look> {
        loop {
            let names = self.names(if surely { AGREE_SURELY } else { AGREE })?;
            let plain = texts(&names).any(|name| name == LAYOUT_ATTRIBUTE);
            let listed = texts(&names).filter_map(|name| Mark::parse(name.strip_prefix(OURS)?)).collect();
            let of_plain = if plain && newest(&names).is_none() { self.plain_layout()? } else { None };
            let listed = listed_with(listed, of_plain.map(|layout| layout.generation));
            let claim = match share::claimed(&listed) {
                None => None,
                Some(next) => match self.attribute(&name_of(Mark::Change(next)))? {
                    None => continue, // it went between the two calls
                    Some(value) => Some(claim_of(next, &value)?),
                },
            };
            let copies = texts(&names).filter_map(copy_of).collect();
            let has_source = texts(&names).any(|name| name == SOURCE_ATTRIBUTE);
            let has_sums = texts(&names).any(|name| sums_of(name).is_some());
            return Ok(Look { marks: Marks::new(&listed, claim), listed, copies, has_source, has_sums });
        }
    }

    pub(super) fn publish_shared(&self, node: Node, generation: u64, layout: Option<&Layout>) -> Result<bool> {
        self.create_record_of(generation, b"", layout, &node.0.to_string())
    }

    /// Creates the record of a generation, once. `maker` is in the name of a record that lies beside, so that only one
    /// publication uses the name.
    pub(super) fn create_record_of(
        &self,
        generation: u64,
        prefix: &[u8],
        layout: Option<&Layout>,
        maker: &str,
    ) -> Result<bool> {
        let name = name_of(Mark::Layout(generation));
        let Some(layout) = layout else { return self.create(&name, &[prefix, IN_STUB].concat()) };
        let record = layout.encode();
        if record.len() <= RECORD_BYTES_MAX {
            match self.create(&name, &[prefix, &record].concat()) {
                Err(error) if matches!(error.errno(), Errno::NOSPC | Errno::TOOBIG | Errno::RANGE) => {}
                done => return done,
            }
        }
        let beside = format!("{}.{generation}.{maker}.layout", layout.file);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let path = self.side().join(&beside);
        let fd = fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
        write_all(fd.as_fd(), 0, &record)?;
        fs::fsync(&fd)?;
        let pointer = [prefix, BESIDE.as_slice(), beside.as_bytes()].concat();
        let made = match self.create(&name, &pointer) {
            Err(error) if error.errno() == Errno::NOSPC => {
                self.remove_room()?;
                self.create(&name, &pointer)
            }
            made => made,
        };
        if matches!(made, Ok(false)) {
            let _ = fs::unlink(&path); // else `check` finds it
        }
        made
    }

    pub(super) fn claim_shared(&self, claim: Claim) -> Result<bool> {
        self.create(&name_of(Mark::Change(claim.generation)), claim.value().as_bytes())
    }

    pub(super) fn set_mark_shared(&self, mark: Mark) -> Result<()> {
        self.set(&name_of(mark))
    }

    pub(super) fn set_copy_shared(&self, node: Node, copies: bool) -> Result<bool> {
        let name = format!("{OURS}copy.{}", node.0);
        if copies { self.set(&name).map(|()| true) } else { self.take(&name) }
    }

    pub(super) fn all_sums(&self) -> Result<Vec<String>> {
        Ok(texts(&self.names(AGREE)?).filter_map(sums_of).map(str::to_owned).collect())
    }

    pub(super) fn sums_that_count(&self) -> Result<Option<(String, String)>> {
        for id in self.all_sums()? {
            let value = self.attribute(&format!("{OURS}sums.{id}"))?.and_then(|value| String::from_utf8(value).ok());
            if let Some(text) = value.filter(|text| text != MAKING) {
                return Ok(Some((id, text)));
            }
        }
        Ok(None)
    }

    pub(super) fn make_sums(&self, id: &str) -> Result<()> {
        let name = format!("{OURS}sums.{id}");
        self.create(&name, MAKING.as_bytes()).map(drop)
    }

    /// Replaces the mark in one step, so that a mark removed by another node does not return.
    pub(super) fn count_sums(&self, id: &str, text: &str) -> Result<bool> {
        let (fd, name) = (self.fd(), format!("{OURS}sums.{id}"));
        match permitted(fd.as_fd(), || fs::fsetxattr(&*fd, &name, text.as_bytes(), XattrFlags::REPLACE)) {
            Ok(()) => Ok(true),
            Err(Errno::NODATA) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    pub(super) fn take_sums(&self, file: Option<FileId>) -> Result<bool> {
        let all = self.all_sums()?;
        for id in &all {
            self.take(&format!("{OURS}sums.{id}"))?;
            if let Some(file) = file {
                let _ = fs::unlink(self.side().join(format!("{file}.{id}.closing"))); // what a crash left
            }
        }
        Ok(!all.is_empty())
    }

    pub(super) fn remove_shared(&self, mark: Mark) -> Result<()> {
        match mark {
            Mark::Layout(generation) => self.remove_record(generation),
            mark => self.take(&name_of(mark)).map(drop),
        }
    }

    /// Removes the record of a generation, with the file beside that it names.
    pub(super) fn remove_record(&self, generation: u64) -> Result<()> {
        let name = name_of(Mark::Layout(generation));
        let record = self.attribute(&name)?;
        if !self.take(&name)? {
            return self.remove_plain();
        }
        let beside = record.as_deref().and_then(|record| records::parse_record(record).1.strip_prefix(BESIDE));
        if let Some(beside) = beside {
            let _ = fs::unlink(self.side().join(String::from_utf8_lossy(beside).trim())); // else it goes with the file
        }
        Ok(())
    }

    /// Removes the attribute that reserves room, when a pointer needs the room.
    fn remove_room(&self) -> Result<()> {
        if self.attribute(LAYOUT_ATTRIBUTE)?.is_some_and(|value| value == ROOM) {
            self.take(LAYOUT_ATTRIBUTE)?;
        }
        Ok(())
    }

    fn remove_plain(&self) -> Result<()> {
        let is_plain = |value: Vec<u8>| value != ROOM && records::parse_pointer(&value).is_none();
        if self.attribute(LAYOUT_ATTRIBUTE)?.is_some_and(is_plain) {
            self.take(LAYOUT_ATTRIBUTE)?;
        }
        Ok(())
    }
}

fn claim_of(generation: u64, value: &[u8]) -> Result<Claim> {
    let text = String::from_utf8_lossy(value);
    Claim::parse(generation, &text).ok_or_else(|| Error::BadLayout(format!("a claim that is not valid: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lists names from a server with these answers. Returns the number of requests, too.
    fn asked(times: usize, answers: &[rustix::io::Result<&str>]) -> (rustix::io::Result<String>, usize) {
        let mut given = 0;
        let listed = agreed(times, |buffer| {
            let answer = answers[given.min(answers.len() - 1)];
            given += 1;
            answer.map(|names| {
                buffer[..names.len()].copy_from_slice(names.as_bytes());
                names.len()
            })
        });
        (listed.map(|names| String::from_utf8(names).unwrap()), given)
    }

    #[test]
    fn a_list_without_the_names_behind_one_that_goes_is_not_believed() {
        let (cut, whole) = (Ok("writer.2.1\0"), Ok("writer.2.1\0writer.1.1\0layout.1\0"));
        assert_eq!(asked(2, &[cut, whole, whole]), (whole.map(str::to_owned), 3));
        assert_eq!(asked(2, &[whole, Err(Errno::NODATA), whole]), (whole.map(str::to_owned), 3));
        let turned = Ok("layout.1\0writer.1.1\0writer.2.1\0");
        assert_eq!(asked(2, &[whole, turned]).1, 2, "in another order");
        // A caller that relies on the absence of a mark reads more lists.
        let (also, again) = (Ok("layout.1\0"), [cut, cut, cut, whole]);
        assert_eq!(asked(2, &again).0, cut.map(str::to_owned));
        assert_eq!(asked(AGREE_SURELY, &again).0, whole.map(str::to_owned));
        assert_eq!(asked(4, &[cut, also, cut, also, whole]).0, whole.map(str::to_owned));
    }

    #[test]
    fn a_list_without_a_name_is_believed_at_once_and_one_that_never_holds_still_is_an_error() {
        assert_eq!(asked(AGREE_SURELY, &[Ok("")]), (Ok(String::new()), 1));
        assert_eq!(asked(2, &[Err(Errno::NODATA)]).0, Err(Errno::AGAIN));
        assert_eq!(asked(2, &[Err(Errno::STALE)]), (Err(Errno::STALE), 1));
    }
}
