//! Next step of a node with a file that other nodes use, too, from the marks on the file's stub.
//!
//! ```text
//!   writer                                      changer of generation G to G+1
//!   ------                                      ------
//!   create writer.me                            look: begin()
//!   look: enter() <--.                            | Claim
//!     |     |  Load  |                          create change.(G+1), once only
//!     |     '--> load layout.G                  look: step()
//!     | Wait: remove writer.me, wait, again       | Drain: ring, look again
//!     | End: publish the next generation          | Retry: remove the claim, begin anew
//!     |      as it is, look again                 | Go
//!     | Go                                      load layout.G, copy into new objects
//!   write                                       the lease holds?
//!     |                                         create layout.(G+1), once only
//!   written(): Acknowledge, Wait, Again         published(): Happened, Not, Wait, Unknown
//!                                               remove litter(): layout.G before change.(G+1)
//! ```
//! A stub has one attribute per [`Mark`]; each operation on one is atomic at the server, and creates never replace.
//! The highest `layout.G` is the layout. Only a claim on the next generation counts.
//!
//! **Nothing is lost**, because a writer registers before it looks, and a changer claims before it looks: at least one
//! of them sees the other. A registration of a node that is over counts for nothing. Its write is not acknowledged
//! unless it was done before the node's lease ended, which is before the changer looked.
//!
//! **A claim ends only with its generation.** Once `layout.(G+1)` exists, a frozen node cannot create it later. So a
//! dead node's claim is ended by publishing the next generation unchanged. A node that gives up its own claim does the
//! same. No claim is made twice under one name, so no late removal removes another's.
//!
//! **A record that was loaded counts once a later look shows its generation as the highest**, for readers, too. The
//! record of an older generation may have been removed, and then created again by a node that had been frozen.
//!
//! Duties of the driver: one changer per file and node at a time, and no change while the node itself writes. A write
//! is repeated only after the first was answered. The driver looks again if something in its last listing is gone. It
//! never gives one registration's name to another, never uses an object's number twice, and fills only objects that no
//! layout has named yet. A doorbell may ring twice or never: each look that results in `Drain` rings again.

use super::{Node, Standing};
use std::collections::BTreeSet;
use std::fmt;

/// An attribute of a stub that nodes share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mark {
    /// The layout record of this generation; created, never replaced.
    Layout(u64),
    /// The claim to make this generation.
    Change(u64),
    /// A node may write through the file's objects.
    Writer {
        /// Node that writes.
        node: Node,
        /// Number of the registration at this node, so that a late removal does not hit a later registration.
        entry: u64,
    },
    /// The objects may reach beyond the size of the stub: a node makes the file longer, and will set its size later.
    Grows {
        /// Node that makes the file longer.
        node: Node,
        /// Number of its registration.
        entry: u64,
        /// The generation whose layout it had then.
        generation: u64,
    },
    /// The change to this generation cuts the file: objects may reach beyond its end, and the bytes there are gone.
    Cut(u64),
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mark::Layout(generation) => write!(f, "layout.{generation}"),
            Mark::Change(generation) => write!(f, "change.{generation}"),
            Mark::Writer { node, entry } => write!(f, "writer.{}.{entry}", node.0),
            Mark::Grows { node, entry, generation } => write!(f, "grows.{}.{entry}.{generation}", node.0),
            Mark::Cut(generation) => write!(f, "cut.{generation}"),
        }
    }
}

impl Mark {
    /// Reads what `Display` writes; `None` for anything else.
    pub fn parse(name: &str) -> Option<Mark> {
        let (kind, number) = name.split_once('.')?;
        let mark = match kind {
            "layout" => Mark::Layout(number.parse().ok()?),
            "change" => Mark::Change(number.parse().ok()?),
            "writer" => {
                let (node, entry) = number.split_once('.')?;
                Mark::Writer { node: Node(node.parse().ok()?), entry: entry.parse().ok()? }
            }
            "grows" => {
                let mut numbers = number.splitn(3, '.');
                let mut next = || numbers.next()?.parse::<u64>().ok();
                let (node, entry, generation) = (u32::try_from(next()?).ok()?, next()?, next()?);
                Mark::Grows { node: Node(node), entry, generation }
            }
            "cut" => Mark::Cut(number.parse().ok()?),
            _ => return None,
        };
        (mark.to_string() == name).then_some(mark)
    }
}

