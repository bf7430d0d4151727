//! Plan of a rebuilt state store: its targets, their numbers and the next epoch; or the reasons why there is none.

use super::devices::TargetState;
use super::names::On;
use engine::volume::Problems;
use meta::state::TargetRecord;
use object::target::State;
use policy::TargetId;
use std::collections::{BTreeMap, BTreeSet};

/// Gap above the largest epoch seen if something was unreadable, which may hold later ones. A guess: more starts than a
/// volume has in the time of a backup of its namespace.
const EPOCHS_SPARED: u32 = 1 << 16;
/// Upper bound of plausible epochs. A guess: no volume starts 2^31 times, so a larger number comes from a foreign file.
const EPOCH_MAX: u32 = 1 << 31;

/// Facts that an operator supplies because they cannot be read from the devices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    /// Targets that are to be recorded as failed: by their names in `volume.toml`, or by a number that only files name.
    pub lost: Vec<String>,
    /// The numbers of targets that this host cannot look at.
    pub numbers: Vec<(String, TargetId)>,
}

/// Input of the plan.
#[derive(Debug, Default)]
pub struct Found {
    /// The targets of `volume.toml`, in its order.
    pub targets: Vec<(String, TargetState)>,
    /// Targets in the layouts of files.
    pub on: BTreeMap<TargetId, On>,
    /// The largest epoch of layouts and of the namespace.
    pub epoch: u32,
    /// Whether everything in the namespace could be read.
    pub all_read: bool,
}

/// Rows to be written to the state store.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan {
    /// The targets, by number.
    pub targets: Vec<TargetRecord>,
    /// The largest number that a target has or had.
    pub last_target: u16,
    /// The epoch above which numbers go on.
    pub epoch: u32,
}

struct Planning<'a> {
    found: &'a Found,
    wish: &'a Wish,
    refusals: Problems,
    numbers: BTreeMap<TargetId, TargetRecord>,
}

/// Computes the plan.
///
/// # Errors
/// All reasons for the refusal.
pub fn plan(found: &Found, wish: &Wish) -> Result<Plan, Problems> {
    let mut planning = Planning { found, wish, refusals: Problems(Vec::new()), numbers: BTreeMap::new() };
    planning.check_wish();
    planning.seen();
    planning.told();
    planning.unknown();
    let epoch = planning.epoch();
    let Planning { refusals, numbers, .. } = planning;
    if !refusals.0.is_empty() {
        return Err(refusals);
    }
    let all_seen = found.all_read && found.targets.iter().all(|(_, seen)| matches!(seen, TargetState::Here { .. }));
    let all = numbers.keys().chain(found.on.keys()).map(|id| id.0).max();
    Ok(Plan {
        last_target: all.unwrap_or(0),
        epoch: if all_seen { epoch } else { epoch + EPOCHS_SPARED },
        targets: numbers.into_values().collect(),
    })
}

