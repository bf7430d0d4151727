//! Orders for targets given while the state store was away. They hold on this node, and are kept for the store.
//!
//! ```text
//!   order ──> targets of this node ──> store, with its time ──> bell ──> other nodes
//!                                       │ away                   ^
//!                                       v                        │ unless a later order is there
//!                                  STATE/orders ──> when it is back, or when this daemon starts again
//! ```
//! The time of an order is its host's clock, but always later than the target's last order known to the node. So clock
//! differences matter only between two orders given independently.

use super::namespace::{read_line, write_whole};
use super::{Volume, VolumeId};
use crate::{Error, Result};
use meta::messages::Message;
use meta::state::{Remembered, State, state_name, state_of};
use object::newer::newer_than;
use object::target::State as TargetState;
use parking_lot::Mutex;
use policy::TargetId;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the file in the state directory; below, the newest format that this program can read.
const FILE: &str = "orders";
const FORMAT: u32 = 1;
/// Number of attempts against faster nodes. A guess: people give orders one at a time.
const TRIES: usize = 8;

/// An order as it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub state: TargetState,
    /// Time of the order, in milliseconds since 1970, as described above.
    pub given_ms: u64,
}

#[derive(Serialize, Deserialize)]
struct Row {
    target: u16,
    state: String,
    given_ms: u64,
}

/// The part of the file that every version can read.
#[derive(Deserialize)]
struct Head {
    format: u32,
}

#[derive(Serialize, Deserialize)]
struct Text {
    format: u32,
    #[serde(default)]
    volume: String,
    #[serde(default)]
    orders: Vec<Row>,
}

/// Orders known to this node.
pub(super) struct Orders {
    dir: PathBuf,
    volume: VolumeId,
    known: Mutex<OrderState>,
}

#[derive(Default)]
struct OrderState {
    kept: BTreeMap<TargetId, Order>,
    /// Number of requests in flight to the store, by target.
    asked: BTreeMap<TargetId, usize>,
    /// Time of each target's last order in the store, as last reported.
    last_ms: BTreeMap<TargetId, u64>,
}

/// Guard of an order in flight: until it is dropped, no earlier answer of the store undoes the order.
pub(super) struct Asking<'a> {
    orders: &'a Orders,
    target: TargetId,
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        let mut known = self.orders.known.lock();
        let left = known.asked.get(&self.target).map_or(0, |count| count - 1);
        match left {
            0 => drop(known.asked.remove(&self.target)),
            left => drop(known.asked.insert(self.target, left)),
        }
    }
}

impl Orders {
    /// Reads the orders kept in a state directory.
    ///
    /// # Errors
    /// A file that is not understood.
    pub fn read(dir: &Path, volume: VolumeId) -> Result<Orders> {
        let path = dir.join(FILE);
        let text = read_line(&path).map_err(|error| Error::State(error.to_string()))?.unwrap_or_default();
        let kept = if text.is_empty() { BTreeMap::new() } else { parse(&text, volume, &path)? };
        Ok(Orders { dir: dir.to_owned(), volume, known: Mutex::new(OrderState { kept, ..OrderState::default() }) })
    }

    /// Time for an order that is given now.
    pub fn time(&self, target: TargetId) -> u64 {
        let now = object::now_ms();
        let known = self.known.lock();
        let last = known.last_ms.get(&target).copied().max(known.kept.get(&target).map(|kept| kept.given_ms));
        last.map_or(now, |last| now.max(last + 1))
    }

