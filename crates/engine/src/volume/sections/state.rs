//! The place of a volume's state, from `state` and the keys beside it.

use super::super::keys::{Directory, directory, text};
use super::super::section::{Given, Section};
use super::Top;
use meta::state::redis::Address;
use std::path::{Path, PathBuf};

/// Value of `state`.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    /// A directory of this node.
    Directory(Directory),
    /// A server, and where it is named.
    Server(Address, (usize, usize)),
}

impl Default for Place {
    fn default() -> Place {
        Place::Directory(Directory::default())
    }
}

/// Store of a volume's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StateStore {
    /// A file in the state directory.
    Embedded,
    /// A Redis server.
    Redis(Address),
}

/// Where the state is, and what is this node's own.
#[derive(Debug)]
pub struct StateConfig {
    /// The state directory.
    pub directory: Directory,
    /// Whether its path is derived from the volume's name; then it is created if it is missing.
    pub is_derived: bool,
    /// Store of the state.
    pub store: StateStore,
}

const FORM: &str = "redis://HOST:PORT/DATABASE, rediss://HOST:PORT/DATABASE, redis+sentinel://HOST:PORT,HOST:PORT/MASTER/DATABASE, or \
                    unix:///PATH/TO/SOCKET";

pub fn place(given: &Given<'_>) -> Result<Place, String> {
    let url = text(given)?;
    if !url.contains("://") {
        return directory(given).map(Place::Directory);
    }
    let address = Address::parse(&url).map_err(|why| format!("{why}. Write a directory, or {FORM}"))?;
    Ok(Place::Server(address, given.reading.place(given.start)))
}

pub fn state_store(text: &str) -> Result<StateStore, String> {
    let form = format!("Write embedded, or {FORM}");
    if text == "embedded" {
        return Ok(StateStore::Embedded);
    }
    if !text.contains("://") {
        return Err(form);
    }
    Address::parse(text).map(StateStore::Redis).map_err(|why| format!("{why}. {form}"))
}

impl StateConfig {
    /// Combines the keys.
    pub fn read(section: &Section<'_, '_, '_>, top: &Top) -> StateConfig {
        let (directory, is_derived, store) = match top.state.clone() {
            Place::Directory(directory) => {
                if top.state_dir.is_some() {
                    section.problem("state_dir", "`state` is a directory already", "Remove `state_dir`");
                }
                (directory, false, top.state_store.clone())
            }
            Place::Server(address, place) => {
                if top.state_store != StateStore::Embedded {
                    let mend = "Remove `state_store`; a directory of this node's own is `state_dir`";
                    section.problem("state_store", "`state` names a server already", mend);
                }
                let derived = || own_directory(&top.name).map(|path| Directory { path, place });
                let (given, is_derived) = (top.state_dir.clone(), top.state_dir.is_none());
                let directory = given.or_else(derived).unwrap_or_else(|| {
                    let cause = format!("no directory can be named after the volume \"{}\"", top.name);
                    section.problem("state", cause, "Add `state_dir = \"/var/lib/entrepot/scratch\"`");
                    Directory::default()
                });
                (directory, is_derived, StateStore::Redis(address))
            }
        };
        StateConfig { directory, is_derived, store: with_files(section, top, store) }
    }
}

/// The server with the files of its password and of its certificate authority.
fn with_files(section: &Section<'_, '_, '_>, top: &Top, store: StateStore) -> StateStore {
    let StateStore::Redis(address) = store else {
        for key in ["state_password_file", "state_ca_file"].into_iter().filter(|key| section.get(key).is_some()) {
            section.problem(key, format!("`{key}` is given, and the state is in no server"), "Remove it");
        }
        return store;
    };
    if top.state_password_file.is_some() && address.has_password() {
        section.problem("state_password_file", "the address has a password already", "Take it out of the address");
    }
    if top.state_ca_file.is_some() && !address.is_encrypted() {
        section.problem("state_ca_file", "the server is used without TLS", "Write `rediss://` for `redis://`");
    }
    let (password_file, ca_file) = (top.state_password_file.clone(), top.state_ca_file.clone());
    StateStore::Redis(address.with_files(password_file, ca_file))
}

/// A node's own directory for a volume of that name; none where the name or the environment gives none.
fn own_directory(name: &str) -> Option<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let environment = |key| std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || environment("HOME").map(|home| home.join(".local/state"));
    match is_root {
        true => roots_directory(name),
        false => {
            let state = environment("XDG_STATE_HOME").filter(|path| path.is_absolute()).or_else(home)?;
            // Home directories are often the same on all hosts.
            Some(state.join("entrepot").join(as_part(name)?).join(as_part(&object::host::name())?))
        }
    }
}

/// Where root's are.
const ROOTS: &str = "/var/lib/entrepot";

/// Where the same volume has its directory if root's daemon has it.
pub fn roots_directory(name: &str) -> Option<PathBuf> {
    Some(Path::new(ROOTS).join(as_part(name)?))
}

fn as_part(name: &str) -> Option<&str> {
    (!name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\0'])).then_some(name)
}
