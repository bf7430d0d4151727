//! Recovery of a lost object from its source, with or without a reader that waits (paper 002, chapters 2 and 3).
//!
//! The coordinator is the machine that the mount runs. The source serves one range at a time: a delay for a range that
//! does not follow the one before, then the bytes. Each file has a reader of its own; a reader takes a stripe, computes
//! at its rate, which varies by a half, and blocks at a stripe that is lost. All files lose the same position of their
//! layout.

use crate::event::{EventQueue, Rank};
use crate::generate::Rng;
use policy::layout::{Chunk, OPEN_END, Object, ObjectState, Segment, missing_chunks};
use policy::machine::Machine;
use policy::protect::recovery::{Action, Config, Event, Key, Recovery};
use policy::time::Time;
use policy::{FileId, ObjectId, TargetId};

/// A source of staged data.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Bytes per second.
    pub rate: f64,
    /// Time to open a session; it is paid once.
    pub session: Time,
    /// Delay of a range that does not follow the one before.
    pub seek: Time,
    /// Distance that the source reads ahead: a nearer range costs its share of the delay.
    pub window: u64,
}

/// A volume with a lost target.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Size of each file.
    pub size: u64,
    /// Number of files that lost an object.
    pub files: u64,
    /// Bytes of a stripe.
    pub stripe_size: u64,
    /// Objects of each file.
    pub stripe_count: usize,
    /// The source of all files.
    pub source: Source,
    /// Ranges of a file under way at once.
    pub at_once: usize,
    /// Number of targets that are probed.
    pub targets: u64,
    /// Time of a probe at the node that probes.
    pub probe: Time,
    /// Time after which a target without an answer has failed.
    pub timeout: Time,
    /// Time of a step of the metadata.
    pub metadata: Time,
    /// Bytes per second of a reader; `None` without readers.
    pub reader: Option<f64>,
    /// Whether the target fails when half of each file is read.
    pub mid_way: bool,
    /// Seed of the readers' pace.
    pub seed: u64,
}

/// Results of a run, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// Probe of all targets when none failed.
    pub probe_s: f64,
    /// Probe of all targets when one failed.
    pub detect_s: f64,
    /// Steps of the metadata, of all files.
    pub steps: u64,
    /// Time until the last lost object is whole.
    pub patch_s: f64,
    /// Time to stage one file as a whole.
    pub stage_s: f64,
    /// Additional run time of the last reader.
    pub overhead_s: f64,
}

enum Happening {
    /// A reader needs a stripe.
    Reads { file: u64, stripe: u64 },
    /// The coordinator's answer is ready.
    Answer(Event),
    /// The coordinator's deadline.
    Tick,
}

struct World<'a> {
    setup: &'a Setup,
    recovery: Recovery,
    events: EventQueue<Happening>,
    /// Chunks of a lost object, the same in all files.
    chunks: Vec<Chunk>,
    /// Time at which the source is free, and the file and offset of its last byte.
    free: Time,
    last: Option<(FileId, u64)>,
    /// Stripe that each reader waits for.
    waits: Vec<u64>,
    /// Whether the layout of each file names the spare instead.
    whole: Vec<bool>,
    steps: u64,
    patched: Time,
    read: Time,
}

/// Position of the lost object in each layout.
fn lost_at(count: usize) -> usize {
    count / 2
}

fn key(file: u64) -> Key {
    Key { file: FileId(file), lost: ObjectId(file) }
}

impl Setup {
    fn chunks(&self) -> Vec<Chunk> {
        let object = Object { id: ObjectId(0), target: TargetId(0), state: ObjectState::Complete, merged: None };
        let objects = vec![object; self.stripe_count];
        let segment = Segment { start: 0, end: OPEN_END, stripe_size: self.stripe_size, objects };
        missing_chunks(&segment, lost_at(self.stripe_count), self.size).collect()
    }

    fn span(&self, bytes: u64, rate: f64) -> Time {
        Time((bytes as f64 / rate * 1e9) as u64)
    }

