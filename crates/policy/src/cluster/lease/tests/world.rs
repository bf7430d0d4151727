//! Nodes over a simulated namespace: own clocks, freezes, crashes, lost answers, and incomplete listings.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A small generator, so that one seed is one run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Name {
    New,
    Beat(u64),
    Over,
}

/// Present and former names of a lease file.
struct File {
    name: Name,
    before: Name,
    renamed: u64,
}

#[derive(Clone, Debug)]
enum Happens {
    /// A number was claimed; its lease file is created.
    Born,
    /// A rename is carried out; the flag: whether the node gets the answer.
    Renamed { beat: u64, asked: Time, answer: bool },
    /// The listing that began at that time is complete.
    Listed { began: u64 },
    /// A rename of another node's file, or of the own, to `over`.
    Expel { node: Node, beat: Option<u64> },
    /// The node handles the event.
    Hears(Event),
    /// Deadline of the node's machine, if it is still the same.
    Tick,
}

struct Host {
    /// The clock shows `origin + real * (1 + rate)`.
    rate: f64,
    origin: u64,
    machine: Option<Membership>,
    frozen_until: u64,
    /// Deadline of the node's machine, in real time.
    tick_at: u64,
    crashed: bool,
}

struct World {
    config: Config,
    random: Random,
    now: u64,
    queue: BTreeMap<(u64, u64), (Node, Happens)>,
    events: u64,
    files: BTreeMap<Node, File>,
    hosts: BTreeMap<Node, Host>,
    faults: bool,
    takeovers: u64,
    expelled: u64,
    led: Option<Node>,
    /// Every third number drains.
    some_drain: bool,
    /// Every fourth number joined a large cluster, so its lease is twice as long.
    some_last: bool,
}

impl World {
    fn new(seed: u64) -> World {
        let random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        // With few watchers most nodes list rarely.
        let watchers = [1, 2, Config::default().watchers][(seed % 3) as usize];
        let mut world = World {
            config: Config { watchers, ..Config::default() },
            random,
            now: 0,
            queue: BTreeMap::new(),
            events: 0,
            files: BTreeMap::new(),
            hosts: BTreeMap::new(),
            faults: true,
            takeovers: 0,
            expelled: 0,
            led: None,
            some_drain: false,
            some_last: false,
        };
        for _ in 0..2 + world.random.below(4) {
            world.claim();
        }
        world
    }

    fn config_of(&self, node: Node) -> Config {
        let others = if self.some_last && node.0.is_multiple_of(4) { 399 } else { 0 };
        self.config.clone().beside(others)
    }

    fn claim(&mut self) {
        let node = Node(self.hosts.len() as u32 + 1);
        let rate = [0.0, 0.005, 0.01][self.random.below(3) as usize];
        let origin = self.random.below(1_000_000_000_000);
        self.hosts.insert(node, Host { rate, origin, machine: None, frozen_until: 0, tick_at: 0, crashed: false });
        self.files.insert(node, File { name: Name::New, before: Name::New, renamed: self.now });
        if self.faults && self.random.one_in(10) {
            // The node crashes before its birth.
            self.hosts.get_mut(&node).unwrap().crashed = true;
            return self.claim();
        }
        let late = if self.random.one_in(4) { 12_000 } else { 50 };
        let delay = self.random.below(late) * MS;
        self.push(delay, node, Happens::Born);
    }

    fn push(&mut self, delay: u64, node: Node, happens: Happens) {
        self.events += 1;
        self.queue.insert((self.now + delay, self.events), (node, happens));
    }

    fn clock(&self, node: Node) -> Time {
        let host = &self.hosts[&node];
        Time(host.origin + (self.now as f64 * (1.0 + host.rate)) as u64)
    }

    /// Duration of an operation of the file system, in nanoseconds.
    fn operation(&mut self) -> u64 {
        let most = if self.faults && self.random.one_in(40) { 7_000 } else { 20 };
        (1 + self.random.below(most)) * MS
    }

    fn run(&mut self, until: u64) {
        while let Some(((at, _), (node, happens))) = self.queue.pop_first() {
            if at > until {
                self.push(at.saturating_sub(self.now), node, happens);
                break;
            }
            self.now = at;
            self.happens(node, happens);
            self.judge();
        }
        self.now = until;
    }

