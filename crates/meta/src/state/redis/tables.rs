//! The calls of a state store as commands of Redis.

use super::holders::INCARNATION;
use super::scripts::{FORGET, NEXT_ABOVE, ORDER, REMEMBER, SET_STATE, SWAP};
use super::values::{
    entry_of, journalled, member, members_of, not_understood, object_of, order_of, state_of, state_text, target_records,
};
use super::{Pinned, RedisState};
use crate::state::dump::{self, Row};
use crate::state::{JournalEntry, Remembered, State, TargetRecord, Told, state_name};
use crate::{Error, Result};
use object::counters::Timed;
use object::target::State as TargetState;
use object::volume_id::unique;
use policy::holders::table::{Answer, Caller, Request, Run};
use policy::{FileId, ObjectId, TargetId};
use redis::{Cmd, FromRedisValue, Pipeline, cmd, pipe};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Key of the last change of the targets. Its value is not a counter: a server that lost its last writes would repeat
/// numbers.
const CHANGE: &str = "target.change";

/// All targets, by number.
pub fn targets(state: &RedisState) -> Result<Vec<TargetRecord>> {
    let mut all = pipe();
    all.atomic();
    for hash in ["target.name", "target.state", "sequence"] {
        all.cmd("HGETALL").arg(state.key(hash));
    }
    type Texts = BTreeMap<u16, String>;
    let (names, states, sequences): (Texts, Texts, BTreeMap<String, u64>) = state.all(&all)?;
    target_records(names, &states, &sequences).collect()
}

impl RedisState {
    fn ask<T: FromRedisValue>(&self, ask: &Cmd) -> Result<T> {
        self.with(|connection| ask.query(connection))
    }

    /// Executes a transaction.
    fn all<T: FromRedisValue>(&self, all: &Pipeline) -> Result<T> {
        self.with(|connection| all.query(connection))
    }

    fn script<T: FromRedisValue>(&self, text: &str, keys: &[&str], arguments: &[&str]) -> Result<T> {
        let mut eval = cmd("EVAL");
        eval.arg(text).arg(keys.len());
        for key in keys {
            eval.arg(self.key(key));
        }
        for argument in arguments {
            eval.arg(argument);
        }
        self.ask(&eval)
    }

    fn hash(&self, key: &str) -> Result<Vec<(String, Vec<u8>)>> {
        let all: BTreeMap<String, Vec<u8>> = self.ask(cmd("HGETALL").arg(self.key(key)))?;
        Ok(all.into_iter().collect())
    }

    fn put(&self, hash: &str, key: &str, value: &[u8]) -> Result<()> {
        self.ask(cmd("HSET").arg(self.key(hash)).arg(key).arg(value))
    }

    fn get(&self, hash: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.ask(cmd("HGET").arg(self.key(hash)).arg(key))
    }

    fn remove(&self, hash: &str, key: &str) -> Result<bool> {
        self.ask::<u64>(cmd("HDEL").arg(self.key(hash)).arg(key)).map(|n| n > 0)
    }

    /// Kinds of this node's records, in order.
    fn kinds(&self) -> Result<Vec<String>> {
        self.kinds_below(&self.key("record."), "")
    }

    /// Kinds of records that all nodes share.
    fn kinds_of_all(&self) -> Result<Vec<String>> {
        let mut kinds = self.kinds()?;
        for of_all in super::OF_ALL {
            kinds.extend(self.kinds_below(&self.key(&format!("record.{of_all}")), of_all)?);
        }
        kinds.sort();
        kinds.dedup();
        Ok(kinds)
    }

    fn kinds_below(&self, prefix: &str, name: &str) -> Result<Vec<String>> {
        let keys: Vec<String> = self.ask(cmd("KEYS").arg(format!("{prefix}*")))?;
        let mut kinds: Vec<_> =
            keys.iter().filter_map(|key| key.strip_prefix(prefix)).map(|kind| format!("{name}{kind}")).collect();
        kinds.sort();
        Ok(kinds)
    }

    fn put_row(&self, all: &mut Pipeline, row: &Row) -> Result<()> {
        let mut put = |hash: &str, key: &str, value: &[u8]| {
            all.cmd("HSET").arg(self.key(hash)).arg(key).arg(value);
        };
        match row {
            Row::Sequence { name, last } => put("sequence", name, last.to_string().as_bytes()),
            Row::Target { id, name, state, by_operator } => {
                let id = id.to_string();
                put("target.name", &id, name.as_bytes());
                put("target.number", name, id.as_bytes());
                put("target.state", &id, state_text(state, *by_operator).as_bytes());
            }
            Row::Journal { file, path, inode, objects } => {
                let entry = dump::journal_entry(*file, path, *inode, objects);
                put("journal", &format!("{file:016x}"), &journalled(&entry)?);
            }
            Row::Garbage { target, object } => self.add_garbage(all, &[(TargetId(*target), ObjectId(*object))]),
            Row::Staging { key, progress } => put("staging", key, progress.as_slice()),
            Row::Record { kind, key, value } => put(&format!("record.{kind}"), key, value.as_slice()),
        }
        Ok(())
    }

