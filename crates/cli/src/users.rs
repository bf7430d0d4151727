//! Names and numbers of users and groups, from the system's name service.

use crate::failure::Result;
use node::control::Problem;
use std::process::Command;

/// Number of a user, from a name or a number.
pub fn number_of(user: &str) -> Result<u32> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let output = Command::new("id").args(["-u", "--", user]).output()?;
    let uid = String::from_utf8_lossy(&output.stdout).trim().parse();
    let unknown =
        |_| Problem::not_found(format!("there is no user {user}")).try_this("give a name that `id` finds, or a number");
    Ok(uid.map_err(unknown)?)
}

/// Name of a user, if the system has one.
pub fn name_of(uid: u32) -> Option<String> {
    let output = Command::new("id").args(["-un", "--", &uid.to_string()]).output().ok()?;
    let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !name.is_empty()).then_some(name)
}

/// Login name of a user, or the number where there is none.
pub fn name_or_number(uid: u32) -> String {
    name_of(uid).unwrap_or_else(|| uid.to_string())
}

/// Number of a group, from a name or a number.
pub fn group_number_of(group: &str) -> Result<u32> {
    if let Ok(gid) = group.parse() {
        return Ok(gid);
    }
    let unknown = || {
        Problem::not_found(format!("there is no group {group}"))
            .try_this("give a name that `getent group` finds, or a number")
    };
    Ok(group_field(group, 2)?.and_then(|gid| gid.parse().ok()).ok_or_else(unknown)?)
}

/// Name of a group, if the system has one.
pub fn group_name_of(gid: u32) -> Option<String> {
    group_field(&gid.to_string(), 0).ok().flatten().filter(|name| !name.is_empty())
}

fn group_field(key: &str, field: usize) -> Result<Option<String>> {
    let output = Command::new("getent").args(["--", "group", key]).output()?;
    let line = String::from_utf8_lossy(&output.stdout);
    Ok(line.trim().split(':').nth(field).filter(|_| output.status.success()).map(str::to_owned))
}
