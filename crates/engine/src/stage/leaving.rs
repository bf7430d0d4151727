//! Walk over the files to be staged out, with their state at the destination.

use super::look::{Looked, Row, There};
use super::place::names;
use super::tree::some_chosen;
use super::{Chosen, Compare, Result, StageError, Transfer};
use crate::source::{SourceError, check_uri, encoded};
use meta::descent::Descent;
use object::host::remembered;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

/// A request to stage out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StageOut {
    /// A file or directory, relative to the mount's root.
    pub path: String,
    /// URI of the destination.
    pub uri: String,
    /// Comparison of each copy.
    #[serde(default)]
    pub compare: Compare,
    /// Selection among the files of a directory.
    #[serde(default)]
    pub chosen: Chosen,
}

/// A file to be staged out.
pub(super) struct Leaving {
    pub fd: OwnedFd,
    /// Path in the mount, for messages.
    pub path: String,
    pub uri: String,
}

/// Other results of a walk.
#[derive(Default)]
pub(super) struct Met {
    /// Files that the patterns leave out.
    pub left_out: usize,
    pub notes: Vec<String>,
}

impl Met {
    /// Notes for the user.
    pub fn notes(mut self) -> Vec<String> {
        match self.left_out {
            0 => {}
            1 => self.notes.push("1 file is left out by --include and --exclude, and stays".into()),
            n => self.notes.push(format!("{n} files are left out by --include and --exclude, and stay")),
        }
        self.notes
    }
}

impl Transfer<'_> {
    /// Visits the files to be staged out in the order of their names, until `visit` breaks.
    pub(super) fn leaving(
        &self,
        what: &StageOut,
        visit: &mut dyn FnMut(Leaving) -> Result<ControlFlow<()>>,
    ) -> Result<Met> {
        check_uri(&what.uri)?;
        let above = names(&what.path)?;
        let fd = self.open_at(&above, OFlags::RDONLY)?;
        let is_all = what.chosen.is_all();
        match FileType::from_raw_mode(remembered(&fd)?.st_mode) {
            FileType::RegularFile if !is_all => {
                let why = "--include and --exclude choose among the files of a directory, and this is one file: leave them out";
                Err(StageError::path(&what.path, why))
            }
            FileType::RegularFile => {
                let name = encoded(above.last().map_or("", String::as_str));
                let named = self.opener.named(&what.uri, &name, self.who);
                let uri = named.map_err(|e| StageError::of_source(&what.uri, e))?;
                visit(Leaving { fd, path: above.join("/"), uri }).map(|_| Met::default())
            }
            FileType::Directory => self.leaving_below(fd, &above, what, visit),
            _ => Err(StageError::path(&what.path, "it is neither a file nor a directory")),
        }
    }

    /// Links are neither followed nor sent: the destination may not support them. Files that are left out are not
    /// opened.
    fn leaving_below(
        &self,
        directory: OwnedFd,
        above: &[String],
        what: &StageOut,
        visit: &mut dyn FnMut(Leaving) -> Result<ControlFlow<()>>,
    ) -> Result<Met> {
        let (mut walk, mut met) = (Descent::at(directory, true)?, Met::default());
        while let Some(entry) = walk.entry() {
            self.check_stop()?;
            let (name, kind) = entry?;
            let not_utf8 = || StageError::path(&what.path, format!("the name {name:?} below it is no UTF-8"));
            let below = walk.names_of(&name).ok_or_else(not_utf8)?;
            let names = [above, &below].concat();
            let path = names.join("/");
            let is_meant = what.chosen.takes(&below.join("/"));
            if !is_meant && !matches!(kind, FileType::Directory | FileType::Unknown) {
                met.left_out += 1;
                continue;
            }
            let fd = match self.open_at(&names, OFlags::RDONLY | OFlags::NOFOLLOW) {
                Ok(fd) => fd,
                Err(e) if e.to_string().contains(&Errno::LOOP.to_string()) => {
                    met.notes.push(format!("{path} is a symbolic link and was left out"));
                    continue;
                }
                Err(e) => return Err(e),
            };
            match FileType::from_raw_mode(remembered(&fd)?.st_mode) {
                FileType::Directory => walk.enter(&name, fd)?,
                FileType::RegularFile if is_meant => {
                    let names = below.iter().map(|name| encoded(name)).collect::<Vec<_>>();
                    let uri = format!("{}/{}", what.uri.trim_end_matches('/'), names.join("/"));
                    if visit(Leaving { fd, path, uri })?.is_break() {
                        break;
                    }
                }
                FileType::RegularFile => met.left_out += 1,
                _ => met.notes.push(format!("{path} is no file and was left out")),
            }
        }
        Ok(met)
    }

    /// Fails if the patterns select no file, probably by mistake, before anything is sent.
    pub(super) fn some_leave(&self, what: &StageOut) -> Result<()> {
        if what.chosen.is_all() {
            return Ok(());
        }
        let mut chosen = 0;
        let met = self.leaving(what, &mut |_| {
            chosen = 1;
            Ok(ControlFlow::Break(()))
        })?;
        some_chosen(&what.path, chosen, chosen + met.left_out)
    }

    /// Dry run of a stage-out: sends nothing.
    pub fn look_out(&self, what: &StageOut) -> Result<Looked> {
        self.some_leave(what)?;
        let mut files = Vec::new();
        let met = self.leaving(what, &mut |Leaving { fd, path, uri }| {
            let stub = fd.try_clone().map_err(|_| Errno::MFILE)?;
            let file = self.files.get_or_open(fd)?;
            let was_sent = self.was_sent(&file, &stub, &uri)?;
            files.push((path, uri, file.size(), was_sent));
            Ok(ControlFlow::Continue(()))
        })?;
        let rows = self.rows(files, |(path, uri, bytes, was_sent)| {
            let there = match self.opener.open(&uri, self.who).and_then(|source| source.stat()) {
                Ok(version) if version.size == bytes && was_sent => There::Sent,
                Ok(version) if version.size == bytes => There::SameSize,
                Ok(_) => There::Other,
                Err(SourceError::Permanent(_)) => There::Nothing,
                Err(e) => return Err(StageError::of_source(&uri, e)),
            };
            Ok(Row { path, bytes, there })
        })?;
        Ok(Looked { notes: met.notes(), ..Looked::of(rows, |there| there == There::Sent) })
    }
}
