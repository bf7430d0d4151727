//! Table of the nodes that hold files: the specification of the scripts of the state store.
//!
//! ```text
//!   entry of a file      claim or none | per node: mode, number | generation | unsettled
//!   member               node, registered in this run, end of its session
//!   run                  opened once all members have registered; suspect until a check of the volume
//! ```
//! **Modes.** Several nodes may hold a file for `Read`, or several for `Write`, or one for `Exclusive`. `Read` and
//! `Exclusive` *cache*: size and content are used without a look at the shared file system. `Write` caches nothing, so
//! it is the mode of every file that one node writes and another uses. The objects of such a file show its size: its
//! stub gets it later. `Open` gives no right: it keeps the objects of a removed file.
//!
//! **Sessions.** A member without a session may hold files that the table does not show. So while one exists, no mode
//! that caches is admitted and no claim is granted. A mode that caches ends with its holder's session at the latest.
//!
//! **Unsettled.** A node that is over may leave growth that the stub lacks, or a change that it still publishes. The
//! entry then admits no node before one has claimed the next generation, settled the size, and published. After a loss
//! of the store's last writes this holds for every file: the run is *suspect*.
//!
//! An entry without holders, claim and debt disappears. Every request may be repeated, also late.
//!
//! **New files.** An admission reports whether the table is sure that the file had no holder within a session. A node
//! that created the file in this time then knows that it is empty. The table keeps the keys of removed entries. It also
//! keeps the last time at which a member may have had holds that it did not show.
//!
//! **Newest generation.** Only a claim leads to another layout. So the generation that a holder used stays the newest
//! until the next claim, also after its hold, and the next holder looks for no newer one. A hold registered late shows
//! nothing: its node may have been over.

mod request;
#[cfg(test)]
mod tests;

pub use request::{Answer, Request};

use crate::cluster::Node;
use crate::time::Time;
use std::collections::{BTreeMap, BTreeSet};

/// Number of parts of the table. A sweep visits one of them. Small parts take the least memory in a Redis server.
pub const PARTS: u64 = 1 << 15;

/// Limit of the removed entries that are kept. A guess: 10 MB in a Redis server.
const RELEASED_MAX: usize = 1 << 16;

/// Identifier of a running store; a restart, a failover or a restored copy has another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Run(pub u64);

/// Rights of a node in a file. A recall lowers a mode to one before it. A holder that was admitted for `Read` only reads
/// in `Write`, too, until it is admitted as a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// The node has the file open, without any right.
    Open,
    /// The node reads and writes, beside others.
    Write,
    /// The node reads, and no node writes.
    Read,
    /// No other node reads or writes.
    Exclusive,
}

impl Mode {
    /// Whether the node may use what it has cached.
    pub fn caches(self) -> bool {
        self >= Mode::Read
    }

    /// Whether nodes may have both modes of one file.
    pub fn is_beside(self, other: Mode) -> bool {
        self == Mode::Open || other == Mode::Open || (self == other && self != Mode::Exclusive)
    }
}

/// Part of a node in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hold {
    /// Rights of the node.
    pub mode: Mode,
    /// Number of the hold; the node never uses it again.
    pub number: u64,
}

/// Sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Caller {
    /// Number of the node.
    pub node: Node,
    /// Run that the node takes for the running one.
    pub run: Run,
    /// Number of the node's connection to the store. Requests of an earlier one come late, and do nothing.
    pub link: u64,
}

/// Right of a node to change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// Node that changes the file.
    pub node: Node,
    /// Number of the claim; the node never uses it again.
    pub number: u64,
    /// Generation that the node publishes; 0: none, the node takes an exclusive hold.
    pub generation: u64,
}