/// A node makes a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The node that makes it.
    pub node: Node,
    /// The generation that it makes: the next one.
    pub generation: u64,
    /// Whether other nodes may not write during the change. A change that only adds to the layout needs no drain.
    pub drains: bool,
}

impl Claim {
    /// The value of its attribute.
    pub fn value(&self) -> String {
        format!("{} {}", self.node.0, if self.drains { "drains" } else { "adds" })
    }

    /// Reads the value of the attribute `change.generation`.
    pub fn parse(generation: u64, value: &str) -> Option<Claim> {
        let (node, kind) = value.split_once(' ')?;
        let drains = match kind {
            "drains" => true,
            "adds" => false,
            _ => return None,
        };
        Some(Claim { node: Node(node.parse().ok()?), generation, drains })
    }
}

/// Marks of a stub in one listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The generation of the layout.
    pub generation: u64,
    /// The nodes that are registered.
    pub writers: BTreeSet<Node>,
    /// The claim on the next generation.
    pub claim: Option<Claim>,
}

/// The generation of the claim that counts, among the attributes of one listing: the one to read.
pub fn claimed(listed: &BTreeSet<Mark>) -> Option<u64> {
    let next = generation(listed) + 1;
    listed.contains(&Mark::Change(next)).then_some(next)
}

impl Marks {
    /// Derived from the attributes of one listing, and the claim that [`claimed`] names. If that claim is missing, list
    /// again.
    pub fn new(listed: &BTreeSet<Mark>, claim: Option<Claim>) -> Marks {
        let writer = |mark: &Mark| if let Mark::Writer { node, .. } = mark { Some(*node) } else { None };
        Marks { generation: generation(listed), writers: listed.iter().filter_map(writer).collect(), claim }
    }
}

/// The highest existing generation.
fn generation(listed: &BTreeSet<Mark>) -> u64 {
    let layout = |mark: &Mark| if let Mark::Layout(generation) = mark { Some(*generation) } else { None };
    listed.iter().filter_map(layout).max().unwrap_or_default()
}

/// Next step of a writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enter {
    /// Load the layout of this generation, then look again.
    Load(u64),
    /// Write by the layout that is loaded.
    Go,
    /// Remove the registration, and start again once this claim does not [`stands`] any more.
    Wait(Claim),
    /// The claim's node is over: publish the next generation as it is, then look again.
    End(Claim),
}

/// Next step of a writer that has registered, and looked since then. `loaded` is the generation whose record it had
/// before it looked. A draining claim of a node in `over` is ended; of any other node it is waited for.
pub fn enter(loaded: Option<u64>, marks: &Marks, over: impl Fn(Node) -> bool) -> Enter {
    match marks.claim {
        Some(claim) if claim.drains && over(claim.node) => Enter::End(claim),
        Some(claim) if claim.drains => Enter::Wait(claim),
        _ if is_current(loaded, marks) => Enter::Go,
        _ => Enter::Load(marks.generation),
    }
}

/// Whether a record that was loaded before the look is the layout. A reader that gets `false` loads that of the
/// generation that was seen, and looks again.
pub fn is_current(loaded: Option<u64>, marks: &Marks) -> bool {
    loaded == Some(marks.generation)
}

/// Whether a size that is taken between two looks is valid for bytes that were not found before the first. A cut under a
/// claim makes the size of the stub small before it cuts an object, and ends with the next generation. `grows`: the
/// first look lists growers. Under a claim their objects may hold bytes of a node that was over before it.
pub fn agree(before: &Marks, grows: bool, after: &Marks) -> bool {
    (before.generation, before.claim) == (after.generation, after.claim) && !(grows && before.claim.is_some())
}

