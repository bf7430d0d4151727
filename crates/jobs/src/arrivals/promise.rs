//! One measurement of the space: grants requests, and publishes the promises to other nodes before a byte is fetched.

use super::nodes::{Nodes, TableView};
use super::queue_view::{Action, Decided, Room};
use super::{Shared, Ticket, now};
use policy::schedule::just_in_time::Space;

/// Most tries when several nodes promise space at the same moment; after them the job waits. A guess: in each round one
/// node succeeds.
const LOOKS_MAX: u32 = 20;

/// Measures the space, grants requests, and publishes the promises of this node.
pub fn promise(shared: &Shared) -> Vec<(Ticket, Action)> {
    if !shared.flags.lock().taken_up {
        return Vec::new();
    }
    // A request that arrives between the two locks makes this thread check again.
    if !shared.view.lock().wants_space() {
        shared.nodes.iter().for_each(|nodes| say_promised(shared, nodes));
        return Vec::new();
    }
    let mut looks = 0;
    let why = loop {
        // `policy::schedule::just_in_time::nodes` gives the reason for this order.
        let promises = shared.view.lock().promises();
        let look = match shared.nodes.as_ref().map(Nodes::look).transpose() {
            Ok(look) => look,
            Err(why) => break why,
        };
        let elsewhere = match look.as_ref().map_or(Ok(0), TableView::elsewhere) {
            Ok(elsewhere) => elsewhere,
            Err(why) => {
                shared.nodes.iter().for_each(|nodes| say_promised(shared, nodes));
                break why;
            }
        };
        let free = shared.volume.free_bytes();
        let room = free.map_or(Room::Unknown, |free| Room::Space(Space { free, elsewhere }));
        let decided = shared.view.lock().decide(now(), promises, room);
        let known = shared.nodes.as_ref().zip(look);
        looks += 1;
        match known.map_or(Ok(true), |(nodes, look)| nodes.put(look, decided.promised(), decided.grants())) {
            Ok(true) => return carry(shared, decided),
            Ok(false) if looks < LOOKS_MAX => {}
            Ok(false) => break "other nodes were promised space in the same moment; retried soon".to_owned(),
            Err(why) => break why,
        }
    };
    let decided = {
        let mut view = shared.view.lock();
        let promises = view.promises();
        view.decide(now(), promises, Room::Shut(why))
    };
    carry(shared, decided)
}

/// Publishes the promises of this node where the published ones differ.
fn say_promised(shared: &Shared, nodes: &Nodes) {
    let promised = shared.view.lock().promised();
    match nodes.look().and_then(|look| nodes.put(look, promised, false)) {
        Ok(true) => {}
        Ok(false) => tracing::debug!("another node was quicker: retried at the next check"),
        Err(why) => tracing::debug!("{why}"),
    }
}

fn carry(shared: &Shared, decided: Decided) -> Vec<(Ticket, Action)> {
    let mut view = shared.view.lock();
    let todo = view.carry(now(), decided);
    if view.asks() {
        shared.look();
    }
    todo
}
