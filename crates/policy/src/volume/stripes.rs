//! Stripes: runs the striper on the load of files once per interval.

use super::changes::{Want, Wanted};
use super::event::{Action, Purpose, Reason};
use super::file::File;
use super::ownership::{Aspect, Mechanism};
use crate::ids::FileId;
use crate::machine::Machine;
use crate::pattern::Request;
use crate::stripe::forks::Shape;
use crate::stripe::fuzzy::Rules;
use crate::stripe::profile::Counts;
use crate::stripe::striper::{self, Event, Striper};
use crate::time::Time;
use std::collections::{BTreeMap, VecDeque};

/// Longest interval between decisions on an idle volume. A guess: new load is noticed that much later.
const IDLE_MAX: Time = Time::from_secs(4);

/// Settings of striping.
#[derive(Clone, Debug)]
pub struct Config {
    /// Settings of the striper.
    pub striper: striper::Config,
    /// Rules of the striper.
    pub rules: Rules,
    /// Interval between decisions.
    pub every: Time,
}

#[derive(Debug)]
pub struct Stripes {
    pub striper: Striper,
    every: Time,
    /// Present interval between decisions: longer while the volume is idle.
    wait: Time,
    pub look_at: Time,
    asked: bool,
}

impl Stripes {
    pub fn new(config: Config, now: Time) -> Stripes {
        let (striper, every) = (Striper::new(config.striper, config.rules, now), config.every);
        Stripes { striper, every, wait: every, look_at: now + every, asked: false }
    }

    pub fn asked(&mut self, now: Time, file: FileId, users: u32, counts: Box<Counts>, recent: Vec<Request>) {
        self.asked = true;
        self.striper.handle(now, Event::Asked { file, counts, users, recent });
    }

    pub fn next_deadline(&self) -> Option<Time> {
        (!self.striper.is_empty()).then_some(self.look_at)
    }

    /// Runs the striper if its interval has passed.
    pub fn look(&mut self, now: Time, files: &BTreeMap<FileId, File>, is_busy: impl Fn(FileId) -> bool) {
        if now < self.look_at {
            return;
        }
        let asked = std::mem::take(&mut self.asked);
        self.wait = if asked { self.every } else { (Time(self.wait.0 * 2)).min(IDLE_MAX.max(self.every)) };
        self.look_at = now + self.wait;
        for (id, file) in files {
            if self.striper.knows(*id) || file.mirror_for(Purpose::Fork).is_some() {
                self.tell_lies(now, *id, file, is_busy(*id));
            }
        }
        self.striper.handle(now, Event::Look);
    }

    fn tell_lies(&mut self, now: Time, id: FileId, file: &File, is_busy: bool) {
        let forks: Vec<Shape> = file.lies.mirrors.iter().map(|mirror| mirror.shape).collect();
        let keep = file.lies.mirrors.iter().filter(|mirror| mirror.purpose != Purpose::Fork).count();
        let movable = file.owner(Aspect::Shape) == Some(Mechanism::Stripes) && !is_busy && file.lies.bytes > 0;
        let (bytes, open) = (file.lies.bytes, file.is_open());
        self.striper.handle(now, Event::Lies { file: id, forks, keep, bytes, movable, open });
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
                striper::Action::AddFork { file, to, why } => (file, Want::AddFork(to), why),
                striper::Action::DropFork { file, fork, why } => (file, Want::DropFork(fork), why),
            };
            wanted.push(Wanted { by: Mechanism::Stripes, file, want, reason: Reason::Stripes(why) });
        }
    }
}
