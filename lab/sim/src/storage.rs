//! Storage below the last cache: one device or an array, each device behind a block layer of its own.
//!
//! The owner of the world calls [`Storage::submit`] and, at their times, [`Storage::happen`]. Both announce through
//! `wake` the next calls and their times. Completed requests return their tags.

mod array;
mod device;
mod drawn;

pub use array::{Array, Piece};
pub use device::{Cost, Device, Service};
pub use drawn::Drawn;

use crate::block::{self, Choice, Io, Merging, Queue, Scheduler, Slot};
use array::Split;
use policy::precedence::{Class, Precedence};
use policy::time::Time;

/// Event of a member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Wake {
    /// The device has completed this request.
    Done {
        /// Index of the member.
        member: u32,
        /// Slot of the request.
        slot: Slot,
    },
    /// The wait of the scheduler has ended.
    Look {
        /// Index of the member.
        member: u32,
    },
}

/// Devices behind their queues.
#[derive(Debug)]
pub struct Storage {
    members: Vec<Member>,
    array: Array,
    /// Requests that were split, by number; the free numbers follow.
    joints: Vec<Joint>,
    free_joints: Vec<u32>,
    split: Split,
    done: Vec<u64>,
}

#[derive(Debug)]
struct Member {
    queue: Queue,
    device: Device,
    under_way: u32,
    looks_at: Option<Time>,
}

/// A request that was split into several.
#[derive(Debug, Default)]
struct Joint {
    tag: u64,
    owner: u32,
    class: Class,
    outstanding: u32,
    /// Pieces that follow once all others are done: the writes of a read-modify-write.
    then: Vec<Piece>,
}

/// Tag of background work, whose completion is not reported.
pub const UNATTENDED: u64 = u64::MAX;

impl Storage {
    /// Creates an array of `devices`, each with a queue of its own.
    pub fn new(devices: Vec<Device>, array: Array, scheduler: Scheduler, merging: Merging) -> Storage {
        assert!(!devices.is_empty(), "an array of nothing");
        let member = |device| Member { queue: Queue::new(scheduler, merging), device, under_way: 0, looks_at: None };
        let members = devices.into_iter().map(member).collect();
        Storage {
            members,
            array,
            joints: Vec::new(),
            free_joints: Vec::new(),
            split: Split::default(),
            done: Vec::new(),
        }
    }

    /// Lets awaited reads go before prefetches in each member's queue.
    pub fn with_precedence(mut self, precedence: Precedence) -> Storage {
        let with = |member: Member| Member { queue: member.queue.with_precedence(precedence), ..member };
        self.members = self.members.into_iter().map(with).collect();
        self
    }

    /// Marks the request `tag`, so far a prefetch, as awaited.
    pub fn raise(&mut self, tag: u64) {
        if let [member] = &mut self.members[..] {
            return member.queue.raise(tag);
        }
        let of_tag = |joint: &Joint| joint.outstanding > 0 && joint.tag == tag;
        if let Some(joint) = self.joints.iter().position(of_tag) {
            self.joints[joint].class = Class::Awaited;
            self.members.iter_mut().for_each(|member| member.queue.raise(joint as u64));
        }
    }

    /// Number of addressable sectors.
    pub fn sectors(&self) -> u64 {
        let smallest = self.members.iter().map(|member| member.device.sectors()).min().unwrap_or(0);
        self.array.sectors(smallest, self.members.len() as u64)
    }

    /// Submits a request; `tag` is returned at its completion.
    pub fn submit(&mut self, now: Time, io: Io, tag: u64, mut wake: impl FnMut(Time, Wake)) {
        if self.members.len() == 1 {
            self.members[0].queue.submit(now, io, tag);
            self.start(now, 0, &mut wake);
            return;
        }
        self.array.split(&io, self.members.len() as u64, &mut self.split);
        let joint = self.free_joints.pop().unwrap_or_else(|| {
            self.joints.push(Joint::default());
            (self.joints.len() - 1) as u32
        });
        let entry = &mut self.joints[joint as usize];
        (entry.tag, entry.owner, entry.class) = (tag, io.owner, io.class);
        std::mem::swap(&mut entry.then, &mut self.split.then);
        let first = std::mem::take(&mut self.split.first);
        self.submit_pieces(now, joint, &first, &mut wake);
        self.split.first = first;
    }