/// State of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Epoch of the run that the rest belongs to.
    epoch: u32,
    /// Generation that was published last, as far as this run has seen; 0: unknown.
    generation: u64,
    /// Whether `generation` has the newest layout.
    newest: bool,
    /// Whether a node must settle the file before others are admitted.
    unsettled: bool,
    /// Whether a node registered a hold that the table did not show.
    reclaimed: bool,
    /// Claim, and the connection of its node.
    claim: Option<(Claim, u64)>,
    /// Holds, and the connections of their nodes.
    holds: BTreeMap<Node, (Hold, u64)>,
}

/// Rest of a removed entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Released {
    at: Time,
    /// Generation with the newest layout, if known.
    newest: Option<u64>,
}

/// Session of a member.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Session {
    /// Connection of the member.
    link: u64,
    /// End of the session on the store's clock; zero until the member has registered its holds over this connection.
    until: Time,
}

/// All holders of a volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// Duration of a session from its renewal.
    session: Time,
    run: Run,
    epoch: u32,
    opened: bool,
    suspect: bool,
    members: BTreeMap<Node, Session>,
    entries: BTreeMap<u64, Entry>,
    /// Last time at which a member may have had holds that the table did not show.
    unsure: Time,
    /// Removed entries of this run, by key.
    released: BTreeMap<u64, Released>,
}

impl Table {
    /// A table without members; `session` is the duration of a session.
    pub fn new(session: Time) -> Table {
        Table {
            session,
            run: Run(0),
            epoch: 0,
            opened: false,
            suspect: true,
            members: BTreeMap::new(),
            entries: BTreeMap::new(),
            unsure: Time::ZERO,
            released: BTreeMap::new(),
        }
    }

    /// Number of files with an entry.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no file has an entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of nodes in the entry of a file, also of those that are over.
    pub fn holders(&self, key: u64) -> usize {
        self.entries.get(&key).map_or(0, |entry| entry.holds.len())
    }

    /// Serves a request; `now` is the store's clock.
    pub fn serve(&mut self, now: Time, caller: Caller, request: &Request) -> Answer {
        if let Request::Begin = request {
            return self.begin(now, caller);
        }
        if caller.run != self.run {
            return Answer::OtherRun;
        }
        let node = caller.node;
        if self.members.get(&node).is_none_or(|session| session.link != caller.link) {
            return Answer::Unregistered;
        }
        match request {
            Request::Begin => Answer::Done,
            Request::Reclaim { key, hold, claim } => self.reclaim(now, caller, *key, *hold, *claim),
            Request::Register { not_after } if now <= *not_after => {
                self.unsure = now;
                self.renew(now, caller)
            }
            Request::Renew { not_after } if now <= *not_after && self.has_session(now, node) => self.renew(now, caller),
            Request::Register { .. } | Request::Renew { .. } => Answer::Unregistered,
            Request::Open { members } => self.open(members),
            Request::Over { node } => {
                self.members.remove(node);
                self.unsure = now;
                Answer::Done
            }
            Request::Trust => {
                self.suspect = !self.opened;
                Answer::Done
            }
            Request::Lower { key, number, mode, generation } => {
                self.lower(now, node, *key, *number, *mode, *generation)
            }
            Request::Finish { key, number, generation, settled, keeps } => {
                self.finish(now, caller, *key, (*number, *generation), *settled, *keeps)
            }
            Request::Sweep { part } => {
                let keys: Vec<u64> = self.entries.keys().copied().filter(|key| key % PARTS == *part).collect();
                keys.into_iter().for_each(|key| self.put(now, key, self.entry(key)));
                Answer::Done
            }
            _ if !self.has_session(now, node) => Answer::Unregistered,
            _ if !self.opened => Answer::Closed,
            Request::Admit { key, number, writes } => self.admit(now, caller, *key, *number, *writes),
            Request::Claim { key, number, generation } => self.claim(now, caller, *key, *number, *generation),
            Request::OtherHolders { key } => self.other_holders(now, node, *key),
        }
    }