    pub fn asking(&self, target: TargetId) -> Asking<'_> {
        *self.known.lock().asked.entry(target).or_default() += 1;
        Asking { orders: self, target }
    }

    /// Whether this node holds an order for a target that the store may lack.
    pub fn holds(&self, target: TargetId) -> bool {
        let known = self.known.lock();
        known.asked.contains_key(&target) || known.kept.contains_key(&target)
    }

    pub fn is_kept(&self, target: TargetId) -> bool {
        self.known.lock().kept.contains_key(&target)
    }

    pub fn count(&self) -> usize {
        self.known.lock().kept.len()
    }

    /// Keeps an order. After an error it is lost only if the daemon ends.
    pub fn keep(&self, target: TargetId, order: Order) -> std::io::Result<()> {
        let mut known = self.known.lock();
        known.kept.insert(target, order);
        self.write(&known.kept)
    }

    /// Records the time of a target's last order in the store, and drops a kept order that is not later.
    pub fn told(&self, target: TargetId, last_ms: u64) {
        let mut known = self.known.lock();
        known.last_ms.insert(target, last_ms);
        if known.kept.get(&target).is_some_and(|kept| kept.given_ms <= last_ms) {
            self.drop_kept(&mut known, target);
        }
    }

    /// Forgets the orders of a removed target.
    pub fn forget(&self, target: TargetId) {
        let mut known = self.known.lock();
        known.last_ms.remove(&target);
        self.drop_kept(&mut known, target);
    }

    fn drop_kept(&self, known: &mut OrderState, target: TargetId) {
        if known.kept.remove(&target).is_some()
            && let Err(error) = self.write(&known.kept)
        {
            tracing::warn!("an order that the state store has is sent to it again at the next start: {error}");
        }
    }

    fn write(&self, kept: &BTreeMap<TargetId, Order>) -> std::io::Result<()> {
        let row = |(target, order): (&TargetId, &Order)| Row {
            target: target.0,
            state: state_name(order.state).into(),
            given_ms: order.given_ms,
        };
        let text = Text { format: FORMAT, volume: self.volume.to_string(), orders: kept.iter().map(row).collect() };
        write_whole(&self.dir, FILE, &serde_json::to_string(&text).expect("numbers and texts"))
    }

    /// Sends the kept orders to the store, which keeps a later one of its own.
    ///
    /// # Errors
    /// The first error of `tell`: the store is still away.
    pub fn send(&self, mut tell: impl FnMut(TargetId, Order) -> Result<Option<Remembered>>) -> Result<()> {
        let known = self.known.lock();
        let waits = known.kept.iter().filter(|(id, _)| !known.asked.contains_key(id));
        let kept: Vec<_> = waits.map(|(id, kept)| (*id, *kept)).collect();
        drop(known);
        for (id, order) in kept {
            let Some(Remembered { state, last_ms }) = tell(id, order)? else {
                self.forget(id);
                continue;
            };
            let ordered = state_name(order.state);
            if state_name(state) == ordered {
                tracing::info!("the kept order that target {id} is {ordered} is in the state store now");
            } else {
                tracing::warn!(
                    "the kept order that target {id} is {ordered} is replaced by a later one: it is {state}"
                );
            }
            self.told(id, last_ms);
        }
        Ok(())
    }
}

/// Sends a new order to the store, with a time later than all that it has. Only the node chooses the time: a delayed
/// attempt must not overwrite a later order. Returns the order as stored, or as last sent.
pub(super) fn tell_now(
    mut order: Order,
    mut tell: impl FnMut(Order) -> Result<Option<Remembered>>,
) -> (Order, Result<Option<Remembered>>) {
    for _ in 0..TRIES {
        let there = match tell(order) {
            Ok(Some(there)) => there,
            said => return (order, said),
        };
        if there.last_ms == order.given_ms && state_name(there.state) == state_name(order.state) {
            return (order, Ok(Some(there)));
        }
        // The other host's clock is ahead.
        order.given_ms = there.last_ms + 1;
    }
    (order, Err(Error::Busy("other nodes get orders for the target all the time".into())))
}

/// Sends a kept order to the store, and then notifies the other nodes.
pub(super) fn tell(state: &dyn State, id: TargetId, order: Order) -> Result<Option<Remembered>> {
    let there = state.order_target(id, order.state, order.given_ms)?;
    Message::targets(&[id]).send(state, None)?;
    Ok(there)
}

fn parse(text: &str, volume: VolumeId, path: &Path) -> Result<BTreeMap<TargetId, Order>> {
    let damaged = || {
        let path = path.display();
        Error::State(format!("{path} has orders for targets and is damaged: remove it, and give them again"))
    };
    let Head { format } = serde_json::from_str(text).map_err(|_| damaged())?;
    if format > FORMAT {
        return Err(Error::Newer(newer_than(&path.display().to_string(), format, FORMAT)));
    }
    let found: Text = serde_json::from_str(text).map_err(|_| damaged())?;
    // The file is of another volume that used this state directory before.
    if found.volume != volume.to_string() {
        return Ok(BTreeMap::new());
    }
    let order = |row: Row| {
        let state = state_of(&row.state).ok_or_else(damaged)?;
        Ok((TargetId(row.target), Order { state, given_ms: row.given_ms }))
    };
    found.orders.into_iter().map(order).collect()
}

impl Volume {
    /// Whether an order for a target is kept here, since the state store was away.
    pub fn is_order_kept(&self, target: TargetId) -> bool {
        self.orders.is_kept(target)
    }

    /// Returns the number of kept orders.
    pub fn orders_kept(&self) -> usize {
        self.orders.count()
    }
}

#[cfg(test)]
mod tests;
