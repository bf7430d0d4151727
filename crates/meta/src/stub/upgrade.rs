//! Upgrade of a stub for holders: the newest record of a layout gets its pointer, and marks of nodes go.
//!
//! ```text
//! user.entrepot.layout.G      record of generation G without a stamp; the highest counts
//! user.entrepot.layout        record from a time of one node
//! user.entrepot.change.G      claims, writers, copies: they end, since no node uses the file
//!   .writer.N.E .copy.N .cut.G
//! user.entrepot.grows.N.E.G   the objects may reach beyond the size of the stub
//! ```
//! Without a `grows` mark the stub has the right size, and bytes of objects beyond it belong to no file. They are cut
//! when the file is settled.

use super::names::texts;
use super::real::FdStub;
use super::records::newest;
use super::{Pointer, Record, Records, Stub};
use crate::Result;

/// Number of equal listings in a row that show all names.
const AGREE: usize = 4;
/// Kinds of marks that nodes set on stubs.
const MARKS: [&str; 5] = ["writer", "grows", "change", "copy", "cut"];

/// Kind of the mark that an attribute is.
fn kind_of(name: &str) -> Option<&str> {
    let (kind, _) = name.strip_prefix("user.entrepot.")?.split_once('.')?;
    MARKS.into_iter().find(|mark| *mark == kind)
}

impl FdStub {
    /// Upgrades the stub. No node uses it. May be repeated after an interruption.
    pub fn upgrade(&self) -> Result<()> {
        let names = self.names(AGREE)?;
        let marks: Vec<&str> = texts(&names).filter(|name| kind_of(name).is_some()).collect();
        let has = |kind| marks.iter().any(|name| kind_of(name) == Some(kind));
        let pointer = self.pointer()?;
        if !matches!(pointer, Pointer::To { .. }) {
            let listed = newest(&names);
            let plain = if let Pointer::Plain(layout) = pointer { Some(*layout) } else { None };
            if let Some(generation) = listed.or(plain.as_ref().map(|layout| layout.generation)) {
                if listed.is_none() {
                    self.create_record(generation, &Record { stamp: 0, layout: plain })?;
                }
                // The length of an object that the kernel writes by itself is the size.
                if has("cut") || !(has("grows") || self.kernel_writes()?) {
                    self.set_cut_to(Some(self.size()?))?;
                }
                self.point(generation, 0)?;
                self.remove_records(generation)?;
            }
        }
        marks.into_iter().try_for_each(|name| self.take(name).map(drop))
    }
}
