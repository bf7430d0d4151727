//! A stager's work for one user.

use super::place::{Place, open_at};
use super::sources::Sources;
use super::{Report, Result, StageError, Stager, Stop};
use crate::source::Identity;
use rustix::fd::OwnedFd;
use rustix::fs::OFlags;
use std::ops::Deref;

/// A stager that works on behalf of one user, with a report of the progress and a stop flag.
#[derive(Clone)]
pub struct Transfer<'a> {
    pub(super) stager: Stager,
    pub(super) who: &'a Identity,
    pub(super) report: Report<'a>,
    pub(super) stop: Stop,
}

impl Deref for Transfer<'_> {
    type Target = Stager;

    fn deref(&self) -> &Stager {
        &self.stager
    }
}

impl Stager {
    /// Work on behalf of `who`.
    pub fn transfer<'a>(&self, who: &'a Identity, report: Report<'a>, stop: &Stop) -> Transfer<'a> {
        Transfer { stager: self.clone(), who, report, stop: stop.clone() }
    }

    /// Work on behalf of `who` that reports nothing and is not stopped.
    pub fn silent<'a>(&self, who: &'a Identity) -> Transfer<'a> {
        self.transfer(who, &|_| (), &Stop::default())
    }
}

impl Transfer<'_> {
    /// Fails if the transfer is to stop.
    pub(super) fn check_stop(&self) -> Result<()> {
        if self.stop.is_set() { Err(StageError::Stopped) } else { Ok(()) }
    }

    /// Resolves a destination with the user's permissions.
    pub(super) fn place(&self, path: &str, last_name: Option<&str>) -> Result<Place> {
        Place::find(self.volume.tree(), path, last_name, self.who)
    }

    /// Opens a path with the user's permissions.
    pub(super) fn open_at(&self, names: &[String], flags: OFlags) -> Result<OwnedFd> {
        open_at(self.volume.tree(), names, flags, self.who)
    }

    /// Opens sources with the user's credentials.
    pub(super) fn sources(&self, uris: &[String]) -> Result<Sources> {
        Sources::open(&*self.opener, uris, self.who, &self.stop)
    }
}
