//! Targets that are added, removed and changed at run time, by orders of the operator that outlive the daemon.

use super::config::{Keeping, TargetConfig};
use super::open::{self, Found};
use super::orders::{Order as Given, tell, tell_now};
use super::problem::{Problem, Problems, Result, UNCHANGED};
use super::{Volume, check, edit};
use meta::messages::Message;
use meta::state::TargetRecord;
use object::exit;
use object::target::{Order, OrderError, Reach, State, Target};
use policy::units::show_count;
use policy::{ObjectId, TargetId};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

/// Result of reading the recorded orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Followed {
    /// An operation still hangs on a target to be restored. It ends soon, and the order is then tried again.
    Waiting,
    /// An order cannot be executed on this node now.
    Partly,
    /// This node's state is the recorded one.
    All,
}

impl Volume {
    /// Fails, restores or drains a target, durably; returns its state after that. While a shared store is away, the
    /// order holds on this node and is kept, which is reported as an error.
    pub fn order_target(&self, name: &str, order: Order) -> Result<State> {
        let target = self.targets.by_name(name).ok_or_else(|| self.unknown(name))?;
        if target.reach() == Reach::Elsewhere && order != Order::Fail {
            let only_on =
                self.config.targets.iter().find(|known| known.name == name).map(|known| known.only_on.join(", "));
            let cause = format!("target {name} is not reached from here");
            return Err(Problems::refused(
                cause,
                format!("Give the order on a node that reaches it: {}", only_on.unwrap_or_default()),
            ));
        }
        let _asking = self.orders.asking(target.id());
        let given_ms = self.orders.time(target.id());
        let state = self
            .targets
            .operate(target.id(), order)
            .map_err(|e| Problems::refused(e.to_string(), "See `entrepot target list`"))?;
        target.set_lost(state == State::Failed);
        let tell = |given: Given| self.state.order_target(target.id(), given.state, given.given_ms);
        let (given, said) = tell_now(Given { state, given_ms }, tell);
        match said {
            Ok(Some(remembered)) => self.orders.told(target.id(), remembered.last_ms),
            Ok(None) => {
                return Err(Problems::one(
                    Problem::new(
                        format!("the state store has no record of target {name}"),
                        format!("the target is {state} on this node only, until its daemon ends"),
                        "If another node has just removed the target, all is well. Otherwise the store was emptied: start it with its data",
                    )
                    .failed(),
                ));
            }
            Err(error) if self.config.is_shared() => return Err(self.kept(&target, given, &error)),
            Err(error) => {
                let cause = format!("target {name} is {state}, but this order cannot be saved for a restart: {error}");
                let problem = Problem::new(cause, "the order holds until then", "Mend the state store and repeat it");
                return Err(Problems::one(problem.failed()));
            }
        }
        if let Err(error) = Message::targets(&[target.id()]).send(&*self.state, None) {
            tracing::warn!("other nodes get the order for target {name} when they start: {error}");
        }
        Ok(state)
    }

    /// Problem of an order that holds on this node while the store is away.
    fn kept(&self, target: &Target, order: Given, error: &crate::Error) -> Problems {
        let until = match self.orders.keep(target.id(), order) {
            Ok(()) => "it is kept, also over a restart of this daemon".to_owned(),
            Err(error) => format!("it is kept until this daemon ends, since it cannot be saved ({error})"),
        };
        let mut problem = Problem::new(
            format!("target {} is {} on this node only: {error}", target.name(), order.state),
            format!("{until}, and other nodes get it when the state is back, unless a later order was given by then"),
            "`entrepot target list` shows whether they have it; if that cannot wait, give it on each node",
        );
        problem.exit_code = Some(exit::INCOMPLETE);
        Problems::one(problem)
    }

    /// Sends all kept orders to the store, which may have later ones.
    fn send_orders(&self) -> crate::Result<()> {
        self.orders.send(|id, order| tell(&*self.state, id, order))
    }

