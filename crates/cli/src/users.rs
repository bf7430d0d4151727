//! Names and numbers of users and groups, from the system's name service.

use crate::failure::Result;
use node::control::Problem;
use std::process::Command;

/// Number of a user, from a name or a number.
pub fn number_of(user: &str) -> Result<u32> {
    number("passwd", "user", user)
}

/// Name of a user, if the system has one.
pub fn name_of(uid: u32) -> Option<String> {
    name("passwd", uid)
}

/// Login name of a user, or the number where there is none.
pub fn name_or_number(uid: u32) -> String {
    name_of(uid).unwrap_or_else(|| uid.to_string())
}

/// Number of a group, from a name or a number.
pub fn group_number_of(group: &str) -> Result<u32> {
    number("group", "group", group)
}

/// Name of a group, if the system has one.
pub fn group_name_of(gid: u32) -> Option<String> {
    name("group", gid)
}

fn number(database: &str, what: &str, key: &str) -> Result<u32> {
    if let Ok(number) = key.parse() {
        return Ok(number);
    }
    let unknown = || {
        Problem::not_found(format!("there is no {what} {key}"))
            .try_this(format!("give a name that `getent {database}` finds, or a number"))
    };
    Ok(field(database, key, 2)?.and_then(|number| number.parse().ok()).ok_or_else(unknown)?)
}

fn name(database: &str, number: u32) -> Option<String> {
    field(database, &number.to_string(), 0).ok().flatten().filter(|name| !name.is_empty())
}

/// Field of the entry with that name or number.
fn field(database: &str, key: &str, field: usize) -> Result<Option<String>> {
    let output = Command::new("getent").args(["--", database, key]).output()?;
    let line = String::from_utf8_lossy(&output.stdout);
    Ok(line.trim().split(':').nth(field).filter(|_| output.status.success()).map(str::to_owned))
}