impl Planning<'_> {
    fn is_lost(&self, name: &str) -> bool {
        self.wish.lost.iter().any(|lost| lost == name)
    }

    fn number_of(&self, name: &str) -> Option<TargetId> {
        self.wish.numbers.iter().find(|(named, _)| named == name).map(|(_, id)| *id)
    }

    fn refuse(&mut self, cause: impl ToString, mend: impl Into<String>) {
        self.refusals.0.extend(Problems::refused(cause, mend).0);
    }

    /// The largest epoch.
    fn epoch(&mut self) -> u32 {
        let of_target = |(name, seen): &(String, TargetState)| match seen {
            TargetState::Here { epoch, .. } => Some((*epoch, format!("target \"{name}\""))),
            _ => None,
        };
        let of_targets = self.found.targets.iter().filter_map(of_target);
        let mut largest = 0;
        for (epoch, place) in of_targets.chain([(self.found.epoch, "the namespace".to_owned())]) {
            if epoch > EPOCH_MAX {
                let mend = "Find the file there that does not belong to this volume";
                self.refuse(format!("{place} has a number that is not valid"), mend);
            }
            largest = largest.max(epoch);
        }
        largest
    }

    fn check_wish(&mut self) {
        let (found, wish) = (self.found, self.wish);
        let seen = |name: &str| found.targets.iter().find(|(known, _)| known == name).map(|(_, seen)| seen);
        for lost in &wish.lost {
            match (seen(lost), lost.parse().map(TargetId)) {
                (Some(TargetState::Here { .. }), _) => self.refuse(
                    format!("target \"{lost}\" is there, and is not lost"),
                    "Leave `--lost` away; `entrepot target fail` fails it when the volume is up",
                ),
                (None, Ok(id)) if found.on.contains_key(&id) => {}
                (None, _) => self.refuse(
                    format!("\"{lost}\" is no target of volume.toml, and no number that files name"),
                    "Correct `--lost`",
                ),
                _ => {}
            }
        }
        for (name, id) in &wish.numbers {
            match seen(name) {
                Some(TargetState::Here { id: there, .. } | TargetState::Away { id: Some(there), .. })
                    if there != id =>
                {
                    let cause = format!("target \"{name}\" has number {there} on it, not {id}");
                    self.refuse(cause, "Leave `--number` away");
                }
                None => self.refuse(format!("\"{name}\" is no target of volume.toml"), "Correct `--number`"),
                _ => {}
            }
        }
    }

    fn put(&mut self, name: &str, id: TargetId, state: State) {
        let record = TargetRecord { state, by_operator: state == State::Failed, ..TargetRecord::new(id, name) };
        if let Some(other) = self.numbers.insert(id, record) {
            let mend = "One of the two is a copy, or its number is wrong: correct `path` in volume.toml, or `--number`";
            self.refuse(format!("\"{}\" and \"{name}\" are both target number {id}", other.name), mend);
        }
    }

    /// Takes over the targets that carry their own number.
    fn seen(&mut self) {
        for (name, seen) in &self.found.targets {
            if let TargetState::Here { id, .. } = seen {
                self.put(name, *id, State::Ok);
            }
        }
    }

    /// Takes over the targets about which the operator has to supply facts.
    fn told(&mut self) {
        let mut nameless = Vec::new();
        for (name, seen) in &self.found.targets {
            let (why, id) = match seen {
                TargetState::Here { .. } => continue,
                TargetState::Away { why, id } => (why.clone(), id.or(self.number_of(name))),
                TargetState::Elsewhere => ("this host does not reach it".into(), self.number_of(name)),
            };
            let is_elsewhere = *seen == TargetState::Elsewhere;
            match (id, self.is_lost(name)) {
                (Some(id), true) => self.put(name, id, State::Failed),
                (Some(id), false) if is_elsewhere => self.put(name, id, State::Ok),
                (None, true) => nameless.push(name.clone()),
                (_, false) => {
                    let cause = format!("target \"{name}\" cannot be checked: {why}{}", self.consequence(id));
                    self.refuse(cause, how_to_go_on(name, is_elsewhere));
                }
            }
        }
        self.give_numbers(&nameless);
    }

    /// Assigns numbers to lost targets without a known number: if one target and one number are left, they belong
    /// together.
    fn give_numbers(&mut self, nameless: &[String]) {
        let left = self.left();
        match (nameless, &*left) {
            ([], _) => {}
            ([one], [number]) => self.put(one, *number, State::Failed),
            (all, []) => {
                for name in all {
                    let last = self.numbers.keys().chain(self.found.on.keys()).map(|id| id.0).max().unwrap_or(0);
                    match last.checked_add(1) {
                        Some(next) => self.put(name, TargetId(next), State::Failed),
                        None => self.refuse("all target numbers are used up", "Remove a target"),
                    }
                }
            }
            (all, left) => {
                let numbers: Vec<String> = left.iter().map(|id| format!("{id}{}", self.files_on(*id))).collect();
                let (all, numbers) = (all.join("\", \""), numbers.join(", "));
                let mend = "Give their numbers with `--number NAME=NUMBER`; an older log of the daemon or `target.id` \
                    in a backup has them";
                self.refuse(format!("the numbers of targets \"{all}\" are ambiguous: {numbers}"), mend);
            }
        }
    }

    /// Numbers that files name and no target has.
    fn left(&self) -> Vec<TargetId> {
        let lost: BTreeSet<TargetId> = self.lost_numbers();
        let left = self.found.on.keys().filter(|id| !self.numbers.contains_key(id) && !lost.contains(id));
        left.copied().collect()
    }

    fn lost_numbers(&self) -> BTreeSet<TargetId> {
        let is_name = |name: &str| self.found.targets.iter().any(|(known, _)| known == name);
        let numbers = self.wish.lost.iter().filter(|lost| !is_name(lost));
        numbers.filter_map(|lost| lost.parse().ok().map(TargetId)).collect()
    }

    /// Numbers that only files name.
    fn unknown(&mut self) {
        for id in self.lost_numbers() {
            let mut name = format!("lost-{id}");
            while self.found.targets.iter().any(|(known, _)| *known == name) {
                name.push('-');
            }
            self.put(&name, id, State::Failed);
        }
        // After an earlier refusal the numbers that are left cannot be attributed yet.
        if self.refusals.0.is_empty() {
            for id in self.left() {
                let cause =
                    format!("no target of volume.toml is number {id}, which files name{}", self.consequence(Some(id)));
                let mend = format!(
                    "Add its block to volume.toml. If it is gone for ever: `--lost {id}`; its files are then recovered from mirrors and sources"
                );
                self.refuse(cause, mend);
            }
        }
    }

    fn files_on(&self, id: TargetId) -> String {
        self.found.on.get(&id).map_or(String::new(), |on| format!(" ({} files, such as {})", on.files, on.example))
    }

    /// Consequence of a missing target if its number is known; else the numbers that it may have.
    fn consequence(&self, id: Option<TargetId>) -> String {
        let Some(id) = id else {
            let left: Vec<String> = self.left().iter().map(|id| format!("{id}{}", self.files_on(*id))).collect();
            return match left.is_empty() {
                true => "; no file names a target that is not there".into(),
                false => format!("; files name targets that are not there: {}", left.join(", ")),
            };
        };
        self.found.on.get(&id).map_or("; no file names it".into(), |on| {
            let alone = match on.alone {
                0 => "all of them have another mirror or a source".to_owned(),
                alone => format!("{alone} of them have neither another mirror in sync nor a source"),
            };
            format!("; {} files name it, such as {}; {alone}", on.files, on.example)
        })
    }
}

fn how_to_go_on(name: &str, is_elsewhere: bool) -> String {
    match is_elsewhere {
        true => format!(
            "Give the number in its `target.id`: `--number {name}=NUMBER`; or, if it is gone for ever, `--lost {name}`"
        ),
        false => format!(
            "Mount or mend it. If it is gone for ever: `--lost {name}`; it is then a failed target, and its files are recovered from mirrors \
             and sources. If it is new and empty: take its block out of volume.toml until the volume is up, then `entrepot target add`"
        ),
    }
}

#[cfg(test)]
mod tests;