    fn begin(&mut self, now: Time, caller: Caller) -> Answer {
        if caller.run != self.run {
            (self.run, self.opened, self.suspect) = (caller.run, false, true);
            self.epoch += 1;
            self.members.clear();
            self.released.clear();
        }
        let session = self.members.entry(caller.node).or_default();
        if session.link < caller.link {
            *session = Session { link: caller.link, ..Session::default() };
        }
        self.session_of(now)
    }

    fn renew(&mut self, now: Time, caller: Caller) -> Answer {
        let session = Session { link: caller.link, until: now + self.session };
        self.members.insert(caller.node, session);
        self.session_of(now)
    }

    pub(crate) fn has_session(&self, now: Time, node: Node) -> bool {
        self.members.get(&node).is_some_and(|session| now < session.until)
    }

    /// The member whose session ended first.
    pub(crate) fn lapsed(&self, now: Time) -> Option<Node> {
        let (node, session) = self.members.iter().min_by_key(|(node, session)| (session.until, **node))?;
        (now >= session.until).then_some(*node)
    }

    fn session_of(&self, now: Time) -> Answer {
        let lapsed = self.lapsed(now);
        Answer::Session { at: now, opened: self.opened, lapsed, suspect: self.suspect }
    }

    /// Opens the run. `members` are all nodes that were not over in a listing that began within this run.
    fn open(&mut self, members: &BTreeSet<Node>) -> Answer {
        let is_registered = |node: &Node| self.members.get(node).is_some_and(|session| session.until > Time::ZERO);
        if let Some(missing) = members.iter().find(|node| !is_registered(node)) {
            return if self.opened { Answer::Done } else { Answer::Lapsed(*missing) };
        }
        self.opened = true;
        Answer::Done
    }

    /// The entry of a file, without what belongs to earlier runs and to nodes that are over.
    fn entry(&self, key: u64) -> Entry {
        let Some(entry) = self.entries.get(&key) else {
            let newest = self.released.get(&key).and_then(|released| released.newest);
            let (epoch, unsettled, generation) = (self.epoch, self.suspect, newest.unwrap_or(0));
            return Entry { epoch, generation, newest: newest.is_some(), unsettled, ..Entry::default() };
        };
        let mut entry = entry.clone();
        if entry.epoch != self.epoch {
            let left = entry.claim.is_some() || entry.holds.values().any(|(hold, _)| hold.mode > Mode::Open);
            let unsettled = entry.unsettled || left || self.suspect;
            return Entry { epoch: self.epoch, unsettled, ..Entry::default() };
        }
        let over = |node: &Node| !self.members.contains_key(node);
        // A hold for writing leaves writes in flight. A claim leaves a publication in flight.
        let writes = |hold: &Hold| matches!(hold.mode, Mode::Write | Mode::Exclusive);
        entry.unsettled |= entry.holds.iter().any(|(node, (hold, _))| over(node) && writes(hold));
        entry.unsettled |= entry.claim.is_some_and(|(claim, _)| over(&claim.node) && claim.generation > 0);
        // Once a member has registered, it has nothing else.
        let stays = |node: &Node, link: u64| {
            self.members.get(node).is_some_and(|session| session.link == link || session.until == Time::ZERO)
        };
        entry.holds.retain(|node, (_, link)| stays(node, *link));
        entry.claim = entry.claim.filter(|(claim, link)| stays(&claim.node, *link));
        entry
    }

    /// Stores an entry; removes it if it holds nothing.
    fn put(&mut self, now: Time, key: u64, entry: Entry) {
        let owes = entry.unsettled && !self.suspect;
        if !entry.holds.is_empty() || entry.claim.is_some() || owes {
            self.entries.insert(key, entry);
        } else if self.entries.remove(&key).is_some() {
            if self.released.len() >= RELEASED_MAX {
                self.released.clear();
                self.unsure = now;
            }
            self.released.insert(key, Released { at: now, newest: entry.newest.then_some(entry.generation) });
        }
    }

