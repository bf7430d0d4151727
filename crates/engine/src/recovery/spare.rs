//! The spare: chosen, published, completed. All changes of the file's layout are here.

use super::case::{Case, RecordedSource, Spare};
use super::driver::Driver;
use crate::events;
use crate::file::File;
use crate::source::Record;
use crate::stage::sums::Sums;
use crate::stats::Metric;
use crate::{Error, Result};
use object::target::{Handle, Target};
use policy::layout::{Layout, Object, ObjectState, Position, Reason, choose_targets, object_len};
use policy::protect::recovery::{Event, Finished, Key};
use policy::{FileId, ObjectId, TargetId};
use std::sync::Arc;

impl Driver {
    /// Chooses a target and creates the object.
    pub(super) fn choose_spare(&self, key: Key) {
        let Some(case) = self.case(key) else { return self.handle(Event::SpareFailed(key)) };
        let Some(file) = case.file() else { return self.abandoned(key) };
        let Some((layout, at)) = file.layout().and_then(|l| Some((l.clone(), position(&l, key.lost)?))) else {
            return self.abandoned(key);
        };
        match self.make_spare(&case, &file, &layout, at) {
            Ok(spare) => {
                let (rows, sources) = (spare.rows(), spare.sources.len() as u32);
                self.stats.add(Metric::RecoveryStripesLost, rows);
                case.tally.count(|cost| cost.lost_stripes = rows);
                let new_object = spare.new.id;
                self.note(key, |name| {
                    format!(
                        "recovering {name}: target {} lost {rows} stripes, target {} takes its place, from {}",
                        self.pool.targets.name_of(spare.lost.target),
                        spare.target.name(),
                        spare.sources[0].place.uri,
                    )
                });
                case.set_spare(Arc::new(spare));
                self.handle(Event::SpareReady { key, new_object, rows, sources });
            }
            Err(e) => {
                self.warn(key, |name| format!("a lost part of {name} cannot be recovered: {e}"));
                self.handle(Event::SpareFailed(key));
            }
        }
    }

    fn make_spare(&self, case: &Case, file: &Arc<File>, layout: &Layout, at: Position) -> Result<Spare> {
        let record = file.source()?.ok_or_else(|| no("it has neither another mirror nor a source"))?;
        let record = Record::parse(&record).map_err(|e| no(&e.to_string()))?;
        let size = file.size();
        if record.modified {
            return Err(no("it was modified since it was staged in, so its source has other bytes"));
        }
        if record.size() != size {
            return Err(no("it has another size than its source"));
        }
        let segment = layout.mirrors[at.mirror].segments[at.segment].clone();
        let lost = segment.objects[at.index];
        let avoid: Vec<TargetId> = segment.objects.iter().map(|o| o.target).collect();
        let targets = &self.pool.targets;
        let tier = targets.get(lost.target).map(|t| t.tier());
        let chosen = choose_targets(&targets.views(), tier, 1, &avoid, self.pool.next_turn(tier));
        let target = chosen.first().and_then(|id| targets.get(*id)).ok_or(Error::NoTarget)?;
        let id = self.pool.next_object();
        let len = object_len(&segment, at.index, size);
        let making = self.pool.making.begin(id);
        let created = target.run(move |medium| {
            let handle = medium.create(id)?;
            handle.set_len(len)?;
            Ok(handle)
        });
        let handle = created.map_err(|error| Error::Target { target: target.id(), error })?;
        let sums = Sums::open(&self.side, layout.file, record.stripe_bytes, size)?;
        if sums.is_none() && record.stripe_bytes > 0 {
            let name = self.shown(file, layout.file);
            let text = format!("the checksums of {name} are gone; its recovery is not verified");
            tracing::warn!("{text}");
            self.record(name, text);
        }
        let earlier = self.earlier(lost).filter(|_| sums.is_some());
        let new = Object { state: ObjectState::Partial, ..Object::whole(id, target.id()) };
        let sources = RecordedSource::all(&record);
        let tally = case.tally.clone();
        Ok(Spare {
            lost,
            new,
            target,
            handle,
            segment,
            index: at.index,
            size,
            sums,
            earlier,
            sources,
            tally,
            _making: making,
        })
    }

    /// The spare of an interrupted recovery, where it can be read.
    fn earlier(&self, lost: Object) -> Option<(Arc<Target>, Arc<dyn Handle>)> {
        let partial = lost.state == ObjectState::Partial;
        let target = self.pool.targets.get(lost.target).filter(|t| partial && t.state().accepts_io())?;
        let handle = target.run(move |medium| medium.open(lost.id)).ok()?;
        Some((target, handle))
    }

