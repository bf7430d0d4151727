//! Names and values of a stub's attributes.

use super::real::{ATTRIBUTE_BYTES_MAX, FdStub, permitted};
use crate::Result;
use rustix::fd::AsFd;
use rustix::fs;
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
pub(super) const AGREE: usize = 2;

pub(super) fn texts(names: &[u8]) -> impl Iterator<Item = &str> {
    names.split_inclusive(|byte| *byte == 0).filter_map(|name| CStr::from_bytes_with_nul(name).ok()?.to_str().ok())
}

/// Reads the value of an attribute.
pub fn value(mut ask: impl FnMut(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut value = vec![0; 1024];
    loop {
        match ask(&mut value) {
            Ok(len) => {
                value.truncate(len);
                return Ok(value);
            }
            Err(Errno::RANGE) if value.len() < ATTRIBUTE_BYTES_MAX => value.resize(ATTRIBUTE_BYTES_MAX, 0),
            Err(errno) => return Err(errno),
        }
    }
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
        let (cut, whole) = (Ok("cut\0"), Ok("cut\0source\0layout.1\0"));
        assert_eq!(asked(2, &[cut, whole, whole]), (whole.map(str::to_owned), 3));
        assert_eq!(asked(2, &[whole, Err(Errno::NODATA), whole]), (whole.map(str::to_owned), 3));
        let turned = Ok("layout.1\0source\0cut\0");
        assert_eq!(asked(2, &[whole, turned]).1, 2, "in another order");
        // A caller that relies on the absence of a mark reads more lists.
        let (also, again) = (Ok("layout.1\0"), [cut, cut, cut, whole]);
        assert_eq!(asked(2, &again).0, cut.map(str::to_owned));
        assert_eq!(asked(4, &again).0, whole.map(str::to_owned));
        assert_eq!(asked(4, &[cut, also, cut, also, whole]).0, whole.map(str::to_owned));
    }

    #[test]
    fn a_list_without_a_name_is_believed_at_once_and_one_that_never_holds_still_is_an_error() {
        assert_eq!(asked(4, &[Ok("")]), (Ok(String::new()), 1));
        assert_eq!(asked(2, &[Err(Errno::NODATA)]).0, Err(Errno::AGAIN));
        assert_eq!(asked(2, &[Err(Errno::STALE)]), (Err(Errno::STALE), 1));
    }
}