    fn happens(&mut self, node: Node, happens: Happens) {
        match happens {
            Happens::Born => self.born(node),
            Happens::Renamed { beat, asked, answer } => {
                let done = self.rename(node, Name::Beat(beat), Name::Beat(beat + 1));
                let event = if done { Event::Renewed { beat: beat + 1, asked } } else { Event::Gone };
                if answer {
                    let delay = self.operation();
                    self.push(delay, node, Happens::Hears(event));
                }
            }
            Happens::Listed { began } => {
                let event = self.listing(began);
                self.push(MS, node, Happens::Hears(event));
            }
            Happens::Expel { node: whom, beat } => {
                let done = self.rename(whom, beat.map_or(Name::New, Name::Beat), Name::Over);
                if done {
                    self.expelled += u64::from(whom != node);
                    let owner = self.hosts[&whom].machine.as_ref();
                    let held = owner.is_some_and(|owner| owner.holds(self.clock(whom)));
                    assert!(!held, "{whom} held its lease when {node} expelled it");
                }
                let event = if done { Event::Expelled { node: whom } } else { Event::Survived { node: whom } };
                let delay = self.operation();
                self.push(delay, node, Happens::Hears(event));
            }
            Happens::Hears(event) => self.hears(node, event),
            Happens::Tick if self.hosts[&node].tick_at == self.now => self.hears(node, Event::Tick),
            Happens::Tick => {}
        }
    }

    fn drains(&self, node: Node) -> bool {
        self.some_drain && node.0.is_multiple_of(3)
    }

    fn born(&mut self, node: Node) {
        let now = self.clock(node);
        if !self.rename(node, Name::New, Name::Beat(0)) {
            return self.claim();
        }
        let new = Membership::new(self.config_of(node), now, node, now);
        let new = if self.drains(node) { new.draining() } else { new };
        self.hosts.get_mut(&node).unwrap().machine = Some(new);
        self.hears(node, Event::Tick);
    }

    fn rename(&mut self, node: Node, from: Name, to: Name) -> bool {
        let now = self.now;
        let file = self.files.get_mut(&node).unwrap();
        let found = file.name == from;
        if found {
            *file = File { name: to, before: from, renamed: now };
        }
        found
    }

    /// A file renamed during the listing appears under either name, both, or none.
    fn listing(&mut self, began: u64) -> Event {
        let (mut leases, mut over) = (Vec::new(), Vec::new());
        for (node, file) in &self.files {
            let moved = file.renamed >= began;
            let (old, new) = if moved { (self.random.one_in(2), self.random.one_in(2)) } else { (false, true) };
            for name in
                [file.before, file.name].into_iter().zip([old, new]).filter_map(|(name, shown)| shown.then_some(name))
            {
                match name {
                    Name::Beat(beat) => leases.push(Seen {
                        node: *node,
                        beat,
                        lease: self.config_of(*node).lease,
                        drains: self.drains(*node),
                    }),
                    Name::Over => over.push(*node),
                    Name::New => {}
                }
            }
        }
        Event::Seen { leases, over }
    }

    fn hears(&mut self, node: Node, event: Event) {
        let now = self.clock(node);
        let host = self.hosts.get_mut(&node).unwrap();
        if host.crashed {
            return;
        }
        if host.frozen_until > self.now {
            let delay = host.frozen_until - self.now;
            return self.push(delay, node, Happens::Hears(event));
        }
        let Some(machine) = &mut host.machine else { return };
        machine.handle(now, event);
        machine.check();
        let actions: Vec<Action> = machine.drain().collect();
        let deadline = machine.next_deadline();
        for action in actions {
            self.carry(node, now, action);
        }
        if let Some(at) = deadline {
            let host = self.hosts.get_mut(&node).unwrap();
            let delay = (at.since(now).0 as f64 / (1.0 + host.rate)).ceil() as u64 + 1;
            host.tick_at = self.now + delay;
            self.push(delay, node, Happens::Tick);
        }
        if self.faults {
            self.fault(node);
        }
    }

    /// A random running node waits for another.
    fn asks(&mut self) {
        for node in self.alive() {
            self.push(0, node, Happens::Hears(Event::Asked));
        }
    }

    fn fault(&mut self, node: Node) {
        let span = (500 + self.random.below(9_000)) * MS;
        if self.random.one_in(120) {
            self.hosts.get_mut(&node).unwrap().frozen_until = self.now + span;
        } else if self.random.one_in(1000) {
            self.hosts.get_mut(&node).unwrap().crashed = true;
            self.claim();
        } else if self.random.one_in(1500) {
            self.push(0, node, Happens::Hears(Event::Leave));
        }
    }