    /// Executes orders for these targets that operators gave on other nodes.
    pub fn follow_orders(&self, ids: &[TargetId]) -> crate::Result<Followed> {
        self.send_orders()?;
        let followed = self.follow(self.state.targets_of(ids)?);
        if followed != Followed::All {
            *self.followed.lock() = None;
        }
        Ok(followed)
    }

    /// Executes orders that this node may have missed. It reads all targets only after a change, since many nodes may
    /// reconnect at the same time.
    pub fn follow_missed_orders(&self) -> crate::Result<Followed> {
        self.send_orders()?;
        // Read before the targets: a change during the read has another value.
        let change = self.state.targets_change()?;
        if change.is_some() && *self.followed.lock() == change {
            // For all other targets, the state here is the ordered one.
            let all = self.targets.all();
            let is_unwell = |target: &&Arc<Target>| matches!(target.state(), State::Failed | State::Draining);
            let unwell = all.iter().filter(is_unwell).filter(|target| target.reach() != Reach::Elsewhere);
            let unwell: Vec<_> = unwell.map(|target| target.id()).collect();
            self.state.targets_of(&unwell).map(|records| self.follow(records))
        } else {
            let followed = self.follow(self.state.targets()?);
            *self.followed.lock() = change.filter(|_| followed == Followed::All);
            Ok(followed)
        }
    }

    /// Executes recorded orders, and returns whether this node's state agrees with all of them. A target that calls or
    /// probes of this node failed stays failed, unless an operator restored it later.
    pub(super) fn follow(&self, records: Vec<TargetRecord>) -> Followed {
        let mut followed = Followed::All;
        for record in records {
            if self.orders.holds(record.id) {
                followed = followed.min(Followed::Partly);
                continue;
            }
            self.orders.told(record.id, record.ordered_ms);
            let Some(target) = self.targets.get(record.id) else {
                if !self.learn(&record) {
                    followed = followed.min(Followed::Partly);
                }
                continue;
            };
            if target.reach() == Reach::Elsewhere {
                target.set_lost(record.state == State::Failed && record.by_operator);
                continue;
            }
            let order = match (record.state, target.state()) {
                (State::Draining, State::Ok | State::Suspect) => Order::Drain,
                (State::Failed, State::Failed) if !record.by_operator || target.is_failed_by_operator() => continue,
                (State::Failed, _) if record.by_operator => Order::Fail,
                (State::Ok, State::Failed) if target.failed_after(record.ordered_ms) => continue,
                (State::Ok, State::Draining | State::Failed) => Order::Restore,
                _ => continue,
            };
            match self.targets.operate(record.id, order) {
                Ok(_) => {}
                Err(error @ OrderError::Hanging { .. }) => {
                    tracing::debug!("target {} is {} for other nodes: {error}", record.name, record.state);
                    followed = Followed::Waiting;
                }
                Err(error) => {
                    tracing::warn!("target {} is {} for other nodes: {error}", record.name, record.state);
                    followed = followed.min(Followed::Partly);
                }
            }
        }
        followed
    }

    /// Adds a target of another node. Returns whether it is used here now.
    fn learn(&self, record: &TargetRecord) -> bool {
        let text = std::fs::read_to_string(&self.config.file).unwrap_or_default();
        let config = super::Config::parse(&self.config.file, &text).ok();
        let Some(block) = config.and_then(|config| config.targets.into_iter().find(|t| t.name == record.name)) else {
            tracing::warn!("target {} is new and not named in {} here", record.name, self.config.file.display());
            return false;
        };
        let found = match &block.keeping {
            Keeping::Directory(path) => open::found_here(&block, path),
            Keeping::Servers(_) => {
                tracing::warn!("target {} is new: this node has it from its next start on", record.name);
                return false;
            }
        };
        tracing::info!("target {} was added on another node", record.name);
        let target = open::add(&self.targets, &self.config, &block, found, record, self.id);
        if target.reach() != Reach::Elsewhere && self.targets.probe_one(target.id()).is_err() {
            self.targets.give_up(target.id());
        }
        true
    }