/// Whether a node that waits for a claim has to go on waiting.
pub fn stands(claim: &Claim, marks: &Marks, over: impl Fn(Node) -> bool) -> bool {
    marks.claim == Some(*claim) && !over(claim.node)
}

/// Outcome of a finished write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    /// The write may be acknowledged.
    Acknowledge,
    /// The lease may still be renewed: check again.
    Wait,
    /// The write must be repeated from the start: register, list, load the layout, write.
    Again,
}

/// A write was done; `drained` if its registration was removed since it began.
pub fn written(standing: Standing, drained: bool) -> Written {
    match standing {
        _ if drained => Written::Again,
        Standing::Held => Written::Acknowledge,
        Standing::Lapsed => Written::Wait,
        Standing::Lost => Written::Again,
    }
}

/// Next step before a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Create this claim; if it exists, look again.
    Claim(Claim),
    /// Another node changes the file. A registered node removes its registration first, or both wait for ever.
    Wait(Claim),
    /// The claim's node is over, or the claim is left from an earlier change of this node. Publish the next generation
    /// as it is, then list again.
    End(Claim),
}

/// A node that makes no change of this file yet has looked.
pub fn begin(me: Node, drains: bool, marks: &Marks, over: impl Fn(Node) -> bool) -> Begin {
    match marks.claim {
        None => Begin::Claim(Claim { node: me, generation: marks.generation + 1, drains }),
        Some(claim) if claim.node == me || over(claim.node) => Begin::End(claim),
        Some(claim) => Begin::Wait(claim),
    }
}

/// Next step of a changer that has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Load the layout of the generation that was seen, make the change beside it, publish. The create is the later
    /// look: it fails unless that was the layout.
    Go,
    /// Ring at these nodes, and look again.
    Drain(BTreeSet<Node>),
    /// The generation was made by another node: remove this claim, which is litter, and start again.
    Retry,
}

/// A changer has claimed, and looked since then.
pub fn step(claim: &Claim, marks: &Marks, over: impl Fn(Node) -> bool) -> Step {
    if marks.claim != Some(*claim) {
        return Step::Retry;
    }
    let others = marks.writers.iter().copied().filter(|node| *node != claim.node && !over(*node));
    let others: BTreeSet<Node> = others.filter(|_| claim.drains).collect();
    if others.is_empty() { Step::Go } else { Step::Drain(others) }
}

/// The answer to the create of a layout record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// This call created the record.
    Yes,
    /// The record exists.
    Exists {
        /// Whether the record is this very one, from an earlier try.
        mine: bool,
    },
}

/// Outcome of a publication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// The new layout is published, so objects that only older layouts name may be removed.
    Happened,
    /// Another layout is published, so objects that this change made may be removed.
    Not,
    /// The lease may still be renewed: check again.
    Wait,
    /// The outcome is unknown: old and new objects stay, until a check of the volume.
    Unknown,
}

/// Outcome for a changer that has requested the create of its layout record, and looked at its lease since then. After
/// a lost lease even a record of another node proves nothing. Its own, from a try without an answer, may have come and
/// gone before.
pub fn published(created: Created, standing: Standing) -> Published {
    match (standing, created) {
        (Standing::Lapsed, _) => Published::Wait,
        (Standing::Lost, _) => Published::Unknown,
        (Standing::Held, Created::Exists { mine: false }) => Published::Not,
        (Standing::Held, _) => Published::Happened,
    }
}

/// Registrations whose nodes may have made the file longer than its stub records. While there is one, the size is the
/// end of the objects, if that is more. Registrations from before a cut are void: the cut settled them, or they came
/// too late.
pub fn growers(listed: &BTreeSet<Mark>) -> BTreeSet<(Node, u64)> {
    let cut = |mark: &Mark| if let Mark::Cut(generation) = mark { Some(*generation) } else { None };
    let cut = listed.iter().filter_map(cut).max().unwrap_or_default();
    let grows = |mark: &Mark| match mark {
        Mark::Grows { node, entry, generation } if *generation >= cut => Some((*node, *entry)),
        _ => None,
    };
    listed.iter().filter_map(grows).collect()
}

