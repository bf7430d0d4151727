//! Names of applications. Each user has a separate set of names.
//!
//! Internally, an application is called `UID/NAME`; a name has no slash. Users see only the name. The operator may use
//! either form, and must use the full one where several users have an application of that name.

use super::Burst;
use super::table::CheckpointTable;
use crate::control::{Caller, Problem, Result};

/// Maximum of applications of one user. A guess: far more than a user runs.
pub(super) const PER_USER_MAX: usize = 1000;

/// The full name of a user's application.
pub(super) fn full(uid: u32, name: &str) -> String {
    format!("{uid}/{name}")
}

/// The user of an application.
pub(super) fn user(full: &str) -> Option<u32> {
    full.split_once('/')?.0.parse().ok()
}

/// Name without its user.
pub(super) fn short(full: &str) -> &str {
    full.split_once('/').map_or(full, |(_, name)| name)
}

/// Whether `name` is the full or the short name of an application.
pub(super) fn is_named(full: &str, name: &str) -> bool {
    short(full) == name || full == name
}

/// Refuses invalid names.
pub(super) fn check(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > 200 || name.contains('/') {
        return Err(Problem::wrong(format!("\"{name}\" cannot be the name of an application"))
            .try_this("give a name of at most 200 characters without a slash"));
    }
    Ok(())
}

impl Burst {
    /// The full name of the application that a caller names.
    ///
    /// # Errors
    /// The name is invalid, or the operator's name fits several users.
    pub(super) fn named(&self, caller: &Caller, name: &str) -> Result<String> {
        let own = full(caller.uid, name);
        if !caller.is_operator() {
            return check(name).map(|()| own);
        }
        let table = self.table.lock();
        if user(name).is_some() {
            return Ok(name.to_owned());
        }
        let knows = |full: &str| table.apps.contains_key(full) || self.sessions.read().contains_key(full);
        if knows(&own) {
            return Ok(own);
        }
        let of_others: Vec<&str> = table.apps.keys().filter(|full| short(full) == name).map(String::as_str).collect();
        match of_others[..] {
            [] => Ok(own),
            [one] => Ok(one.to_owned()),
            _ => Err(Problem::wrong(format!("{} users have an application {name}", of_others.len()))
                .try_this(format!("name one of them: {}", of_others.join(", ")))),
        }
    }

    /// Whether an application is the caller's, or the caller is the operator.
    pub(super) fn may_see(&self, table: &CheckpointTable, caller: &Caller, full: &str) -> bool {
        caller.is_operator() || table.apps.contains_key(full) && user(full) == Some(caller.uid)
    }
}