    /// Time of a reader with a stripe, between a half and three halves of its mean.
    fn computes(&self, file: u64, stripe: u64) -> Time {
        let share = 0.5 + Rng::new(self.seed, file << 32 | stripe).unit();
        self.reader.map_or(Time::ZERO, |rate| self.span(self.stripe_size, rate / share))
    }

    /// Time of the slowest reader without a failure.
    fn alone(&self) -> Time {
        let stripes = self.size.div_ceil(self.stripe_size);
        let of = |file| (0..stripes).map(|stripe| self.computes(file, stripe)).fold(Time::ZERO, |a, b| a + b);
        (0..self.files).map(of).max().unwrap_or_default()
    }
}

/// Loses a target, and recovers the objects on it.
pub fn run(setup: &Setup) -> Figures {
    let probe = Time(setup.probe.0 * setup.targets);
    let stripes = setup.size.div_ceil(setup.stripe_size);
    let config = Config { rows_per_key_max: setup.at_once, ..Config::default() };
    let mut world = World {
        setup,
        recovery: Recovery::new(config),
        events: EventQueue::new(),
        chunks: setup.chunks(),
        free: Time::ZERO,
        last: None,
        waits: vec![0; setup.files as usize],
        whole: vec![false; setup.files as usize],
        steps: 0,
        patched: Time::ZERO,
        read: Time::ZERO,
    };
    for file in 0..setup.files {
        let first = if setup.reader.is_some() {
            Happening::Reads { file, stripe: 0 }
        } else {
            Happening::Answer(Event::RepairWanted(key(file)))
        };
        world.events.push(Time::ZERO, Rank::Arrival, first);
    }
    while let Some((now, happening)) = world.events.pop() {
        match happening {
            Happening::Reads { stripe, .. } if stripe == stripes => world.read = world.read.max(now),
            Happening::Reads { file, stripe } => world.reads(now, file, stripe),
            Happening::Answer(event) => world.handle(now, event),
            Happening::Tick => world.handle(now, Event::Tick),
        }
    }
    world.recovery.check();
    Figures {
        probe_s: probe.as_secs_f64(),
        detect_s: probe.max(setup.timeout).as_secs_f64(),
        steps: world.steps,
        patch_s: world.patched.as_secs_f64(),
        stage_s: (setup.source.session + setup.span(setup.size, setup.source.rate)).as_secs_f64(),
        overhead_s: world.read.since(setup.alone()).as_secs_f64(),
    }
}

