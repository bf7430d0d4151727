//! Users by name and by number, asked of the system, which may have them from a directory service.

use crate::failure::Result;
use std::process::Command;
use store::control::Problem;

/// The number of a user that is given by name or number.
pub fn number_of(user: &str) -> Result<u32> {
    if let Ok(uid) = user.parse() {
        return Ok(uid);
    }
    let told = Command::new("id").args(["-u", "--", user]).output()?;
    let uid = String::from_utf8_lossy(&told.stdout).trim().parse();
    let unknown =
        |_| Problem::not_found(format!("there is no user {user}")).try_this("give a name that `id` knows, or a number");
    Ok(uid.map_err(unknown)?)
}

/// The name of a user; none where the system knows none.
pub fn name_of(uid: u32) -> Option<String> {
    let told = Command::new("id").args(["-un", "--", &uid.to_string()]).output().ok()?;
    let name = String::from_utf8_lossy(&told.stdout).trim().to_owned();
    (told.status.success() && !name.is_empty()).then_some(name)
}