/// Marks that a node with exclusive use of the file removes once the stub has the size: from then on the size is the
/// stub's.
pub fn settled(listed: &BTreeSet<Mark>) -> Vec<Mark> {
    listed.iter().copied().filter(|mark| matches!(mark, Mark::Grows { .. })).collect()
}

/// Marks that may be removed at any later time, in this order. A claim goes after the layouts below it, so that a node
/// that finds no claim loads none of these.
pub fn litter(listed: &BTreeSet<Mark>, over: impl Fn(Node) -> bool) -> Vec<Mark> {
    let now = generation(listed);
    let is_litter = |mark: &Mark| match mark {
        Mark::Layout(generation) => *generation < now,
        Mark::Change(generation) => *generation <= now,
        Mark::Writer { node, .. } => over(*node),
        // Only a node with exclusive use of the file may remove these: see `settled`.
        Mark::Grows { .. } | Mark::Cut(_) => false,
    };
    // In the order of `Mark`.
    listed.iter().copied().filter(is_litter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Node = Node(1);

    fn listed(names: &[&str]) -> BTreeSet<Mark> {
        names.iter().map(|name| Mark::parse(name).unwrap()).collect()
    }

    fn nobody(_: Node) -> bool {
        false
    }

    fn claim(node: u32, generation: u64, drains: bool) -> Claim {
        Claim { node: Node(node), generation, drains }
    }

    fn marks(generation: u64, writers: &[u32], claim: Option<Claim>) -> Marks {
        Marks { generation, writers: writers.iter().copied().map(Node).collect(), claim }
    }

    #[test]
    fn names_and_values_are_read_as_they_are_written_and_nothing_else_is() {
        for name in ["layout.7", "change.8", "writer.4294967295.0", "grows.3.2.7", "cut.8"] {
            assert_eq!(Mark::parse(name).unwrap().to_string(), name);
        }
        for name in [
            "layout",
            "layout.",
            "layout.07",
            "layout.+7",
            "writer.1",
            "writer.1.2.3",
            "change.-1",
            "other.1",
            "grows.1.2",
        ] {
            assert_eq!(Mark::parse(name), None, "{name}");
        }
        for claim in [claim(3, 8, true), claim(3, 8, false)] {
            assert_eq!(Claim::parse(8, &claim.value()), Some(claim));
        }
        assert_eq!((Claim::parse(8, "3"), Claim::parse(8, "3 holds")), (None, None));
    }

    #[test]
    fn the_highest_layout_and_the_claim_on_the_next_count() {
        let all = listed(&["layout.6", "layout.7", "change.7", "writer.1.0", "writer.1.1", "writer.2.0"]);
        assert_eq!(claimed(&all), None);
        assert_eq!(Marks::new(&all, None), marks(7, &[1, 2], None));
        assert_eq!(claimed(&listed(&["layout.7", "change.8"])), Some(8));
        assert_eq!(claimed(&listed(&["layout.7", "change.9"])), None);
    }

    #[test]
    fn a_writer_waits_for_a_change_that_drains_and_ends_that_of_a_node_that_is_over() {
        let (drains, adds) = (claim(2, 8, true), claim(2, 8, false));
        assert_eq!(enter(Some(7), &marks(7, &[1], None), nobody), Enter::Go);
        assert_eq!(enter(Some(7), &marks(7, &[1], Some(adds)), nobody), Enter::Go);
        let seen = marks(7, &[1], Some(drains));
        assert_eq!(enter(Some(7), &seen, nobody), Enter::Wait(drains));
        assert_eq!(enter(Some(7), &seen, |node| node == Node(2)), Enter::End(drains));
        assert!(stands(&drains, &seen, nobody) && !stands(&drains, &seen, |node| node == Node(2)));
        assert!(!stands(&drains, &marks(8, &[], None), nobody));
    }

    #[test]
    fn a_record_counts_once_a_later_look_shows_its_generation() {
        assert_eq!(enter(None, &marks(7, &[1], None), nobody), Enter::Load(7));
        assert_eq!(enter(Some(7), &marks(8, &[1], None), nobody), Enter::Load(8));
        assert!(is_current(Some(8), &marks(8, &[1], None)) && !is_current(None, &marks(8, &[1], None)));
    }

    #[test]
    fn only_a_lease_that_holds_acknowledges() {
        assert_eq!(written(Standing::Held, false), Written::Acknowledge);
        assert_eq!(written(Standing::Lapsed, false), Written::Wait);
        assert_eq!(written(Standing::Lost, false), Written::Again);
        assert_eq!(written(Standing::Held, true), Written::Again);
    }

    #[test]
    fn one_changes_at_a_time_and_ends_what_is_left() {
        let other = claim(2, 8, false);
        assert_eq!(begin(ME, true, &marks(7, &[], None), nobody), Begin::Claim(claim(1, 8, true)));
        assert_eq!(begin(ME, true, &marks(7, &[], Some(other)), nobody), Begin::Wait(other));
        assert_eq!(begin(ME, true, &marks(7, &[], Some(other)), |_| true), Begin::End(other));
        let own = claim(1, 8, true);
        assert_eq!(begin(ME, true, &marks(7, &[], Some(own)), nobody), Begin::End(own));
    }

    #[test]
    fn a_changer_waits_for_every_writer_that_is_not_over_but_itself() {
        let (own, adds) = (claim(1, 8, true), claim(1, 8, false));
        let seen = |claim| marks(7, &[1, 2, 3], Some(claim));
        assert_eq!(step(&own, &seen(own), nobody), Step::Drain([Node(2), Node(3)].into()));
        assert_eq!(step(&own, &seen(own), |node| node == Node(2)), Step::Drain([Node(3)].into()));
        assert_eq!(step(&own, &seen(own), |node| node != ME), Step::Go);
        assert_eq!(step(&adds, &seen(adds), nobody), Step::Go);
        assert_eq!(step(&own, &marks(8, &[], None), nobody), Step::Retry);
        assert_eq!(step(&own, &seen(claim(2, 8, true)), nobody), Step::Retry);
    }

    #[test]
    fn a_lease_that_holds_after_a_publication_tells_what_became_of_it() {
        let (not, mine) = (Created::Exists { mine: false }, Created::Exists { mine: true });
        for created in [Created::Yes, mine, not] {
            let happened = if created == not { Published::Not } else { Published::Happened };
            assert_eq!(published(created, Standing::Held), happened);
            assert_eq!(published(created, Standing::Lapsed), Published::Wait);
            assert_eq!(published(created, Standing::Lost), Published::Unknown);
        }
    }

    #[test]
    fn objects_are_asked_while_a_node_makes_the_file_longer_unless_it_was_cut_since() {
        let grows = |names: &[&str]| growers(&listed(names)).into_iter().map(|(node, entry)| (node.0, entry)).collect();
        let found: Vec<(u32, u64)> = grows(&["layout.7", "writer.1.4", "grows.1.4.7", "grows.2.1.6"]);
        assert_eq!(found, [(1, 4), (2, 1)]);
        let found: Vec<(u32, u64)> = grows(&["layout.7", "change.8", "cut.8", "grows.1.4.7"]);
        assert_eq!(found, [], "what comes after the cut was said of before it");
        let found: Vec<(u32, u64)> = grows(&["layout.9", "cut.8", "grows.1.5.8"]);
        assert_eq!(found, [(1, 5)]);
        let removed = settled(&listed(&["layout.9", "writer.1.5", "cut.8", "grows.1.5.8"]));
        assert_eq!(removed, [Mark::Grows { node: ME, entry: 5, generation: 8 }]);
    }

    #[test]
    fn litter_is_what_is_older_and_what_is_over_layouts_first() {
        let all = listed(&["layout.6", "layout.7", "change.7", "change.8", "writer.1.0", "writer.2.0"]);
        let names: Vec<String> = litter(&all, |node| node == Node(2)).iter().map(Mark::to_string).collect();
        assert_eq!(names, ["layout.6", "change.7", "writer.2.0"]);
    }
}