    fn carry(&mut self, node: Node, asked: Time, action: Action) {
        let delay = self.operation();
        match action {
            Action::Renew { beat } => {
                let lost = self.faults && self.random.one_in(20);
                if lost && self.random.one_in(2) {
                    // The request is never sent.
                    return self.push(delay, node, Happens::Hears(Event::RenewFailed));
                }
                if lost {
                    let sooner = self.random.below(delay);
                    self.push(sooner, node, Happens::Hears(Event::RenewFailed));
                }
                self.push(delay, node, Happens::Renamed { beat, asked, answer: !lost });
            }
            Action::Look if self.faults && self.random.one_in(30) => {
                self.push(delay, node, Happens::Hears(Event::LookFailed));
            }
            Action::Look => self.push(delay, node, Happens::Listed { began: self.now }),
            Action::Expel { node: whom, .. } if self.faults && self.random.one_in(10) => {
                self.push(delay, node, Happens::Hears(Event::ExpelFailed { node: whom }));
            }
            Action::Expel { node: whom, beat, .. } => self.push(delay, node, Happens::Expel { node: whom, beat }),
            Action::Lead => {
                self.takeovers += u64::from(self.led != Some(node));
                self.led = Some(node);
            }
            Action::Lost => self.claim(),
            Action::Follow { .. } | Action::Came { .. } | Action::Left { .. } => {}
        }
    }

    fn judge(&self) {
        let leads = |node: &Node| {
            let machine = self.hosts[node].machine.as_ref();
            machine.is_some_and(|machine| machine.leads(self.clock(*node)))
        };
        let leaders: Vec<Node> = self.hosts.keys().copied().filter(leads).collect();
        assert!(leaders.len() < 2, "{leaders:?} lead at {}", Time(self.now));
    }

    /// Running nodes whose number is not over.
    fn alive(&self) -> Vec<Node> {
        let over = |node: &Node| !matches!(self.files[node].name, Name::Beat(_));
        self.hosts.iter().filter(|(node, host)| !host.crashed && !over(node)).map(|(node, _)| *node).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
    #[test]
    fn never_two_lead_and_nobody_is_expelled_who_holds_a_lease_and_peace_brings_one_leader(
        seed in any::<u64>(),
        some_drain in any::<bool>(),
        some_last in any::<bool>(),
    ) {
        let mut world = World::new(seed);
        (world.some_drain, world.some_last) = (some_drain, some_last);
        world.run(120_000 * MS);
        world.faults = false;
        world.run(170_000 * MS);
        world.asks();
        world.run(180_000 * MS);
        let alive = world.alive();
        let leader = alive.iter().copied().find(|node| !world.drains(*node));
        for node in &alive {
            let machine = world.hosts[node].machine.as_ref().unwrap();
            prop_assert_eq!(machine.members(), alive.iter().copied().collect());
            prop_assert_eq!((machine.leader(), machine.holds(world.clock(*node))), (leader, true));
        }
        if let Some(leader) = leader {
            prop_assert!(world.hosts[&leader].machine.as_ref().unwrap().leads(world.clock(leader)));
        }
    }
}

#[test]
fn the_random_worlds_have_takeovers_and_expulsions() {
    let sums = (1..40).fold((0, 0), |(takeovers, expelled), seed| {
        let mut world = World::new(seed);
        world.run(120_000 * MS);
        (takeovers + world.takeovers, expelled + world.expelled)
    });
    assert!(sums.0 > 100 && sums.1 > 100, "{sums:?} takeovers and expulsions");
}

#[test]
fn a_takeover_after_a_crash_takes_less_than_ten_seconds() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        (world.faults, world.config) = (false, Config::default());
        world.run(30_000 * MS + world.now + seed * 7 * MS);
        let leader = world.led.unwrap();
        world.hosts.get_mut(&leader).unwrap().crashed = true;
        let from = world.now;
        while world.led == Some(leader) {
            world.run(world.now + 10 * MS);
            assert!(world.now < from + 10_000 * MS, "seed {seed}: nobody leads after ten seconds");
        }
    }
}

#[test]
fn when_the_lowest_are_gone_at_once_another_takes_over_soon() {
    let config = Config::default();
    for (seed, gone) in [(0, 4), (1, 8), (2, 12), (3, 12)] {
        let mut world = World::new(seed);
        (world.faults, world.config) = (false, config.clone());
        (0..20).for_each(|_| world.claim());
        world.run(40_000 * MS);
        let lowest: Vec<Node> = world.alive().into_iter().take(gone).collect();
        lowest.iter().for_each(|node| world.hosts.get_mut(node).unwrap().crashed = true);
        let from = world.now;
        while world.led.is_some_and(|led| lowest.contains(&led)) {
            world.run(world.now + 100 * MS);
            // One listing shows the last beat. At most two more show that it stood still for too long.
            let look = config.look_every_at(gone);
            let most = config.patience(config.lease) + look + look + Time::from_secs(3);
            assert!(world.now < from + most.0, "seed {seed}: {gone} gone, and nobody leads after {most}");
        }
    }
}
