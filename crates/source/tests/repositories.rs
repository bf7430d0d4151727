//! Records of repositories: answers of the shape that Zenodo and DataCite give, from an nginx that stands in for both.

#[allow(dead_code, reason = "some of it is for other tests")]
mod server;

use engine::source::{Deposited, Opener, SourceError};
use server::{Nginx, data, who};
use source::{Settings, Sources};
use std::fs;

/// A server with a record of two files, and DOIs.
fn repository() -> Option<(Nginx, Sources)> {
    let nginx = Nginx::start()?;
    let root = nginx.root();
    ["api/records", "dois/10.1234", "held/a.nc", "held/b 1.csv"].iter().for_each(|dir| {
        fs::create_dir_all(root.join(dir)).expect("directory");
    });
    fs::write(root.join("held/a.nc/content"), data(5000, 1)).expect("write");
    fs::write(root.join("held/b 1.csv/content"), b"abc").expect("write");
    let file = |key: &str, size: usize, sum: &str, at: String| {
        format!(r#"{{"id":"0b2f","key":"{key}","size":{size},"checksum":"md5:{sum}","links":{{"self":"{at}"}}}}"#)
    };
    let sums = ["d41d8cd98f00b204e9800998ecf8427e", "900150983cd24fb0d6963f7d28e17f72"];
    let files = [
        file("a.nc", 5000, sums[0], nginx.uri("held/a.nc/content")),
        file("b 1.csv", 3, sums[1], nginx.uri("held/b%201.csv/content")),
    ];
    let record = |files: &str| {
        format!(
            r#"{{"id":77,"conceptrecid":"76","doi":"10.5281/zenodo.77","metadata":{{"title":"x","access_right":"open"}},{files}
               "links":{{"self":"{}"}},"state":"done","submitted":true}}"#,
            nginx.uri("api/records/77")
        )
    };
    let put = |path: &str, text: String| fs::write(root.join(path), text).expect("write");
    put("api/records/77", record(&format!(r#""files":[{}],"#, files.join(","))));
    put("api/records/78", record(""));
    put("api/records/79", record(r#""files":[],"#));
    let away = file("x", 3, sums[1], "http://127.0.0.1:1/x".into());
    put("api/records/80", record(&format!(r#""files":[{away}],"#)));
    let doi = |url: &str, content: &str| {
        format!(
            r#"{{"data":{{"id":"10.1234/x","type":"dois","attributes":{{"url":"{url}","contentUrl":{content}}}}}}}"#
        )
    };
    put("dois/10.1234/record", doi(&nginx.uri("records/77"), "null"));
    put(
        "dois/10.1234/content",
        doi("https://else.invalid/x", &format!(r#"["{}"]"#, nginx.uri("held/b%201.csv/content"))),
    );
    put("dois/10.1234/neither", doi("https://else.invalid/x", "null"));
    let base = nginx.uri("").trim_end_matches('/').to_string();
    let settings = Settings { zenodo: base.clone(), datacite: base, ..Settings::default() };
    Some((nginx, Sources::new(settings).expect("runtime")))
}

/// [S-268]
#[test]
fn a_record_has_the_files_and_checksums_that_its_repository_says() {
    let Some((nginx, sources)) = repository() else { return };
    let of = |uri: &str| sources.record(uri, &who()).map(|files| files.expect("a record"));
    let expected = [
        ("held/a.nc/content", "a.nc", 5000, "md5:d41d8cd98f00b204e9800998ecf8427e"),
        ("held/b%201.csv/content", "b 1.csv", 3, "md5:900150983cd24fb0d6963f7d28e17f72"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(at, path, size, sum)| Deposited {
            uri: nginx.uri(at),
            path: path.to_string(),
            size: *size,
            checksum: Some(sum.to_string()),
        })
        .collect();
    for uri in ["zenodo:77", "zenodo:77/", "doi:10.5281/zenodo.77", "doi:10.1234/record"] {
        assert_eq!(of(uri).expect(uri), expected, "{uri}");
    }
    assert_eq!(sources.record(&nginx.uri("held"), &who()), Ok(None), "no record is meant");
}

/// [S-268]
#[test]
fn what_is_no_record_is_refused_with_its_reason() {
    let Some((_nginx, sources)) = repository() else { return };
    for (uri, why) in [
        ("zenodo:1", "404"),
        ("zenodo:78", "restricted"),
        ("zenodo:79", "no files"),
        ("zenodo:80", "its address is http://127.0.0.1:1/x"),
        ("zenodo:x", "zenodo:NUMBER"),
        ("doi:x", "doi:10.PREFIX/NAME"),
        ("doi:10.1234/none", "404"),
        ("doi:10.1234/neither", "supported: Zenodo"),
        // The user's credentials are for servers that the user named, and not for those of a DOI's description.
        ("doi:10.1234/content", "name its files by their own URIs"),
    ] {
        let said = sources.record(uri, &who()).expect_err(uri).to_string();
        assert!(said.contains(why), "{uri}: {said}");
    }
    assert!(matches!(sources.open("zenodo:77", &who()).err(), Some(SourceError::Permanent(_))));
}
