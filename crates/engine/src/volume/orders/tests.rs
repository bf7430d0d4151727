//! Orders while the store, a map with times, is away or fails.

use super::*;

const T: TargetId = TargetId(3);

/// Targets and times in the shared store.
#[derive(Default)]
struct Store {
    is_away: bool,
    there: BTreeMap<TargetId, Remembered>,
}

impl Store {
    /// Behaves like [`State::order_target`].
    fn order(&mut self, id: TargetId, order: Order) -> Result<Option<Remembered>> {
        if self.is_away {
            return Err(Error::State("it is away".into()));
        }
        let Some(there) = self.there.get_mut(&id) else { return Ok(None) };
        if order.given_ms > there.last_ms {
            *there = Remembered { state: order.state, last_ms: order.given_ms };
        }
        Ok(Some(*there))
    }

    fn with(id: TargetId) -> Store {
        let there = Remembered { state: TargetState::Ok, last_ms: 0 };
        Store { is_away: false, there: BTreeMap::from([(id, there)]) }
    }

    fn state(&self) -> TargetState {
        self.there[&T].state
    }
}

struct Node {
    dir: tempfile::TempDir,
    orders: Orders,
}

impl Node {
    fn new() -> Node {
        let dir = tempfile::tempdir().expect("temp dir");
        let orders = Orders::read(dir.path(), volume()).expect("none");
        Node { dir, orders }
    }

    fn restart(&mut self) {
        self.orders = Orders::read(self.dir.path(), volume()).expect("understood");
    }

    /// Behaves like `Volume::order_target`.
    fn order(&self, store: &mut Store, state: TargetState) {
        let order = Order { state, given_ms: self.orders.time(T) };
        match tell_now(order, |order| store.order(T, order)) {
            (_, Ok(there)) => self.orders.told(T, there.expect("known").last_ms),
            (order, Err(_)) => self.orders.keep(T, order).expect("written"),
        }
    }

    fn send(&self, store: &mut Store) -> Result<()> {
        self.orders.send(|id, order| store.order(id, order))
    }
}

fn volume() -> VolumeId {
    VolumeId(0x0011_2233_4455_6677_8899_aabb_ccdd_eeff)
}

#[test]
fn an_order_is_kept_over_a_restart_until_the_store_has_it() {
    let (mut node, mut store) = (Node::new(), Store::with(T));
    store.is_away = true;
    node.order(&mut store, TargetState::Failed);
    assert!(node.orders.is_kept(T) && node.orders.holds(T));
    assert!(node.send(&mut store).is_err());
    node.restart();
    assert_eq!((node.orders.count(), store.state()), (1, TargetState::Ok));
    store.is_away = false;
    node.send(&mut store).expect("it is back");
    assert_eq!((node.orders.count(), store.state()), (0, TargetState::Failed));
    node.restart();
    assert_eq!(node.orders.count(), 0, "nor after another start");
}

#[test]
fn of_two_orders_the_later_one_holds_whichever_the_store_hears_first() {
    for late_first in [false, true] {
        let (early, late, mut store) = (Node::new(), Node::new(), Store::with(T));
        store.is_away = true;
        early.order(&mut store, TargetState::Failed);
        // The other host's clock may be slow by any amount if that host has received the first order.
        let after = early.orders.known.lock().kept[&T].given_ms;
        late.orders.told(T, after);
        late.order(&mut store, TargetState::Draining);
        store.is_away = false;
        let both = if late_first { [&late, &early] } else { [&early, &late] };
        both.into_iter().for_each(|node| node.send(&mut store).expect("it is back"));
        assert_eq!(store.state(), TargetState::Draining);
        assert!(!early.orders.is_kept(T) && !late.orders.is_kept(T), "what gave way is not kept");
    }
}

#[test]
fn an_order_that_was_given_meanwhile_on_another_node_is_not_undone() {
    let (here, other, mut store) = (Node::new(), Node::new(), Store::with(T));
    // Only this node is cut off.
    store.is_away = true;
    here.order(&mut store, TargetState::Failed);
    store.is_away = false;
    let given = here.orders.known.lock().kept[&T].given_ms;
    other.orders.told(T, given);
    other.order(&mut store, TargetState::Ok);
    here.send(&mut store).expect("it is back");
    assert_eq!((store.state(), here.orders.count()), (TargetState::Ok, 0));
    // An order given here later replaces the kept one.
    store.is_away = true;
    here.order(&mut store, TargetState::Draining);
    store.is_away = false;
    here.order(&mut store, TargetState::Failed);
    assert_eq!((store.state(), here.orders.count()), (TargetState::Failed, 0));
}

/// An order that reaches the store twice, or long after its deadline, changes no later order.
#[test]
fn an_order_that_hangs_on_its_way_to_the_store_is_as_old_as_it_is() {
    let (here, other, mut store) = (Node::new(), Node::new(), Store::with(T));
    // The clock of this host is behind.
    store.there.insert(T, Remembered { state: TargetState::Draining, last_ms: u64::MAX / 2 });
    let mut heard = Vec::new();
    let early = Order { state: TargetState::Failed, given_ms: here.orders.time(T) };
    let (early, said) = tell_now(early, |order| {
        heard.push(order);
        store.order(T, order)
    });
    assert_eq!((store.state(), said.expect("heard").expect("known").last_ms), (TargetState::Failed, early.given_ms));
    assert_eq!((heard.len(), early.given_ms), (2, u64::MAX / 2 + 1));
    other.order(&mut store, TargetState::Ok);
    for order in heard {
        store.order(T, order).expect("heard again");
    }
    assert_eq!(store.state(), TargetState::Ok);
    let (_, busy) = tell_now(early, |order| Ok(Some(Remembered { state: TargetState::Ok, last_ms: order.given_ms })));
    assert!(busy.is_err(), "it ends though others are always faster");
}

#[test]
fn what_is_being_asked_is_neither_sent_nor_undone_and_the_order_of_a_target_that_is_gone_is_forgotten() {
    let (node, mut store) = (Node::new(), Store::with(T));
    store.is_away = true;
    node.order(&mut store, TargetState::Failed);
    store.is_away = false;
    let (first, second) = (node.orders.asking(T), node.orders.asking(T));
    node.send(&mut store).expect("nothing to send");
    drop(first);
    assert!(node.orders.holds(T) && store.state() == TargetState::Ok);
    drop(second);
    store.there.clear();
    node.send(&mut store).expect("it is back");
    assert!(!node.orders.holds(T));
}

#[test]
fn a_file_of_orders_that_is_not_understood_is_refused_and_that_of_another_volume_is_none() {
    let dir = tempfile::tempdir().expect("temp dir");
    let read = |text: &str| {
        std::fs::write(dir.path().join(FILE), text).expect("written");
        Orders::read(dir.path(), volume()).map(|orders| orders.count()).map_err(|error| error.to_string())
    };
    let of = |volume: &str, state: &str| {
        format!(r#"{{"format":1,"volume":"{volume}","orders":[{{"target":3,"state":"{state}","given_ms":5}}]}}"#)
    };
    let own = volume().to_string();
    assert_eq!(read(&of(&own, "failed")), Ok(1));
    assert_eq!(read(&of("ffffffffffffffffffffffffffffffff", "failed")), Ok(0));
    for damaged in [of(&own, "fallen"), "{".into(), "{}".into(), r#"{"format":1,"orders":7}"#.into()] {
        let error = read(&damaged).expect_err("damaged");
        assert!(error.contains("orders has orders for targets and is damaged: remove it"), "{error}");
    }
    assert!(read(r#"{"format":2}"#).expect_err("newer").contains("newer entrepot"));
}
