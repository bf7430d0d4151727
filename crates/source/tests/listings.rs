//! Directories over http, by the listings of nginx (pages and json) and of Python's server.

#[allow(dead_code, reason = "some of it is for other tests")]
mod server;

use engine::source::{EntryKind, Opener, SourceError};
use server::port::free_port;
use server::{Nginx, data, installed, start, who};
use source::{Settings, Sources};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A tree with names that need escapes in a URI.
fn make(root: &Path) {
    fs::create_dir_all(root.join("set/sub dir/deep")).expect("directories");
    fs::create_dir_all(root.join("set/empty")).expect("directory");
    for (name, len) in
        [("set/a", 7), ("set/none", 0), ("set/sub dir/50% & <b>?#.nc", 70_000), ("set/sub dir/deep/\u{e4}:1", 3)]
    {
        fs::write(root.join(name), data(len, 1)).expect("write");
    }
}

fn expected() -> Vec<(String, Option<u64>)> {
    let expected = [
        ("a", Some(7)),
        ("empty", None),
        ("none", Some(0)),
        ("sub dir", None),
        ("sub dir/50% & <b>?#.nc", Some(70_000)),
        ("sub dir/deep", None),
        ("sub dir/deep/\u{e4}:1", Some(3)),
    ];
    expected.into_iter().map(|(name, size)| (name.to_string(), size)).collect()
}

fn list(uri: &str) -> Result<Vec<(String, Option<u64>)>, SourceError> {
    let sources = Sources::new(Settings::default()).expect("runtime");
    let size = |kind: EntryKind| if let EntryKind::File(size) = kind { Some(size) } else { None };
    Ok(sources.list(uri, &who())?.into_iter().map(|entry| (entry.path, size(entry.kind))).collect())
}

/// [S-267]
#[test]
fn the_tree_is_what_the_listings_say() {
    let Some(nginx) = Nginx::start() else { return };
    make(&nginx.root());
    for way in ["listed/set", "listed/set/", "json/set/"] {
        assert_eq!(list(&nginx.uri(way)).expect("a tree"), expected(), "{way}");
    }
    // A missing listing is not an empty directory.
    let refused = list(&nginx.uri("set/")).expect_err("autoindex is off here");
    let SourceError::Denied(why) = &refused else { panic!("{refused}") };
    assert!(why.contains("/set/: ") && why.contains("--manifest"), "{why}");
    assert!(matches!(list(&nginx.uri("listed/nothing/")), Err(SourceError::Permanent(_))));
    assert!(matches!(list(&nginx.uri("listed/set/a")), Err(SourceError::Permanent(_))), "a file");
    fs::write(nginx.root().join("set/sub dir/index.html"), "<title>Welcome</title>Nothing here.").expect("write");
    let page = list(&nginx.uri("listed/set/")).expect_err("a page for people").to_string();
    assert!(page.contains("/listed/set/sub dir/: its page names nothing"), "{page}");
}

/// [S-267]
#[test]
fn a_link_that_leads_round_is_refused() {
    let Some(nginx) = Nginx::start() else { return };
    make(&nginx.root());
    symlink(".", nginx.root().join("set/round")).expect("link");
    for way in ["listed/set/", "json/set/"] {
        let refused = list(&nginx.uri(way)).expect_err("without an end").to_string();
        assert!(refused.contains("more than 32 levels"), "{refused}");
    }
}

/// [S-267]
#[test]
fn other_servers_listings_are_read_too() {
    let Some(python) = installed("python3") else { return };
    let dir = tempfile::tempdir().expect("dir");
    make(dir.path());
    let port = free_port();
    let (at, root) = (port.to_string(), dir.path().display().to_string());
    let _running = start(&python, &["-m", "http.server", "--bind", "127.0.0.1", "--directory", &root, &at], port);
    assert_eq!(list(&format!("http://127.0.0.1:{port}/set")).expect("a tree"), expected());
}