    fn add_garbage(&self, all: &mut Pipeline, objects: &[(TargetId, ObjectId)]) {
        if !objects.is_empty() {
            let add = all.cmd("ZADD").arg(self.key("garbage"));
            for object in objects {
                add.arg(0).arg(member(object));
            }
        }
    }
}

/// The answers of a dump as rows.
fn rows_of(kinds: &[String], answers: Vec<redis::Value>) -> Result<Vec<Row>> {
    type Hash = BTreeMap<String, Vec<u8>>;
    let mut answers = answers.into_iter();
    let mut next = || answers.next().ok_or_else(|| not_understood("an answer"));
    fn of<T: FromRedisValue>(value: redis::Value) -> Result<T> {
        T::from_redis_value(value).map_err(|_| not_understood("something"))
    }
    let mut rows = Vec::new();
    let sequences: BTreeMap<String, u64> = of(next()?)?;
    rows.extend(sequences.iter().map(|(name, last)| Row::Sequence { name: name.clone(), last: *last }));
    let (names, states): (BTreeMap<u16, String>, BTreeMap<u16, String>) = (of(next()?)?, of(next()?)?);
    for record in target_records(names, &states, &sequences) {
        rows.push(record?.into());
    }
    for (file, value) in of::<Hash>(next()?)? {
        rows.push(entry_of(&file, &value)?.into());
    }
    for member in of::<Vec<String>>(next()?)? {
        let (target, object) = object_of(&member)?;
        rows.push(Row::Garbage { target: target.0, object: object.0 });
    }
    rows.extend(of::<Hash>(next()?)?.into_iter().map(|(key, value)| Row::Staging { key, progress: value.into() }));
    for kind in kinds {
        let record = |(key, value): (String, Vec<u8>)| Row::Record { kind: kind.clone(), key, value: value.into() };
        rows.extend(of::<Hash>(next()?)?.into_iter().map(record));
    }
    Ok(rows)
}

impl State for RedisState {
    fn hold(&self, caller: Caller, request: &Request) -> Result<Answer> {
        let run_at = self.run_at.load(Ordering::Acquire);
        let answer = super::holders::serve(self, None, caller, request)?;
        // Another server may have served the request.
        match run_at == 0 || self.server.link.lock().made == run_at {
            true => Ok(answer),
            false => Err(Error::State("the connection to the table of holders was replaced".into())),
        }
    }

    fn run(&self) -> Result<Run> {
        super::holders::run(self)
    }

    fn pin(&self, kind: &str, key: &str) -> Result<()> {
        if let Some(value) = self.record_get(kind, key)? {
            let pinned = Pinned { key: self.key(&format!("record.{kind}")), field: key.to_owned(), value };
            drop(self.server.pinned.set(pinned));
        }
        Ok(())
    }

    fn timed(&self) -> Option<&Timed> {
        Some(&self.timed)
    }

    fn new_epoch(&self, above: u32) -> Result<u32> {
        let epoch: u64 = self.script(NEXT_ABOVE, &["sequence"], &["epoch", &above.to_string()])?;
        u32::try_from(epoch).map_err(|_| Error::State("all epochs are used up".into()))
    }

    fn epoch(&self) -> Result<u32> {
        self.ask::<Option<u32>>(cmd("HGET").arg(self.key("sequence")).arg("epoch")).map(Option::unwrap_or_default)
    }

    fn new_target_number(&self) -> Result<TargetId> {
        let number: u64 = self.script(NEXT_ABOVE, &["sequence"], &["target", "0"])?;
        u16::try_from(number).map(TargetId).map_err(|_| Error::State("all target numbers are used up".into()))
    }

    fn remember_target(&self, id: TargetId, name: &str) -> Result<()> {
        let keys = ["target.name", "target.number", "target.state", "sequence", CHANGE];
        match self.script(REMEMBER, &keys, &[&id.0.to_string(), name, &unique()?])? {
            0 => Err(Error::State(format!("another target is named \"{name}\""))),
            _ => Ok(()),
        }
    }

    fn targets(&self) -> Result<Vec<TargetRecord>> {
        targets(self)
    }