impl World<'_> {
    /// A reader takes a stripe, or blocks.
    fn reads(&mut self, now: Time, file: u64, stripe: u64) {
        let (setup, count) = (self.setup, self.setup.stripe_count as u64);
        let row = stripe / count;
        let has_failed =
            !setup.mid_way || stripe * 2 * setup.stripe_size >= setup.size || self.recovery.knows(key(file));
        let is_lost = stripe % count == lost_at(setup.stripe_count) as u64 && has_failed;
        if is_lost && !self.whole[file as usize] && !self.recovery.is_patched(key(file), row) {
            self.waits[file as usize] = stripe;
            return self.handle(now, Event::ReadBlocked { key: key(file), waiter: file, rows: row..row + 1 });
        }
        let next = Happening::Reads { file, stripe: stripe + 1 };
        self.events.push(now + setup.computes(file, stripe), Rank::Completion, next);
    }

    fn handle(&mut self, now: Time, event: Event) {
        match event {
            Event::Patched { .. } => self.patched = now,
            Event::Closed(key) => self.whole[key.lost.0 as usize] = true,
            _ => {}
        }
        self.recovery.handle(now, event);
        while let Some(action) = self.recovery.poll() {
            self.carry(now, action);
        }
        if let Some(at) = self.recovery.next_deadline() {
            self.events.push(at.max(now), Rank::Timer, Happening::Tick);
        }
    }

    fn carry(&mut self, now: Time, action: Action) {
        let rows = self.chunks.len() as u64;
        let (answer, at) = match action {
            Action::ChooseSpare(key) => {
                let new_object = ObjectId(self.setup.files + key.lost.0);
                (Event::SpareReady { key, new_object, rows, sources: 1 }, self.step(now))
            }
            Action::Publish { key, .. } => (Event::Published(key), self.step(now)),
            Action::Finish { key, .. } => (Event::Closed(key), self.step(now)),
            Action::Fetch { key, row, .. } => (Event::Patched { key, row }, self.fetch(now, key.file, row)),
            Action::Wake { waiter, .. } => {
                let stripe = self.waits[waiter as usize];
                return self.events.push(now, Rank::Arrival, Happening::Reads { file: waiter, stripe });
            }
            Action::Discard { .. } | Action::Forgotten { .. } => return,
        };
        self.events.push(at, Rank::Completion, Happening::Answer(answer));
    }

    /// End of a step of the metadata.
    fn step(&mut self, now: Time) -> Time {
        self.steps += 1;
        now + self.setup.metadata
    }

    /// End of the fetch of a row.
    fn fetch(&mut self, now: Time, file: FileId, row: u64) -> Time {
        let (source, chunk) = (&self.setup.source, self.chunks[row as usize]);
        let delay = match self.last {
            None => source.session,
            Some((of, end)) if of == file && end <= chunk.file_offset => {
                let share = (chunk.file_offset - end) as f64 / source.window.max(1) as f64;
                Time((source.seek.0 as f64 * share.min(1.0)) as u64)
            }
            Some(_) => source.seek,
        };
        self.last = Some((file, chunk.file_offset + chunk.len));
        self.free = self.free.max(now) + delay + self.setup.span(chunk.len, source.rate);
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn setup() -> Setup {
        let source = Source { rate: 32.0 * MIB as f64, session: Time::ZERO, seek: Time::ZERO, window: 0 };
        Setup {
            size: 256 * MIB,
            files: 1,
            stripe_size: MIB,
            stripe_count: 4,
            source,
            at_once: 1,
            targets: 16,
            probe: Time::from_millis(1),
            timeout: Time::from_secs(25),
            metadata: Time::from_millis(2),
            reader: None,
            mid_way: false,
            seed: 1,
        }
    }

    #[test]
    fn a_patch_costs_the_lost_bytes_the_delays_and_two_steps_of_the_metadata() {
        let plain = run(&setup());
        assert_eq!((plain.probe_s, plain.detect_s, plain.steps), (0.016, 25.0, 3));
        assert!((plain.patch_s - 2.004).abs() < 1e-6 && plain.stage_s == 8.0, "{plain:?}");
        let slow = Source { session: Time::from_secs(1), seek: Time::from_millis(10), ..setup().source };
        let seeks = run(&Setup { source: slow, ..setup() });
        // 64 ranges: the first opens the session, each other one is away from the one before.
        assert!((seeks.patch_s - (2.004 + 1.0 + 0.63)).abs() < 1e-6, "{seeks:?}");
    }

    #[test]
    fn a_reader_waits_for_about_one_stripe_whatever_the_size_and_the_rest_is_hidden() {
        let of = |size, mid_way, rate: u64| {
            let source = Source { rate: (rate * MIB) as f64, ..setup().source };
            run(&Setup { size: size * MIB, mid_way, source, reader: Some(20.0 * MIB as f64), ..setup() }).overhead_s
        };
        for mid_way in [false, true] {
            for size in [64, 1024] {
                assert!((of(size, mid_way, 32) - 0.035).abs() < 0.01, "{}", of(size, mid_way, 32));
            }
        }
        // A source that is slower than the reader needs delays it at every stripe.
        assert!(of(256, false, 2) > 10.0);
    }

    #[test]
    fn readers_of_several_files_share_the_source() {
        let of = |files| run(&Setup { files, reader: Some(20.0 * MIB as f64), ..setup() });
        let (one, eight) = (of(1), of(8));
        assert_eq!(eight.steps, 8 * one.steps);
        // Eight readers take more from the source than it has.
        assert!(eight.overhead_s > 10.0 * one.overhead_s, "{one:?} {eight:?}");
    }
}
