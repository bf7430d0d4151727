//! The threads: one that steps, some that carry, one that looks through the tree at the start.

use super::{Tiering, look_every};
use crate::Error;
use crate::file::{File, Pool};
use crate::mover::Walk;
use policy::tier::machine::Action;
use policy::tier::yielding::Yielding;
use policy::tier::{Location, Move};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What waits for a carrier.
#[derive(Default)]
pub(super) struct Moves {
    /// Handed out by the machine, in its order.
    pub waiting: VecDeque<Begun>,
    /// Files of which something is being moved: the mover moves one part of a file at a time.
    under_way: BTreeSet<u64>,
    /// Everything ends.
    ends: bool,
}

/// An action that waits for a carrier, and how it gives way.
#[derive(Clone, Copy)]
pub(super) struct Begun {
    pub of: Action,
    /// How it yields, and the bytes of its steps.
    pub yielding: Option<(Yielding, u64)>,
}

impl Moves {
    /// The next one whose file is free.
    fn next(&mut self) -> Option<Begun> {
        let at = self.waiting.iter().position(|begun| !self.under_way.contains(&location(&begun.of).file))?;
        let begun = self.waiting.remove(at)?;
        self.under_way.insert(location(&begun.of).file);
        Some(begun)
    }
}

/// What an action is about.
pub(super) fn location(of: &Action) -> Location {
    match *of {
        Action::Move(Move { location, .. }) | Action::Copy(location) => location,
    }
}

impl Tiering {
    /// Starts everything. `walk` goes through all files of the volume.
    pub(crate) fn start(
        self: &Arc<Tiering>,
        pool: &Arc<Pool>,
        walk: impl FnOnce(&mut dyn FnMut(&File) -> bool) + Send + 'static,
    ) {
        let (driver, numbers) = (self.clone(), pool.clone());
        self.workers.start("tiering", move || driver.drive(&numbers));
        for _ in 0..self.wish.concurrent {
            let carrier = self.clone();
            self.workers.start("tiering-move", move || carrier.carry_all());
        }
        let looker = self.clone();
        self.workers.start("tiering-look", move || {
            // What lies on the fast tier counts from the start, also what nobody uses.
            if looker.wait_for_machine() {
                walk(&mut |file| {
                    looker.found_in_tree(file);
                    !looker.ends()
                });
            }
        });
    }

    /// Ends the threads. The mover must have been stopped before, so that moves end.
    pub(crate) fn stop(&self) {
        self.end_threads();
        // After a stop nobody watches whether segments are written, so that copies are worth nothing.
        if let Err(error) = self.mover.forget_copies() {
            tracing::warn!("slow copies are left to the next start: {error}");
        }
    }

    fn end_threads(&self) {
        self.moves.lock().ends = true;
        self.carriers.notify_all();
        self.workers.stop();
    }

    fn wait_for_machine(&self) -> bool {
        while self.inner.lock().machine.is_none() {
            if !self.rest(Duration::from_millis(250)) {
                return false;
            }
        }
        true
    }

    /// Whether it is to end.
    pub(super) fn ends(&self) -> bool {
        self.moves.lock().ends
    }

    /// Rests so long, or not if it ends meanwhile. Whether it goes on.
    fn rest(&self, span: Duration) -> bool {
        let until = Instant::now() + span;
        let mut moves = self.moves.lock();
        while !moves.ends && !self.carriers.wait_until(&mut moves, until).timed_out() {}
        !moves.ends
    }

    fn drive(&self, pool: &Pool) {
        let Some(costs) = self.find_costs(pool) else {
            tracing::error!("the speed of a tier is not known, so nothing is moved; give both tiers a `speed`");
            return;
        };
        self.set_costs(self.ear.now(), costs);
        let every = look_every(self.wish.tiering.idle);
        loop {
            let deadline = self.step(self.ear.now());
            let left = deadline.map(|at| Duration::from_nanos(at.since(self.ear.now()).0));
            let span = left.map_or(every, |left| left.clamp(Duration::from_millis(1), every));
            if !self.rest(span) {
                return;
            }
        }
    }

    /// Carries out moves until the end.
    fn carry_all(&self) {
        loop {
            let begun = {
                let mut moves = self.moves.lock();
                loop {
                    if moves.ends {
                        return;
                    }
                    match moves.next() {
                        Some(begun) => break begun,
                        None => self.carriers.wait(&mut moves),
                    }
                }
            };
            self.carry_one(begun);
            self.moves.lock().under_way.remove(&location(&begun.of).file);
            self.carriers.notify_all();
        }
    }

    /// Carries out the moves that were handed out, on this thread: for tests without threads. How many.
    pub fn carry_now(&self) -> usize {
        self.carry_now_if(|_| true)
    }

    /// The same, of those that are about such locations.
    pub fn carry_now_if(&self, which: impl Fn(Location) -> bool) -> usize {
        let waiting = std::mem::take(&mut self.moves.lock().waiting);
        let (now, later): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|begun| which(location(&begun.of)));
        self.moves.lock().waiting.extend(later);
        now.iter().for_each(|begun| self.carry_one(*begun));
        now.len()
    }

    fn carry_one(&self, begun: Begun) {
        let of = begun.of;
        let done = self.carry(begun).unwrap_or_else(|error| {
            let Location { file, segment } = location(&of);
            match error {
                // In use in a way that excludes a move, or written while it was copied; it is tried again.
                Error::Busy(_) => {}
                error => tracing::info!(file, segment, "not moved or copied: {error}"),
            }
            false
        });
        self.inner.lock().outcomes.push((of, done));
    }
}

/// All files of a walk, until `look` has seen enough.
pub(crate) fn each_file(walk: crate::Result<Walk<'_>>, look: &mut dyn FnMut(&File) -> bool) {
    match walk {
        Ok(walk) => {
            for file in walk.flatten() {
                if !look(&file) {
                    return;
                }
            }
        }
        Err(error) => tracing::warn!("what lies on the fast tier is learned as it is used: {error}"),
    }
}