    /// Processes an event announced through `wake`. The tags of completed requests are left for [`Storage::drain`].
    pub fn happen(&mut self, now: Time, what: Wake, mut wake: impl FnMut(Time, Wake)) {
        let member = match what {
            Wake::Look { member } => {
                let looks_at = &mut self.members[member as usize].looks_at;
                if *looks_at == Some(now) {
                    *looks_at = None;
                }
                member
            }
            Wake::Done { member, slot } => {
                let Member { queue, under_way, .. } = &mut self.members[member as usize];
                *under_way -= 1;
                let first = self.done.len();
                queue.completed(now, slot, |tag| self.done.push(tag));
                if self.members.len() > 1 {
                    self.join(now, first, &mut wake);
                }
                member
            }
        };
        self.start(now, member, &mut wake);
    }

    /// Calls `tag` for each request completed since the last call.
    pub fn drain(&mut self, tag: impl FnMut(u64)) {
        self.done.drain(..).filter(|&tag| tag != UNATTENDED).for_each(tag);
    }

    /// Returns the sum of the block layers' counters.
    pub fn counts(&self) -> block::Counts {
        let mut sum = block::Counts::default();
        for counts in self.members.iter().map(|member| member.queue.counts()) {
            sum.submitted += counts.submitted;
            sum.merged += counts.merged;
            sum.started += counts.started;
            sum.sectors += counts.sectors;
            sum.writes += counts.writes;
            sum.waited_ns += counts.waited_ns;
            sum.waiting_max = sum.waiting_max.max(counts.waiting_max);
        }
        sum
    }

    /// Busy time of the devices, summed over them.
    pub fn busy_ns(&self) -> u64 {
        self.members.iter().map(|member| member.device.busy_ns()).sum()
    }

    /// Returns whether no request waits or is under way.
    pub fn is_idle(&self) -> bool {
        self.members.iter().all(|member| member.under_way == 0 && member.queue.waiting() == 0)
    }

    /// Panics if an invariant of a member is broken.
    pub fn check(&self) {
        for member in &self.members {
            member.queue.check();
            member.device.check();
            assert!(member.under_way <= member.device.slots(), "more under way than the device takes");
            let stuck = member.queue.waiting() > 0 && member.under_way == 0 && member.looks_at.is_none();
            assert!(!stuck, "requests wait and nothing will start them");
        }
    }

    fn submit_pieces(&mut self, now: Time, joint: u32, pieces: &[Piece], wake: &mut impl FnMut(Time, Wake)) {
        let Joint { owner, class, .. } = self.joints[joint as usize];
        self.joints[joint as usize].outstanding = pieces.len() as u32;
        for piece in pieces {
            let io = Io { sector: piece.sector, count: piece.count, write: piece.write, owner, class };
            self.members[piece.member as usize].queue.submit(now, io, u64::from(joint));
        }
        for piece in pieces {
            self.start(now, piece.member, wake);
        }
    }

    /// Handles the completion of pieces: the tags from `first` on are joints.
    fn join(&mut self, now: Time, first: usize, wake: &mut impl FnMut(Time, Wake)) {
        let pieces = self.done.len() - first;
        for _ in 0..pieces {
            let joint = self.done.remove(first) as u32;
            let entry = &mut self.joints[joint as usize];
            entry.outstanding -= 1;
            if entry.outstanding > 0 {
                continue;
            }
            if entry.then.is_empty() {
                self.done.push(entry.tag);
                self.free_joints.push(joint);
                continue;
            }
            let mut then = std::mem::take(&mut entry.then);
            self.submit_pieces(now, joint, &then, wake);
            then.clear();
            self.joints[joint as usize].then = then;
        }
    }

    /// Starts as many requests on `member` as its device takes.
    fn start(&mut self, now: Time, member: u32, wake: &mut impl FnMut(Time, Wake)) {
        let Member { queue, device, under_way, looks_at } = &mut self.members[member as usize];
        while *under_way < device.slots() {
            match queue.choose(now) {
                Choice::Start(slot, io) => {
                    *under_way += 1;
                    wake(device.serve(now, &io), Wake::Done { member, slot });
                }
                Choice::WaitUntil(until) => {
                    if looks_at.is_none_or(|at| at > until) {
                        *looks_at = Some(until);
                        wake(until, Wake::Look { member });
                    }
                    break;
                }
                Choice::Idle => break,
            }
        }
    }
}

#[cfg(test)]
mod tests;