    fn targets_of(&self, ids: &[TargetId]) -> Result<Vec<TargetRecord>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut all = pipe();
        let numbers: Vec<u16> = ids.iter().map(|id| id.0).collect();
        let orders: Vec<String> = ids.iter().map(|id| order_of(*id)).collect();
        all.atomic();
        for hash in ["target.name", "target.state"] {
            all.cmd("HMGET").arg(self.key(hash)).arg(&numbers);
        }
        all.cmd("HMGET").arg(self.key("sequence")).arg(&orders);
        type Texts = Vec<Option<String>>;
        let (names, states, last): (Texts, Texts, Vec<Option<u64>>) = self.all(&all)?;
        let last = orders.into_iter().zip(last).filter_map(|(order, last)| Some((order, last?))).collect();
        let known = |all: Vec<Option<String>>| -> BTreeMap<u16, String> {
            numbers.iter().zip(all).filter_map(|(id, text)| Some((*id, text?))).collect()
        };
        target_records(known(names), &known(states), &last).collect()
    }

    fn targets_change(&self) -> Result<Option<String>> {
        // The identifier of an unchanged table is missing, which is a value as well.
        let change: Option<String> = self.ask(cmd("GET").arg(self.key(CHANGE)))?;
        Ok(Some(change.unwrap_or_default()))
    }

    fn set_target_state(&self, id: TargetId, state: TargetState, by_operator: bool) -> Result<()> {
        let text = state_text(state_name(state), by_operator);
        self.script(SET_STATE, &["target.state", CHANGE], &[&id.0.to_string(), &text, &unique()?])
    }

    fn order_target(&self, id: TargetId, state: TargetState, given_ms: u64) -> Result<Option<Remembered>> {
        let text = state_text(state_name(state), state == TargetState::Failed);
        let arguments = [&id.0.to_string(), &text, &unique()?, &order_of(id), &given_ms.to_string()];
        let there: Vec<String> =
            self.script(ORDER, &["target.state", CHANGE, "sequence"], &arguments.map(String::as_str))?;
        let [state, last] = &there[..] else { return Ok(None) };
        let there = state_of(state).zip(last.parse().ok());
        let ((state, _), last_ms) = there.ok_or_else(|| not_understood("a target's state"))?;
        Ok(Some(Remembered { state, last_ms }))
    }

    fn forget_target(&self, id: TargetId) -> Result<()> {
        let (from, to) = members_of(id);
        let keys = ["target.name", "target.number", "target.state", "garbage", CHANGE, "sequence"];
        self.script(FORGET, &keys, &[&id.0.to_string(), &from, &to, &unique()?, &order_of(id)])
    }

    fn journal_put(&self, entry: &JournalEntry) -> Result<()> {
        let value = journalled(entry)?;
        self.put("journal", &entry.file.to_string(), &value)
    }

    fn journal_finish(&self, file: FileId, garbage: &[(TargetId, ObjectId)]) -> Result<()> {
        let mut all = pipe();
        all.atomic().cmd("HDEL").arg(self.key("journal")).arg(file.to_string());
        self.add_garbage(&mut all, garbage);
        self.all(all.ignore())
    }

    fn journal(&self) -> Result<Vec<JournalEntry>> {
        self.hash("journal")?.into_iter().map(|(file, value)| entry_of(&file, &value)).collect()
    }

    fn garbage_add(&self, objects: &[(TargetId, ObjectId)]) -> Result<()> {
        let mut all = pipe();
        all.atomic();
        self.add_garbage(&mut all, objects);
        if objects.is_empty() { Ok(()) } else { self.all(all.ignore()) }
    }

    fn garbage_removed(&self, objects: &[(TargetId, ObjectId)]) -> Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let mut remove = cmd("ZREM");
        remove.arg(self.key("garbage"));
        for object in objects {
            remove.arg(member(object));
        }
        self.ask(&remove)
    }

    fn garbage_of(&self, target: TargetId, count_max: usize) -> Result<Vec<ObjectId>> {
        let (from, to) = members_of(target);
        let mut ask = cmd("ZRANGEBYLEX");
        let limit = i64::try_from(count_max).unwrap_or(i64::MAX);
        ask.arg(self.key("garbage")).arg(from).arg(to).arg("LIMIT").arg(0).arg(limit);
        let found: Vec<String> = self.ask(&ask)?;
        found.iter().map(|text| object_of(text).map(|(_, object)| object)).collect()
    }

    fn garbage_count(&self) -> Result<u64> {
        self.ask(cmd("ZCARD").arg(self.key("garbage")))
    }

    fn staging_put(&self, key: &str, progress: &[u8]) -> Result<()> {
        self.put("staging", key, progress)
    }

    fn staging_get(&self, key: &str) -> Result<Option<Vec<u8>>> {
        self.get("staging", key)
    }

    fn staging_remove(&self, key: &str) -> Result<()> {
        self.remove("staging", key).map(drop)
    }

    fn stagings(&self) -> Result<Vec<(String, Vec<u8>)>> {
        self.hash("staging")
    }

    fn record_put(&self, kind: &str, key: &str, value: &[u8]) -> Result<()> {
        self.put(&format!("record.{kind}"), key, value)
    }

    fn record_get(&self, kind: &str, key: &str) -> Result<Option<Vec<u8>>> {
        self.get(&format!("record.{kind}"), key)
    }

    fn record_remove(&self, kind: &str, key: &str) -> Result<bool> {
        self.remove(&format!("record.{kind}"), key)
    }

    fn record_swap(&self, kind: &str, key: &str, before: Option<&[u8]>, value: &[u8]) -> Result<bool> {
        let mut eval = cmd("EVAL");
        eval.arg(SWAP).arg(1).arg(self.key(&format!("record.{kind}"))).arg(key).arg(value).arg(before);
        self.ask::<u64>(&eval).map(|n| n > 0)
    }

    fn records(&self, kind: &str) -> Result<Vec<(String, Vec<u8>)>> {
        self.hash(&format!("record.{kind}"))
    }

    /// Repeats the dump if a new kind of record was added during it.
    fn dump(&self) -> Result<Vec<Row>> {
        loop {
            let kinds = self.kinds_of_all()?;
            let mut all = pipe();
            all.atomic().cmd("HGETALL").arg(self.key("sequence"));
            all.cmd("HGETALL").arg(self.key("target.name")).cmd("HGETALL").arg(self.key("target.state"));
            all.cmd("HGETALL").arg(self.key("journal")).cmd("ZRANGE").arg(self.key("garbage")).arg(0).arg(-1);
            all.cmd("HGETALL").arg(self.key("staging"));
            for kind in &kinds {
                all.cmd("HGETALL").arg(self.key(&format!("record.{kind}")));
            }
            let answers: Vec<redis::Value> = self.all(&all)?;
            if self.kinds_of_all()? == kinds {
                return rows_of(&kinds, answers);
            }
        }
    }

    fn load(&self, rows: &[Row]) -> Result<()> {
        let mut all = pipe();
        all.atomic();
        let fixed = ["sequence", "target.name", "target.number", "target.state", "journal", "garbage", "staging"];
        let records = self.kinds_of_all()?.into_iter().map(|kind| format!("record.{kind}"));
        for name in fixed.map(str::to_owned).into_iter().chain(records) {
            all.cmd("DEL").arg(self.key(&name));
        }
        for row in rows {
            self.put_row(&mut all, row)?;
        }
        all.cmd("SET").arg(self.key(CHANGE)).arg(unique()?);
        all.cmd("SET").arg(self.key(INCARNATION)).arg(unique()?);
        self.all(all.ignore())
    }

    fn record_kinds(&self) -> Result<Vec<String>> {
        self.kinds()
    }

    fn left_by(&self, own: &str) -> Result<Option<std::sync::Arc<dyn State>>> {
        if own.is_empty() || !own.chars().all(|c| c.is_ascii_alphanumeric()) {
            return Err(Error::State(format!("\"{own}\" is the name of no node")));
        }
        Ok(Some(std::sync::Arc::new(self.take_from(own)?)))
    }

    fn life(&self) -> Result<Option<String>> {
        let told = self.with(|connection| match cmd("INFO").arg("server").query::<String>(connection) {
            // The server does not permit the query to this user.
            Err(error) if error.code() == Some("NOPERM") => Ok(None),
            told => told.map(Some),
        })?;
        let id = |text: &str| text.lines().find_map(|line| line.strip_prefix("run_id:")).map(|id| id.trim().to_owned());
        Ok(told.as_deref().and_then(id))
    }

    fn ring(&self, text: &str) -> Result<()> {
        self.ask(cmd("PUBLISH").arg(self.key("bell")).arg(text))
    }

    fn tell(&self, node: &str, text: &str) -> Result<()> {
        self.ask(cmd("PUBLISH").arg(self.key(&format!("bell.{node}"))).arg(text))
    }

    fn listen(&self, goes_on: &dyn Fn() -> bool, hear: &mut dyn FnMut(Told<'_>)) -> Result<()> {
        self.listen_while(goes_on, hear).map_err(|error| Error::State(format!("{}: {error}", self.server.address())))
    }

    fn next_number(&self, sequence: &str) -> Result<u64> {
        self.script(NEXT_ABOVE, &["sequence"], &[&format!("record:{sequence}"), "0"])
    }
}
