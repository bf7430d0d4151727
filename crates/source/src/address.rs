//! Parses and checks a URI, so that no part of it can be mistaken for an option, a command or another path.

use engine::source::{Result, SourceError};
use std::fmt;
use url::Url;

/// Protocol of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// `http`, `https`.
    Http,
    /// `webdav`, `webdavs`, `dav`, `davs`: http with listings and renames.
    Webdav,
    /// `s3`: the host is the bucket.
    S3,
    /// `ftp`, `ftps`.
    Ftp,
    /// `sftp`.
    Sftp,
    /// `file`.
    File,
    /// `zenodo`, `doi`: a record of a repository, which is a directory of files on other servers.
    Repository,
}

/// Names of the schemes.
const SCHEMES: &str = "http, https, webdav, webdavs, s3, ftp, ftps, sftp, file, zenodo, doi";

/// A URI in its parts, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The URI as it was given.
    pub uri: String,
    /// Protocol of the server.
    pub scheme: Scheme,
    /// Whether the transport is encrypted by the scheme's name (`https`, `webdavs`, `ftps`).
    pub secure: bool,
    /// Server, or bucket; empty for files.
    pub host: String,
    /// Port, if given.
    pub port: Option<u16>,
    /// User name, if given.
    pub user: Option<String>,
    /// Path with the percent signs resolved; begins with `/`.
    pub path: String,
    /// The query, undecoded, without its `?`; only http has one.
    pub query: Option<String>,
}

impl Address {
    /// Parses a URI. A part that could be mistaken for an option or another path is refused.
    pub fn parse(uri: &str) -> Result<Address> {
        engine::source::check_uri(uri).map_err(|e| SourceError::Permanent(e.to_string()))?;
        let url = Url::parse(uri).map_err(|e| SourceError::Permanent(e.to_string()))?;
        let (scheme, secure) = match url.scheme() {
            "http" => (Scheme::Http, false),
            "https" => (Scheme::Http, true),
            "webdav" | "dav" => (Scheme::Webdav, false),
            "webdavs" | "davs" => (Scheme::Webdav, true),
            "s3" => (Scheme::S3, true),
            "ftp" => (Scheme::Ftp, false),
            "ftps" => (Scheme::Ftp, true),
            "sftp" => (Scheme::Sftp, true),
            "file" => (Scheme::File, true),
            "zenodo" | "doi" => (Scheme::Repository, true),
            other => {
                let why = format!("the scheme {other} is not supported; there are {SCHEMES}");
                return Err(SourceError::Permanent(why));
            }
        };
        let path = decode(url.path()).ok_or_else(|| not_allowed("path"))?;
        if path.chars().any(char::is_control) {
            return Err(not_allowed("path"));
        }
        // A `..` is never needed: the parser has resolved plain ones, so the rest was hidden in percent signs.
        if path.split('/').any(|name| name == "..") {
            return Err(not_allowed("path"));
        }
        let host = url.host_str().unwrap_or("").to_string();
        check_host(scheme, &host)?;
        let user = match url.username() {
            "" => None,
            name => Some(decode(name).filter(|n| is_plain(n, "._@+-")).ok_or_else(|| not_allowed("user name"))?),
        };
        let query = url.query().filter(|_| scheme == Scheme::Http).map(str::to_string);
        Ok(Address { uri: uri.to_string(), scheme, secure, host, port: url.port(), user, path, query })
    }

    /// The directory and the last name of the path; `None` if the path ends in `/`.
    pub fn parent_and_name(&self) -> Option<(&str, &str)> {
        let (parent, name) = self.path.rsplit_once('/')?;
        (!name.is_empty()).then_some((if parent.is_empty() { "/" } else { parent }, name))
    }

    /// `host` or `host:port`.
    pub fn authority(&self) -> String {
        match self.port {
            Some(port) => format!("{}:{port}", self.host),
            None => self.host.clone(),
        }
    }

    /// `http://host:port` or `https://host:port`.
    pub fn http_endpoint(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.authority())
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.uri)
    }
}

fn not_allowed(part: &str) -> SourceError {
    let why = "of the URI has a character that is not allowed there; write it without";
    SourceError::Permanent(format!("the {part} {why}"))
}

fn check_host(scheme: Scheme, host: &str) -> Result<()> {
    let wrong = |why: &str| Err(SourceError::Permanent(why.into()));
    match scheme {
        Scheme::Repository => Ok(()),
        Scheme::File if host.is_empty() || host == "localhost" => Ok(()),
        Scheme::File => wrong("a file URI names no server: write file:///PATH with three slashes"),
        _ if host.is_empty() => wrong("the URI names no server: write SCHEME://HOST/PATH"),
        _ if is_plain(host, "._-:[]") => Ok(()),
        _ => Err(not_allowed("host")),
    }
}

/// Letters, digits and `more`, not beginning with a dash (which programs take for an option).
fn is_plain(word: &str, more: &str) -> bool {
    !word.is_empty() && !word.starts_with('-') && word.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c))
}

/// Resolves percent signs; `None` if the result is not UTF-8 or a percent sign stands alone.
pub(crate) fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        let a = Address::parse("sftp://alice@host:2222/data/a%20b").expect("good");
        assert_eq!((a.scheme, a.host.as_str(), a.port), (Scheme::Sftp, "host", Some(2222)));
        assert_eq!((a.user.as_deref(), a.path.as_str()), (Some("alice"), "/data/a b"));
        assert_eq!(a.parent_and_name(), Some(("/data", "a b")));
        let a = Address::parse("https://host/x?id=3").expect("good");
        assert_eq!((a.http_endpoint().as_str(), a.query.as_deref()), ("https://host", Some("id=3")));
        assert_eq!(Address::parse("file:///x").expect("good").parent_and_name(), Some(("/", "x")));
        assert_eq!(Address::parse("s3://bucket/dir/").expect("good").parent_and_name(), None);
        assert!(Address::parse("gsiftp://host/x").is_err(), "an unknown scheme");
    }

    /// [S-052]
    #[test]
    fn attacks_are_refused() {
        for uri in [
            "sftp://-oProxyCommand=touch%20x/y",
            "sftp://-oProxyCommand@host/y",
            "sftp://a;b@host/y",
            "sftp://ho st/y",
            "sftp://h$(id)/y",
            "ftp://host/x%0d%0aDELE%20y",
            "ftp://host/x%00y",
            "http://host/x%2f..%2f..%2fy",
            "file://otherhost/x",
            "sftp:///x",
            "http://host/%zz",
            "http://host/%ff",
        ] {
            assert!(Address::parse(uri).is_err(), "{uri}");
        }
    }

    #[test]
    fn dots_are_resolved_inside_the_server() {
        assert_eq!(Address::parse("http://host/a/../../b").expect("good").path, "/b");
    }
}
