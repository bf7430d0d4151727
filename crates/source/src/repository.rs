//! Records of repositories of data: Zenodo's, and DOIs that lead to one.
//!
//! The answer of a repository is not trusted. Its files must be on the server that was queried, since the user's
//! credentials for other servers would be sent to addresses that the user never named. The files' names are checked
//! where they are used.

use crate::http::HttpSession;
use engine::source::{Deposited, Result, SourceError};
use serde::Deserialize;
use url::Url;

/// Prefix of Zenodo's DOIs, followed by a record's number.
const ZENODO_DOI: &str = "10.5281/zenodo.";

/// Maximum of files of a record. Zenodo allows 100, other repositories some thousands.
const FILES_MAX: usize = 100_000;

/// Time limit of an answer, in bytes at the slowest rate.
const WORTH_BYTES: u64 = 1 << 20;

/// Servers for queries of records and DOIs.
pub struct Bases<'a> {
    pub zenodo: &'a str,
    pub datacite: &'a str,
}

/// Query: a record by its number, or the record that a DOI leads to.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    Record(String),
    Doi(String),
}

impl Asked {
    /// Parses the text after `zenodo:` or `doi:`.
    pub fn parse(scheme: &str, name: &str) -> Result<Asked> {
        let name = name.trim_matches('/');
        let is_number = |text: &str| !text.is_empty() && text.len() <= 20 && text.bytes().all(|b| b.is_ascii_digit());
        let zenodo = if scheme == "zenodo" { Some(name) } else { name.strip_prefix(ZENODO_DOI) };
        match zenodo {
            Some(number) if is_number(number) => Ok(Asked::Record(number.to_string())),
            None if name.starts_with("10.") && name.contains('/') => Ok(Asked::Doi(name.to_string())),
            Some(_) if scheme == "zenodo" => Err(SourceError::Permanent("write zenodo:NUMBER, of the record".into())),
            _ => Err(SourceError::Permanent("that is no DOI; write doi:10.PREFIX/NAME".into())),
        }
    }
}

#[derive(Deserialize)]
struct Record {
    files: Option<Vec<FileOf>>,
}

#[derive(Deserialize)]
struct FileOf {
    key: String,
    size: u64,
    checksum: Option<String>,
    links: Links,
}

#[derive(Deserialize)]
struct Links {
    #[serde(rename = "self")]
    own: String,
}

#[derive(Deserialize)]
struct Doi {
    data: Data,
}

#[derive(Deserialize)]
struct Data {
    attributes: Attributes,
}

#[derive(Deserialize)]
struct Attributes {
    url: Option<String>,
}

/// The files of a record. `session` returns the session with the server of a base address.
pub fn files(
    asked: &Asked,
    bases: &Bases,
    session: &dyn Fn(&str) -> Result<std::sync::Arc<HttpSession>>,
) -> Result<Vec<Deposited>> {
    let files = match asked {
        Asked::Record(number) => of_record(number, bases.zenodo, &*session(bases.zenodo)?)?,
        Asked::Doi(doi) => {
            let found: Doi = answer(&*session(bases.datacite)?, bases.datacite, &format!("dois/{doi}"))?;
            let leads_to = found.data.attributes.url.unwrap_or_default();
            let number = record_at(&leads_to, bases.zenodo).ok_or_else(|| {
                let why = "a repository that is not supported (supported: Zenodo), so nothing is fetched; \
                           name its files by their own URIs, in a manifest if there are many";
                SourceError::Permanent(format!("the DOI {doi} leads to {leads_to:?}, {why}"))
            })?;
            of_record(&number, bases.zenodo, &*session(bases.zenodo)?)?
        }
    };
    if files.is_empty() {
        return Err(SourceError::Permanent("the record has no files".into()));
    }
    if files.len() > FILES_MAX {
        return Err(SourceError::Permanent(format!("the record has more than {FILES_MAX} files")));
    }
    Ok(files)
}

fn of_record(number: &str, base: &str, session: &HttpSession) -> Result<Vec<Deposited>> {
    let record: Record = answer(session, base, &format!("api/records/{number}"))?;
    let files = record.files.ok_or_else(|| {
        SourceError::Denied(format!("{base}/records/{number} shows no files: they may be restricted, or embargoed"))
    })?;
    let own = Url::parse(base).map_err(|e| SourceError::Permanent(e.to_string()))?;
    let taken = files.into_iter().map(|file| {
        let at = Url::parse(&file.links.own).ok().filter(|at| at.origin() == own.origin() && at.query().is_none());
        let why = || SourceError::Permanent(format!("{}: its address is {}, not {base}", file.key, file.links.own));
        let uri = at.ok_or_else(why)?.into();
        Ok(Deposited { uri, path: file.key, size: file.size, checksum: file.checksum })
    });
    taken.collect()
}

/// The number of the record that a page of Zenodo describes.
fn record_at(page: &str, zenodo: &str) -> Option<String> {
    let (page, zenodo) = (Url::parse(page).ok()?, Url::parse(zenodo).ok()?);
    let mut names = page.path_segments().filter(|_| page.host_str() == zenodo.host_str())?;
    let number = names.find(|name| matches!(*name, "records" | "record")).and_then(|_| names.next())?;
    number.bytes().all(|b| b.is_ascii_digit()).then(|| number.to_string()).filter(|number| !number.is_empty())
}

/// Parses a server's answer in json.
fn answer<T: serde::de::DeserializeOwned>(session: &HttpSession, base: &str, path: &str) -> Result<T> {
    let below = Url::parse(base).map_or(String::new(), |url| url.path().trim_end_matches('/').to_string());
    let shown = |why: String| format!("{base}/{path}: {why}");
    let page = session.runtime.wait("ask", WORTH_BYTES, session.page(&format!("{below}/{path}")));
    let (_, _, page) = page.map_err(|e| e.map(shown))?;
    serde_json::from_slice(&page)
        .map_err(|e| SourceError::Permanent(shown(format!("its answer is not a valid record: {e}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_dois() {
        let record = |number: &str| Asked::Record(number.to_string());
        for (scheme, name, asked) in [
            ("zenodo", "1234567", record("1234567")),
            ("zenodo", "1234567/", record("1234567")),
            ("doi", "10.5281/zenodo.1234567", record("1234567")),
            ("doi", "10.1594/PANGAEA.1", Asked::Doi("10.1594/PANGAEA.1".into())),
        ] {
            assert_eq!(Asked::parse(scheme, name).expect(name), asked);
        }
        for (scheme, name) in
            [("zenodo", "../x"), ("zenodo", ""), ("doi", "1234"), ("doi", "10.5281"), ("doi", "10.5281/zenodo.x")]
        {
            assert!(Asked::parse(scheme, name).is_err(), "{scheme}:{name}");
        }
    }

    #[test]
    fn pages_of_records() {
        let of = |page: &str| record_at(page, "https://zenodo.org");
        assert_eq!(of("https://zenodo.org/records/77"), Some("77".into()));
        assert_eq!(of("https://zenodo.org/record/77"), Some("77".into()));
        for other in ["https://other.org/records/77", "https://zenodo.org/records/", "https://zenodo.org/77", "x"] {
            assert_eq!(of(other), None, "{other}");
        }
    }
}
