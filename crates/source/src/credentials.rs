//! Credentials of a user: variables that the client passed on, or a file of the user that no other user may read.
//! Secrets have no `Debug` and no `Display`.
//!
//! The file is TOML, one table per server (or bucket), `*` for all others:
//! ```toml
//! ["data.example.org"]
//! user = "alice"
//! password = "..."
//! ["my-bucket"]
//! access_key_id = "..."
//! secret_access_key = "..."
//! endpoint = "https://s3.example.org"
//! ```

use crate::address::{Address, Scheme};
use engine::rights;
use engine::source::{Identity, Result, SourceError};
use object::users::user;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The variables of a user's environment that are read; a client passes on these and no others.
pub const CREDENTIAL_VARIABLES: &[&str] = &[
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_ENDPOINT_URL",
    "ENTREPOT_HTTP_USER",
    "ENTREPOT_HTTP_PASSWORD",
    "ENTREPOT_HTTP_TOKEN",
    "ENTREPOT_FTP_USER",
    "ENTREPOT_FTP_PASSWORD",
    "ENTREPOT_SFTP_USER",
    "ENTREPOT_SFTP_KEY",
    "ENTREPOT_SFTP_KNOWN_HOSTS",
    "SSH_AUTH_SOCK",
];

/// Default path of the file, below the user's home.
const DEFAULT_FILE: &str = ".config/entrepot/credentials.toml";

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A secret, which is never printed.
#[derive(Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The secret, for the library that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// Credentials for one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Credentials {
    /// Name of the user.
    pub user: Option<String>,
    /// Password for that name.
    pub password: Option<Secret>,
    /// Bearer token (http).
    pub token: Option<Secret>,
    /// Access key (s3).
    pub access_key_id: Option<String>,
    /// Secret key (s3).
    pub secret_access_key: Option<Secret>,
    /// Session token (s3).
    pub session_token: Option<Secret>,
    /// Region of the service (s3).
    pub region: Option<String>,
    /// URL of the service (s3).
    pub endpoint: Option<String>,
    /// Private key file (sftp).
    pub key: Option<PathBuf>,
    /// Known hosts file (sftp).
    pub known_hosts: Option<PathBuf>,
    /// Socket of the user's agent (sftp); only from the environment.
    #[serde(skip)]
    pub agent: Option<PathBuf>,
}

impl Credentials {
    /// Credentials of `who` for the server of `address`, from the environment first, then from the file.
    pub fn find(address: &Address, who: &Identity) -> Result<Credentials> {
        let mut found = from_file(address, who)?;
        overlay(&mut found, address.scheme, &who.environment);
        if let Some(user) = &address.user {
            found.user = Some(user.clone());
        }
        Ok(found)
    }
}

fn overlay(found: &mut Credentials, scheme: Scheme, environment: &BTreeMap<String, String>) {
    let word = |name: &str| environment.get(name).filter(|v| !v.is_empty()).cloned();
    let secret = |name: &str| word(name).map(Secret);
    let path = |name: &str| word(name).map(PathBuf::from);
    let set = |slot: &mut Option<Secret>, value: Option<Secret>| {
        if value.is_some() {
            *slot = value;
        }
    };
    let prefix = match scheme {
        Scheme::Http | Scheme::Webdav => "ENTREPOT_HTTP",
        Scheme::Ftp => "ENTREPOT_FTP",
        Scheme::Sftp => "ENTREPOT_SFTP",
        Scheme::S3 => {
            found.access_key_id = word("AWS_ACCESS_KEY_ID").or(found.access_key_id.take());
            set(&mut found.secret_access_key, secret("AWS_SECRET_ACCESS_KEY"));
            set(&mut found.session_token, secret("AWS_SESSION_TOKEN"));
            found.region = word("AWS_REGION").or(found.region.take());
            found.endpoint = word("AWS_ENDPOINT_URL").or(found.endpoint.take());
            return;
        }
        Scheme::File | Scheme::Repository => return,
    };
    found.user = word(&format!("{prefix}_USER")).or(found.user.take());
    set(&mut found.password, secret(&format!("{prefix}_PASSWORD")));
    if scheme == Scheme::Sftp {
        found.key = path("ENTREPOT_SFTP_KEY").or(found.key.take());
        found.known_hosts = path("ENTREPOT_SFTP_KNOWN_HOSTS").or(found.known_hosts.take());
        found.agent = path("SSH_AUTH_SOCK");
    } else {
        set(&mut found.token, secret("ENTREPOT_HTTP_TOKEN").filter(|_| prefix == "ENTREPOT_HTTP"));
    }
}

