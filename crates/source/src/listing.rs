//! Parses a server's listing of a directory: pages of nginx, Apache and similar servers, and nginx's json.
//!
//! The page is hostile input. Only links to direct entries of the directory on the same server count, without a query.
//! So links to the parent or for sorting do not count. Any page takes one pass.

use crate::address::decode;
use engine::source::EntryKind;
use std::collections::BTreeMap;
use url::Url;

/// Entries of a directory by name. The size of a file is set if the page has it exactly.
pub type Names = BTreeMap<String, Kind>;

/// Kind of an entry, as the page shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Directory,
    File(Option<u64>),
}

impl Kind {
    /// The kind as an entry has it, with the size from another request.
    pub fn with_size(self, size: u64) -> EntryKind {
        match self {
            Kind::Directory => EntryKind::Directory,
            Kind::File(known) => EntryKind::File(known.unwrap_or(size)),
        }
    }
}

/// Parses the page of the directory at `base`, whose path ends in `/`.
pub fn read(base: &Url, content_type: &str, page: &[u8]) -> Result<Names, String> {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/json" => of_json(page),
        "text/html" | "application/xhtml+xml" => of_html(base, &String::from_utf8_lossy(page)),
        "" => Err("its answer has no content type, where a page with a listing was expected".into()),
        other => Err(format!("it answered with {other}, where a page with a listing was expected")),
    }
}

#[derive(serde::Deserialize)]
struct Item {
    name: String,
    r#type: String,
    size: Option<u64>,
}

fn of_json(page: &[u8]) -> Result<Names, String> {
    let why = "its json is not nginx's listing of a directory";
    let items: Vec<Item> = serde_json::from_slice(page).map_err(|e| format!("{why}: {e}"))?;
    let mut names = Names::new();
    for item in items {
        let kind = match item.r#type.as_str() {
            "directory" => Kind::Directory,
            "file" => Kind::File(item.size),
            _ => continue, // a socket and the like
        };
        names.insert(checked(item.name)?, kind);
    }
    Ok(names)
}

fn of_html(base: &Url, page: &str) -> Result<Names, String> {
    let (mut names, mut rest) = (Names::new(), page);
    let directory = decode(base.path()).ok_or("the directory's name is no UTF-8")?;
    while let Some(at) = rest.find('<') {
        let (href, after) = link(&rest[at + 1..]);
        rest = after;
        let Some(to) = href.and_then(|href| base.join(href.trim()).ok()) else { continue };
        if to.origin() != base.origin() || to.query().is_some() || to.fragment().is_some() {
            continue;
        }
        let Some(path) = decode(to.path()) else { return Err(format!("it names {}, which is no UTF-8", to.path())) };
        let Some(name) = path.strip_prefix(&directory).filter(|name| !name.is_empty()) else { continue };
        // A link to a deeper level is skipped: the listing of that level has the name. A slash hidden by percent signs
        // is left to `checked`.
        if to.path().trim_end_matches('/').matches('/').count() > base.path().matches('/').count() {
            continue;
        }
        let (name, kind) = name.strip_suffix('/').map_or((name, Kind::File(None)), |name| (name, Kind::Directory));
        names.insert(checked(name.to_string())?, kind);
    }
    let title = page.get(..page.len().min(4096)).unwrap_or(page).to_ascii_lowercase();
    let is_listing = ["<title>index of", "<title>directory listing"].iter().any(|words| title.contains(words));
    if names.is_empty() && !is_listing {
        return Err("its page names nothing in the directory: the server may make no listings".into());
    }
    Ok(names)
}

fn checked(name: String) -> Result<String, String> {
    let bad =
        name.is_empty() || name == "." || name == ".." || name.contains('/') || name.chars().any(char::is_control);
    if bad { Err(format!("its listing has a name that cannot be used: {name:?}")) } else { Ok(name) }
}

