//! Stripes: counts what is asked of files, and has the striper look at it once per interval.

use super::changes::{Want, Wanted};
use super::event::{Action, Reason};
use super::file::File;
use super::ownership::{Aspect, Mechanism};
use crate::ids::FileId;
use crate::machine::Machine;
use crate::stripe::forks::Shape;
use crate::stripe::fuzzy::Rules;
use crate::stripe::profile::{CLASSES, Count, Counts, class_of};
use crate::stripe::striper::{self, Event, Striper};
use crate::tier::Region;
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};

/// How stripes are set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// The striper.
    pub striper: striper::Config,
    /// Its rules.
    pub rules: Rules,
    /// Between two looks.
    pub every: Time,
}

#[derive(Debug)]
pub struct Stripes {
    striper: Striper,
    every: Time,
    look_at: Time,
    counts: BTreeMap<FileId, Box<Counts>>,
}

impl Stripes {
    pub fn new(config: Config, now: Time) -> Stripes {
        let striper = Striper::new(config.striper, config.rules, now);
        Stripes { striper, every: config.every, look_at: now + config.every, counts: BTreeMap::new() }
    }

    pub fn accessed(&mut self, file: FileId, region: Region, bytes: u64) {
        let counts = self.counts.entry(file).or_insert_with(|| Box::new([Count::default(); CLASSES]));
        let count = &mut counts[class_of(bytes)];
        count.bytes += bytes;
        match region {
            Region::Read => count.reads += 1,
            Region::Write => count.writes += 1,
        }
    }

    pub fn removed(&mut self, now: Time, file: FileId) {
        self.counts.remove(&file);
        self.striper.handle(now, Event::Gone { file });
    }

    pub fn ended(&mut self, now: Time, file: FileId, bytes: u64, took: Time) {
        self.striper.handle(now, Event::Ended { file, bytes, took });
    }

    pub fn next_deadline(&self) -> Option<Time> {
        (!self.striper.is_empty() || !self.counts.is_empty()).then_some(self.look_at)
    }

    /// Looks if it is time.
    pub fn look(&mut self, now: Time, files: &BTreeMap<FileId, File>, is_busy: impl Fn(FileId) -> bool) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + self.every;
        for (id, counts) in std::mem::take(&mut self.counts) {
            let Some(file) = files.get(&id) else { continue };
            self.striper.handle(now, Event::Asked { file: id, counts, users: file.users, recent: Vec::new() });
        }
        for (id, file) in files {
            if self.striper.knows(*id) {
                let forks: Vec<Shape> = file.lies.mirrors.iter().map(|mirror| mirror.shape).collect();
                let movable = file.owner(Aspect::Shape) == Some(Mechanism::Stripes) && !is_busy(*id);
                let (bytes, open) = (file.lies.bytes, file.users > 0);
                self.striper.handle(now, Event::Lies { file: *id, forks, keep: 1, bytes, movable, open });
            }
        }
        self.striper.handle(now, Event::Look);
    }

    pub fn collect(&mut self, says: &mut VecDeque<Action>, wanted: &mut Vec<Wanted>) {
        while let Some(action) = self.striper.poll() {
            let (file, want, why) = match action {
                striper::Action::Place { shape, why } => {
                    says.push_back(Action::Place { shape, why });
                    continue;
                }
                striper::Action::Route { file, by } => {
                    says.push_back(Action::Prefer { file, by });
                    continue;
                }
                striper::Action::Restripe { file, fork, to, why } => (file, Want::Restripe { fork, to }, why),
                striper::Action::AddFork { file, to, why } => (file, Want::AddFork { to }, why),
                striper::Action::DropFork { file, fork, why } => (file, Want::DropFork { fork }, why),
            };
            wanted.push(Wanted { by: Mechanism::Stripes, file, want, reason: Reason::Stripes(why) });
        }
    }
}