    /// Whether no node has held a file for the duration of a session, for certain.
    fn is_unheld(&self, now: Time, key: u64) -> bool {
        let is_past = |at: Time| now >= at + self.session;
        is_past(self.unsure)
            && !self.entries.contains_key(&key)
            && self.released.get(&key).is_none_or(|released| is_past(released.at))
    }

    /// A member registers a hold and a claim of an earlier run or session.
    fn reclaim(
        &mut self,
        now: Time,
        caller: Caller,
        key: u64,
        hold: Option<Hold>,
        claim: Option<(u64, u64)>,
    ) -> Answer {
        let (node, link) = (caller.node, caller.link);
        let mut entry = self.entry(key);
        let shown = entry.holds.remove(&node).map(|(shown, _)| shown.number);
        entry.reclaimed |= hold.is_some_and(|hold| hold.mode > Mode::Open && shown != Some(hold.number));
        entry.holds.extend(hold.map(|hold| (node, (hold, link))));
        if let Some((number, generation)) = claim {
            entry.claim = Some((Claim { node, number, generation }, link));
        }
        self.put(now, key, entry);
        Answer::Done
    }

    fn admit(&mut self, now: Time, caller: Caller, key: u64, number: u64, writes: bool) -> Answer {
        let node = caller.node;
        let unheld = self.is_unheld(now, key);
        let mut entry = self.entry(key);
        // The node wants an exclusive hold later.
        entry.claim = entry.claim.filter(|(claim, _)| claim.node != node || claim.generation > 0);
        if let Some((claim, _)) = entry.claim {
            return Answer::Claimed(claim.node);
        }
        if entry.unsettled {
            self.put(now, key, entry);
            return Answer::Unsettled;
        }
        let mode = self.mode_for(now, &entry, node, writes);
        let stronger = entry
            .holds
            .iter()
            .filter(|(other, (hold, _))| **other != node && !self.effective(now, **other, hold.mode).is_beside(mode));
        let nodes: BTreeMap<Node, u64> = stronger.map(|(other, (hold, _))| (*other, hold.number)).collect();
        if !nodes.is_empty() {
            return Answer::Recall { nodes, mode: Mode::Write };
        }
        let (generation, newest) = (entry.generation, entry.newest);
        entry.holds.insert(node, (Hold { mode, number }, caller.link));
        self.put(now, key, entry);
        Answer::Granted { mode, generation, newest, unheld }
    }

    /// The mode of another node's hold by now: modes that cache end with the session.
    fn effective(&self, now: Time, node: Node, mode: Mode) -> Mode {
        if mode.caches() && !self.has_session(now, node) { Mode::Write } else { mode }
    }

    /// The strongest mode that fits to the other holders once those that cache have lowered theirs.
    fn mode_for(&self, now: Time, entry: &Entry, node: Node, writes: bool) -> Mode {
        let others = || {
            let others = entry.holds.iter().filter(|(other, (hold, _))| **other != node && hold.mode > Mode::Open);
            others.map(|(other, (hold, _))| self.effective(now, *other, hold.mode))
        };
        match writes {
            _ if self.lapsed(now).is_some() => Mode::Write,
            true if others().next().is_none() => Mode::Exclusive,
            false if others().all(|mode| mode == Mode::Read) => Mode::Read,
            _ => Mode::Write,
        }
    }

    /// A node lowers a hold, with the size settled, or releases it. `used`: generation that it used.
    fn lower(&mut self, now: Time, node: Node, key: u64, number: u64, mode: Option<Mode>, used: Option<u64>) -> Answer {
        let mut entry = self.entry(key);
        let Some((hold, _)) = entry.holds.get_mut(&node).filter(|(hold, _)| hold.number == number) else {
            return Answer::Done;
        };
        // A repeated request may come after a change that the first one allowed. A claim may be over without its end.
        let misses = entry.reclaimed || entry.claim.is_some_and(|(claim, _)| claim.generation > 0);
        if let Some(used) = used.filter(|_| hold.mode > Mode::Open && !misses) {
            (entry.generation, entry.newest) = (used, true);
        }
        match mode {
            Some(mode) => hold.mode = mode.min(hold.mode),
            None => drop(entry.holds.remove(&node)),
        }
        self.put(now, key, entry);
        Answer::Done
    }