/// Target of a tag, if it is a link, and the text after the tag. `tag` begins after its `<`.
fn link(tag: &str) -> (Option<String>, &str) {
    let is_link = tag.starts_with(['a', 'A']) && tag[1..].starts_with(|c: char| c.is_ascii_whitespace());
    if !is_link {
        return (None, tag);
    }
    let (mut rest, mut href) = (&tag[1..], None);
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let ends = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '>' | '/' | '<');
        let Some(end) = rest.find(ends).filter(|end| *end > 0) else { return (href, rest) };
        let (key, after) = rest.split_at(end);
        let Some(value) = after.trim_start().strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value.split_at(value.find(|c: char| c.is_ascii_whitespace() || c == '>').unwrap_or(value.len())),
        };
        if key.eq_ignore_ascii_case("href") {
            href.get_or_insert_with(|| plain(value));
        }
        rest = after;
    }
}

/// Replaces the entities that servers write by their characters.
fn plain(value: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#34;", "\""), ("&#39;", "'"), ("&#x27;", "'")];
    let value = named.iter().fold(value.to_string(), |value, (entity, plain)| value.replace(entity, plain));
    value.replace("&#38;", "&").replace("&amp;", "&")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(page: &str) -> Result<Vec<(String, Kind)>, String> {
        let base = Url::parse("http://h:81/a%20set/").expect("a URL");
        read(&base, "text/html; charset=utf-8", page.as_bytes()).map(|names| names.into_iter().collect())
    }

    fn file(name: &str) -> (String, Kind) {
        (name.into(), Kind::File(None))
    }

    #[test]
    fn pages_as_servers_make_them() {
        let nginx = "<html>\r\n<head><title>Index of /a set/</title></head>\r\n<body>\r\n<h1>Index of /a set/</h1><hr><pre>\
                     <a href=\"../\">../</a>\r\n<a href=\"sub/\">sub/</a>   01-Jan-2026 00:00   -\r\n\
                     <a href=\"a%20b%26c.nc\">a b&amp;c.nc</a>   01-Jan-2026 00:00   1K\r\n</pre>";
        assert_eq!(html(nginx), Ok(vec![file("a b&c.nc"), ("sub".into(), Kind::Directory)]));
        let apache = "<table><tr><th><a href=\"?C=N;O=D\">Name</a></th></tr>\
                      <tr><td><a href=\"/\">Parent Directory</a></td></tr>\
                      <tr><td><IMG src=\"x\"><A class=x HREF='/a%20set/x&amp;y.dat'>x</A></td></tr></table>";
        assert_eq!(html(apache), Ok(vec![file("x&y.dat")]));
        assert_eq!(html("<title>Index of /</title><a href=\"../\">up</a>"), Ok(Vec::new()), "an empty one");
        assert_eq!(html("<a download href=plain>x</a>"), Ok(vec![file("plain")]));
    }

    /// [S-267]
    #[test]
    fn only_what_lies_in_the_directory_is_taken() {
        let elsewhere = "<a href=\"http://other/a%20set/x\"></a><a href=\"https://h:81/a%20set/x\"></a><a href=\"/etc/x\">\
                         </a><a href=\"../x\"></a><a href=\"javascript:x\"></a><a href=\"#x\"></a><a href=\"x?y\"></a>\
                         <a href=\"%2e%2e/x\"></a><a href=\"sub/deeper\"></a><abbr href=\"x\">";
        assert!(html(elsewhere).expect_err("nothing").contains("names nothing in the directory"));
        for bad in ["x%2fy", "x%2f..%2f..%2fy", "x%0ay", "%ff"] {
            assert!(html(&format!("<a href=\"good\"></a><a href=\"{bad}\"></a>")).is_err(), "{bad}");
        }
        let long = "<a x=\"<a \" y='".repeat(100_000);
        assert!(html(&long).is_err(), "and it ends soon");
    }

    #[test]
    fn json_of_nginx() {
        let base = Url::parse("http://h/").expect("a URL");
        let of = |text: &str| read(&base, "application/json", text.as_bytes());
        let names =
            of(r#"[{"name":"d","type":"directory","mtime":"x"},{"name":"f","type":"file","mtime":"x","size":7},
                           {"name":"s","type":"other","mtime":"x"}]"#);
        assert_eq!(names, Ok([("d".into(), Kind::Directory), ("f".into(), Kind::File(Some(7)))].into()));
        for bad in ["{}", "[1]", r#"[{"name":"../x","type":"file","size":1}]"#, "<html>"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(read(&base, "image/png", b"").expect_err("no page").contains("image/png"));
    }
}