    /// Formats a directory as a new target, uses it at once, then appends it to `volume.toml`.
    pub fn add_target(&self, name: &str, path: &Path, tier: &str) -> Result<()> {
        let tier_number = self.config.tiers.iter().position(|known| known == tier).ok_or_else(|| {
            let known = self.config.tiers.join(", ");
            Problems::refused(format!("there is no tier \"{tier}\""), format!("Use one of: {known}"))
        })?;
        let path = path.canonicalize().map_err(|error| {
            Problems::refused(format!("{} cannot be used: {error}", path.display()), "Name a directory that exists")
        })?;
        let shown = path.to_str().ok_or_else(|| {
            Problems::refused(
                format!("{} is not UTF-8 and cannot stand in volume.toml", path.display()),
                "Use another name",
            )
        })?;
        let block = TargetConfig {
            name: name.into(),
            keeping: Keeping::Directory(path.clone()),
            tier: tier_number as u8,
            only_on: Vec::new(),
            near: Vec::new(),
            device: None,
            place: (0, 0),
        };
        // The check is that of a start, on the future file.
        let mut config = super::Config::load(&self.config.file).map_err(Problems::unchanged)?;
        if config.targets.iter().any(|known| known.name == name) || self.targets.by_name(name).is_some() {
            return Err(Problems::refused(format!("there is a target \"{name}\" already"), "Choose another name"));
        }
        config.targets.push(block);
        check::check(&config).map_err(Problems::unchanged)?;
        let record =
            open::format_target(&*self.state, self.id, name, &Found::Directory(&path)).map_err(Problems::unchanged)?;
        let target = self.targets.add(open::spec(tier_number as u8, Found::Directory(&path), &record, self.id));
        if self.targets.probe_one(target.id()).is_err() {
            self.targets.give_up(target.id());
        }
        edit::append_target(&self.config.file, name, shown, tier)?;
        if let Err(error) = Message::targets(&[target.id()]).send(&*self.state, None) {
            tracing::warn!("other nodes have target {name} from their next start on: {error}");
        }
        Ok(())
    }

    /// Forgets a target that is empty (with `force`: whatever it holds), then removes its block from `volume.toml`.
    pub fn remove_target(&self, name: &str, force: bool) -> Result<()> {
        let target = self.targets.by_name(name).ok_or_else(|| self.unknown(name))?;
        if !force {
            let drain = format!("`entrepot target drain {name}` moves everything off; `--force` gives up its data");
            match target.run(|medium| medium.list()) {
                Ok(objects) if self.is_garbage(target.id(), &objects) => {}
                Ok(objects) => {
                    let held = show_count(objects.len() as u64, "object");
                    return Err(Problems::refused(format!("target {name} holds {held}"), drain));
                }
                Err(error) => {
                    return Err(Problems::refused(format!("target {name} cannot be checked: {error}"), drain));
                }
            }
        }
        self.state.forget_target(target.id()).map_err(|error| {
            Problems::one(Problem::new(error.to_string(), UNCHANGED, "Mend the state store").failed())
        })?;
        self.targets.remove(target.id());
        self.orders.forget(target.id());
        if let Err(error) = target.run(|medium| medium.disown()) {
            tracing::warn!(
                "the identity of target {name} stays on it: {error}. Remove its `target.id` before it is used again"
            );
        }
        edit::remove_target(&self.config.file, name)
    }

    /// Whether all objects are recorded as garbage: no file has them, and their target failed to remove them.
    pub fn is_garbage(&self, target: TargetId, objects: &[ObjectId]) -> bool {
        let noted = || self.state.garbage_of(target, usize::MAX).unwrap_or_default();
        objects.is_empty()
            || noted().into_iter().collect::<HashSet<_>>().is_superset(&objects.iter().copied().collect())
    }

    fn unknown(&self, name: &str) -> Problems {
        let known: Vec<_> = self.targets.all().iter().map(|target| target.name().to_owned()).collect();
        Problems::refused(format!("there is no target \"{name}\""), format!("Use one of: {}", known.join(", ")))
    }
}