    /// Puts the new object into the layout as `Partial`.
    pub(super) fn publish(&self, key: Key) {
        let published = self.case(key).and_then(|case| Some((case.file()?, case.spare()?)));
        let Some((file, spare)) = published else { return self.handle(Event::PublishFailed(key)) };
        self.stands_for(spare.new.id, key);
        // After a loss of power the old record names the lost object, and the recovery starts over.
        let changed = file.change_layout_for_now(|layout, now| {
            // A write to the object since the spare was made is not in the source.
            if !file.is_recoverable() || file.size() != spare.size {
                return Err(no("it was modified in between"));
            }
            let at = position(layout, key.lost).ok_or_else(|| no("the layout changed in between"))?;
            let reason = Reason::RecoveryStarted(spare.lost.target);
            layout.replace_object(at, spare.new, now, reason).map_err(Error::Unrecoverable)
        });
        match changed {
            Ok(_) => self.handle(Event::Published(key)),
            Err(e) => {
                self.warn(key, |name| format!("{name}: the layout could not be changed: {e}"));
                self.handle(Event::PublishFailed(key));
            }
        }
    }

    /// Removes an object that no layout ever named. An object that one may name stays: `check` finds it.
    pub(super) fn discard(&self, target: TargetId, object: ObjectId) {
        if File::may_discard(&self.pool, object) {
            self.pool.remove_object(target, object);
        }
    }

    /// Marks the object complete, or keeps the recovered rows.
    pub(super) fn finish(&self, key: Key, result: Finished) {
        let Some(case) = self.case(key) else { return self.ended(key, result, false) };
        match result {
            Finished::Complete => match self.complete(key, &case) {
                Ok(spare) => {
                    self.ended(key, result, false);
                    self.pool.remove_object(spare.lost.target, spare.lost.id);
                }
                Err(e) => {
                    self.warn(key, |name| format!("{name} is recovered but could not be completed: {e}"));
                    self.remove_lost_of_removed(&case);
                    let why = policy::protect::recovery::Why::NotPublished;
                    self.ended(key, Finished::Failed { why, rows_failed: 0 }, false);
                }
            },
            Finished::Failed { why, rows_failed } => {
                self.remove_lost_of_removed(&case);
                self.stats.add(Metric::RecoveryFailures, 1);
                let lost = if rows_failed > 0 { format!("{rows_failed} stripes") } else { "a part".to_string() };
                let reason = super::reason(why);
                self.warn(key, |name| format!("{lost} of {name} could not be recovered: {reason}"));
                self.ended(key, result, rows_failed > 0);
            }
        }
    }

    /// Removes the lost object of a removed file: the layout names the new object, so the removal missed the lost
    /// one.
    fn remove_lost_of_removed(&self, case: &Case) {
        if let (Some(file), Some(spare)) = (case.file(), case.spare())
            && file.is_removed()
        {
            self.pool.remove_object(spare.lost.target, spare.lost.id);
        }
    }

    /// Makes the object's bytes and name durable first, then the record.
    fn complete(&self, key: Key, case: &Case) -> Result<Arc<Spare>> {
        let (Some(file), Some(spare)) = (case.file(), case.spare()) else {
            return Err(no("the file is no longer in use"));
        };
        let handle = spare.handle.clone();
        let synced = spare.target.run(move |medium| handle.sync().and_then(|()| medium.sync_names()));
        synced.map_err(|error| Error::Target { target: spare.target.id(), error })?;
        file.change_layout(|layout, now| {
            let at = position(layout, spare.new.id).ok_or_else(|| no("the layout changed in between"))?;
            layout.complete_object(at, now, Reason::Recovered).map_err(Error::Unrecoverable)
        })?;
        self.note(key, |name| format!("recovered {name}: {} stripes", spare.rows()));
        Ok(spare)
    }
}

impl Driver {
    /// Records a remark about the file under recovery, by its name.
    fn note(&self, key: Key, text: impl FnOnce(&str) -> String) {
        let name = self.name_of(key);
        let text = text(&name);
        tracing::info!("{text}");
        self.record(name, text);
    }

    /// As `note`, for a failure.
    pub(super) fn warn(&self, key: Key, text: impl FnOnce(&str) -> String) {
        let name = self.name_of(key);
        let text = text(&name);
        tracing::warn!("{text}");
        self.record(name, text);
    }

    /// Records an event of a file.
    fn record(&self, path: String, text: String) {
        let event = events::Event::new(events::Kind::Recovery, text);
        self.pool.events.record(events::Event { path: Some(path), by: Some("recovery".into()), ..event });
    }

    /// Path of the file under recovery, for messages.
    fn name_of(&self, key: Key) -> String {
        match self.case(key).and_then(|case| case.file()) {
            Some(file) => self.shown(&file, key.file),
            None => self.pool.name_of(key.file),
        }
    }

    fn shown(&self, file: &File, id: FileId) -> String {
        file.shown_below(&self.tree).unwrap_or_else(|| self.pool.name_of(id))
    }
}

/// Position of an object in a layout.
fn position(layout: &Layout, object: ObjectId) -> Option<Position> {
    layout.objects().find(|(_, o)| o.id == object).map(|(at, _)| at)
}

fn no(why: &str) -> Error {
    Error::Unrecoverable(why.to_string())
}