fn from_file(address: &Address, who: &Identity) -> Result<Credentials> {
    let named = who.credentials_file.clone();
    let Some(path) = named.clone().or_else(|| user(who.uid).map(|user| user.home.join(DEFAULT_FILE))) else {
        return Ok(Credentials::default());
    };
    let text = match rights::with_rights_of(who, {
        let (path, uid) = (path.clone(), who.uid);
        move || read_private(&path, uid)
    })? {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound && named.is_none() => return Ok(Credentials::default()),
        Err(e) => return Err(SourceError::Permanent(format!("credentials file {}: {e}", path.display()))),
    };
    // The parser's message quotes the line, which may hold a secret: report only its number.
    let tables: BTreeMap<String, Credentials> = toml::from_str(&text).map_err(|e| {
        let line = e.span().map_or(0, |span| text[..span.start].matches('\n').count() + 1);
        let why = format!("credentials file {}: line {line} is not valid", path.display());
        SourceError::Permanent(why)
    })?;
    let found = tables.get(&address.authority()).or_else(|| tables.get(&address.host)).or_else(|| tables.get("*"));
    Ok(found.cloned().unwrap_or_default())
}

/// Reads a file that belongs to `uid` and is closed to other users.
fn read_private(path: &Path, uid: u32) -> std::io::Result<String> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    let refuse = |why: &str| Err(std::io::Error::other(why.to_string()));
    if !meta.is_file() || meta.uid() != uid {
        return refuse("it is not a file that belongs to you; make your own");
    }
    if meta.mode() & 0o077 != 0 {
        return refuse("other users may read it, so its secrets are not secret; chmod 600 it and change them");
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn file(mode: u32, text: &str) -> (tempfile::TempDir, Identity) {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("c.toml");
        std::fs::write(&path, text).expect("write");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("chmod");
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        (dir, Identity { uid, gid, credentials_file: Some(path), ..Default::default() })
    }

    #[test]
    fn host_first_then_star_then_the_environment_over_both() {
        let (_dir, mut who) = file(0o600, "[\"a.b\"]\nuser = \"u\"\npassword = \"hush\"\n[\"*\"]\ntoken = \"t\"\n");
        let a = Address::parse("http://a.b/x").expect("good");
        let found = Credentials::find(&a, &who).expect("found");
        assert_eq!(found.password.as_ref().map(Secret::reveal), Some("hush"));
        assert!(!format!("{found:?}").contains("hush"));
        let other = Credentials::find(&Address::parse("http://c/x").expect("good"), &who).expect("found");
        assert_eq!(other.token.as_ref().map(Secret::reveal), Some("t"));
        who.environment.insert("ENTREPOT_HTTP_PASSWORD".into(), "louder".into());
        let found = Credentials::find(&a, &who).expect("found");
        assert_eq!(found.password.as_ref().map(Secret::reveal), Some("louder"));
    }

    /// [S-047]
    #[test]
    fn a_file_that_others_may_read_is_refused() {
        let (_dir, who) = file(0o640, "[\"*\"]\npassword = \"hush\"\n");
        let error = Credentials::find(&Address::parse("http://c/x").expect("good"), &who).expect_err("refused");
        assert!(error.to_string().contains("chmod 600"), "{error}");
    }

    /// [S-047]
    #[test]
    fn a_bad_line_is_named_but_not_quoted() {
        let (_dir, who) = file(0o600, "[\"*\"]\nuser = \"u\"\npasword = \"hush\"\n");
        let error = Credentials::find(&Address::parse("http://c/x").expect("good"), &who).expect_err("refused");
        assert!(error.to_string().contains("line ") && !error.to_string().contains("hush"), "{error}");
    }
}
