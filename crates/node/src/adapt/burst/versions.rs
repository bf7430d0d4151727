//! Complete versions: loaded at the start, read at a restart of an application, and removed.

use super::record::{self, MtbfFrom, Part};
use super::{Adapt, Burst};
use crate::{Error, Result};
use engine::file::File;
use object::now_ms;
use policy::FileId;
use policy::burst::buffer;
use policy::burst::tables::Version;
use policy::volume::{Event, FileEvent};
use rustix::io::Errno;
use std::sync::Arc;

/// Span in which several reads of a version count as one restart.
const RESTART_MS: u64 = 30_000;

impl Burst {
    /// Loads an earlier daemon's versions into the buffer, with the present locations of their files. Called before
    /// anything is mounted.
    pub(crate) fn load(&self, adapt: &Adapt) -> Result<()> {
        let mut table = self.table.lock();
        let apps: Vec<_> = table.apps.values().cloned().collect();
        let (mut gone, mut lost, mut found) = (Vec::new(), Vec::new(), Vec::new());
        for (key, version) in &table.complete {
            let parts = version.parts.iter().map(|part| self.file_of(adapt, part).map(|file| (part, file)));
            match parts.collect::<Result<Vec<_>>>() {
                Ok(parts) => {
                    let (mut bytes, mut files) = (0, Vec::new());
                    for (part, file) in parts {
                        match file {
                            Some(file) => {
                                bytes += part.bytes;
                                files.push(file);
                            }
                            None => lost.push(FileId(part.file)),
                        }
                    }
                    match files.is_empty() {
                        true => gone.push(*key),
                        false => found.push((version.at_ms, *key, bytes, files)),
                    }
                }
                // The next leader, or this one again in a moment, may read them.
                Err(error) if self.shared.get().is_some() => return Err(error),
                Err(error) => {
                    let (app, label) = (&version.app, &version.label);
                    tracing::warn!("version {label} of {app} stays in the burst buffer until the next start: {error}");
                }
            }
        }
        gone.extend(lost.into_iter().filter_map(|file| table.file_removed(file)));
        for key in gone {
            record::VERSIONS.remove(&*self.state, &record::version_key(key))?;
            table.strike(key);
        }
        found.retain(|(_, key, ..)| table.complete.contains_key(key));
        found.sort_by_key(|(at_ms, key, ..)| (*at_ms, *key));
        for app in &apps {
            self.tell_buffer(buffer::Event::Mtbf { app: app.number, mtbf_s: app.mtbf_s });
            if app.interval_s > 0 {
                self.tell_buffer(buffer::Event::Interval { app: app.number, interval_s: app.interval_s });
            }
        }
        for (_, version, bytes, files) in found {
            let lies = files.iter().filter_map(|file| adapt.lies_if(file, true));
            let files = files.iter().filter_map(|file| file.id()).collect();
            self.driver.tell_all(lies.chain([Event::Found { version, bytes, files }]));
        }
        Ok(())
    }

    /// The file of a part, if it still exists. It is found by its number or, while its bytes are in its stub, by its
    /// name.
    fn file_of(&self, adapt: &Adapt, part: &Part) -> Result<Option<Arc<File>>> {
        let named = self.file_at(adapt, &part.path)?;
        Ok(match part.file {
            0 => named.filter(|file| file.id().is_none()),
            // A file that this node has not opened yet is searched in the whole tree.
            number => {
                let is_it = |file: &Arc<File>| file.id() == Some(FileId(number));
                named.filter(is_it).or_else(|| adapt.files.find(FileId(number)))
            }
        })
    }

    /// The file at a path; `None` if there is no readable one. Fails if it cannot be opened now.
    pub(super) fn file_at(&self, adapt: &Adapt, path: &str) -> Result<Option<Arc<File>>> {
        match adapt.files.open_at(self.volume.tree(), path) {
            Err(Error::BadLayout(_) | Error::Newer(_) | Error::Namespace(Errno::STALE)) => Ok(None),
            opened => opened,
        }
    }

    /// Handles reads of a version: if it is the newest, its application restarts.
    pub(super) fn reads(&self, version: Version) {
        let mut table = self.table.lock();
        let newest = self.admission(|admission| admission.buffer().tables().newest(version.app));
        let Some(name) = table.names.get(&version.app).cloned().filter(|_| newest == Some(version.number)) else {
            return;
        };
        let Some(app) = table.apps.get_mut(&name) else { return };
        let now = now_ms();
        let again = now.saturating_sub(app.restarted_ms) < RESTART_MS;
        if again {
            return;
        }
        (app.restarts, app.restarted_ms) = (app.restarts + 1, now);
        if matches!(app.mtbf_from, MtbfFrom::Default | MtbfFrom::Learned) {
            app.mtbf_s = (now.saturating_sub(app.first_ms) / 1000 / app.restarts).max(1);
            app.mtbf_from = MtbfFrom::Learned;
        }
        if let Err(error) = record::APPS.put(&*self.state, &name, app) {
            tracing::warn!("a restart of {name} could not be saved: {error}");
        }
        let mtbf_s = app.mtbf_s;
        drop(table);
        self.tell_buffer(buffer::Event::Restarted { app: version.app });
        self.tell_buffer(buffer::Event::Mtbf { app: version.app, mtbf_s });
    }

    pub(in crate::adapt) fn file_removed(&self, file: FileId) {
        self.driver.tell(Event::File(file, FileEvent::Removed));
        let mut table = self.table.lock();
        let Some(key) = table.file_removed(file) else { return };
        if let Err(error) = record::VERSIONS.remove(&*self.state, &record::version_key(key)) {
            tracing::warn!("the removal of a checkpoint could not be saved; the next start detects it: {error}");
        }
        drop(table);
        self.tell_buffer(buffer::Event::Removed { version: key });
    }
}