    fn claim(&mut self, now: Time, caller: Caller, key: u64, number: u64, generation: u64) -> Answer {
        let node = caller.node;
        let unheld = self.is_unheld(now, key);
        let mut entry = self.entry(key);
        match entry.claim {
            Some((claim, _)) if claim.node != node => return Answer::Claimed(claim.node),
            _ if generation == 0 && entry.unsettled => {
                entry.claim = None;
                self.put(now, key, entry);
                return Answer::Unsettled;
            }
            present => {
                let again = present.is_some() && generation > 0;
                if let Some(lapsed) = self.lapsed(now).filter(|_| !again) {
                    return Answer::Lapsed(lapsed);
                }
            }
        }
        let beside = entry.holds.iter().filter(|(other, (hold, _))| **other != node && hold.mode > Mode::Open);
        let nodes: BTreeMap<Node, u64> = beside.map(|(other, (hold, _))| (*other, hold.number)).collect();
        entry.claim = Some((Claim { node, number, generation }, caller.link));
        entry.newest &= generation == 0;
        entry.reclaimed &= !nodes.is_empty(); // all other holds are lowered now
        let answer = match nodes.is_empty() {
            false => Answer::Recall { nodes, mode: Mode::Open },
            true if generation == 0 => {
                entry.claim = None;
                entry.holds.insert(node, (Hold { mode: Mode::Exclusive, number }, caller.link));
                Answer::Granted { mode: Mode::Exclusive, generation: entry.generation, newest: entry.newest, unheld }
            }
            true => Answer::Drained { unsettled: entry.unsettled },
        };
        self.put(now, key, entry);
        answer
    }

    /// A claim, by number, ends: this generation exists. `settled`: the size of the stub is right, and nothing older is
    /// published later. `keeps`: the node holds the file from now on.
    fn finish(&mut self, now: Time, caller: Caller, key: u64, by: (u64, u64), settled: bool, keeps: bool) -> Answer {
        let mut entry = self.entry(key);
        let (node, (number, generation)) = (caller.node, by);
        let Some((claim, _)) = entry.claim.filter(|(claim, _)| claim.node == node && claim.number == number) else {
            return Answer::Done;
        };
        entry.claim = None;
        if claim.generation > 0 {
            (entry.generation, entry.unsettled) = (generation, entry.unsettled && !settled);
        }
        let keeps = keeps && !entry.unsettled;
        let mode = self.mode_for(now, &entry, node, true);
        if keeps {
            entry.holds.insert(node, (Hold { mode, number }, caller.link));
        }
        self.put(now, key, entry);
        match keeps {
            true => Answer::Granted { mode, generation, newest: false, unheld: false },
            false => Answer::Done,
        }
    }

    /// Whether other nodes hold a file: `Done` if none does.
    fn other_holders(&self, now: Time, node: Node, key: u64) -> Answer {
        if let Some(lapsed) = self.lapsed(now) {
            return Answer::Lapsed(lapsed);
        }
        let mut entry = self.entry(key);
        if let Some((claim, _)) = entry.claim.filter(|(claim, _)| claim.node != node) {
            return Answer::Claimed(claim.node);
        }
        entry.holds.remove(&node);
        let nodes: BTreeMap<Node, u64> = entry.holds.iter().map(|(of, (hold, _))| (*of, hold.number)).collect();
        match nodes.is_empty() {
            true => Answer::Done,
            false => Answer::Recall { nodes, mode: Mode::Exclusive },
        }
    }
}
