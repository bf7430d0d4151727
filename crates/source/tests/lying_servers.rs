//! Servers whose answers do not match the request, with and without a sign of it.

use engine::source::{Identity, Opener, Source, SourceError, Upload};
use source::{Settings, Sources};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request: its first line and the relevant headers.
struct Request {
    method: String,
    path: String,
    range: Option<Range<usize>>,
}

/// An answer that is sent unchanged.
struct Answer {
    status: &'static str,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    /// The end of the connection ends the body; there is no length.
    unmeasured: bool,
}

fn answer(status: &'static str) -> Answer {
    Answer { status, headers: Vec::new(), body: Vec::new(), unmeasured: false }
}

impl Answer {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Answer {
        self.headers.push((name, value.into()));
        self
    }

    fn body(self, body: &[u8]) -> Answer {
        Answer { body: body.to_vec(), ..self }
    }

    fn unmeasured(self) -> Answer {
        Answer { unmeasured: true, ..self }
    }
}

/// A server with scripted answers on a free port of loopback. Its threads end with the test's process.
struct Liar {
    authority: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Liar {
    fn start(lie: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Liar {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let authority = listener.local_addr().expect("address").to_string();
        let (lie, asked) = (Arc::new(lie), Arc::new(Mutex::new(Vec::new())));
        let heard = asked.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (lie, heard) = (lie.clone(), heard.clone());
                std::thread::spawn(move || drop(serve(stream, &*lie, &heard)));
            }
        });
        Liar { authority, asked }
    }

    /// A server of `bytes`, except where `lie` returns an answer.
    fn of(bytes: &[u8], lie: impl Fn(&Request) -> Option<Answer> + Send + Sync + 'static) -> Liar {
        let bytes = bytes.to_vec();
        Liar::start(move |request| lie(request).unwrap_or_else(|| honest(request, &bytes)))
    }

    fn source(&self) -> Arc<dyn Source> {
        sources().open(&self.uri(), &who()).expect("open")
    }

    fn uri(&self) -> String {
        format!("http://{}/x", self.authority)
    }

    /// A user whose environment names this server for s3.
    fn s3_user(&self) -> Identity {
        let environment = [
            ("AWS_ENDPOINT_URL", format!("http://{}", self.authority)),
            ("AWS_ACCESS_KEY_ID", "a".into()),
            ("AWS_SECRET_ACCESS_KEY", "b".into()),
        ];
        Identity { environment: environment.map(|(k, v)| (k.to_string(), v)).into(), ..who() }
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("no panic").clone()
    }
}

/// One request per connection.
fn serve(mut stream: TcpStream, lie: &dyn Fn(&Request) -> Answer, heard: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_string);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_ascii_lowercase(), value.to_string());
    }
    if headers.contains_key("transfer-encoding") {
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let size = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            reader.read_exact(&mut vec![0; size + 2])?;
            if size == 0 {
                break;
            }
        }
    }
    let range = headers.get("range").and_then(|text| {
        let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
        Some(first.parse().ok()?..last.parse::<usize>().ok()? + 1)
    });
    heard.lock().expect("no panic").push(format!("{method} {path}"));
    let answer = lie(&Request { method: method.clone(), path, range });
    write!(stream, "HTTP/1.1 {}\r\nConnection: close\r\n", answer.status)?;
    for (name, value) in &answer.headers {
        write!(stream, "{name}: {value}\r\n")?;
    }
    if !answer.unmeasured && method != "HEAD" {
        write!(stream, "Content-Length: {}\r\n", answer.body.len())?;
    }
    write!(stream, "\r\n")?;
    if method != "HEAD" {
        stream.write_all(&answer.body)?;
    }
    Ok(())
}

fn honest(request: &Request, bytes: &[u8]) -> Answer {
    match &request.range {
        Some(range) => part(bytes, range.clone(), range.clone()),
        None => answer("200 OK").with("Content-Length", bytes.len().to_string()).body(bytes),
    }
}

/// The bytes of one range, declared as another.
fn part(bytes: &[u8], sent: Range<usize>, said: Range<usize>) -> Answer {
    let range = format!("bytes {}-{}/{}", said.start, said.end - 1, bytes.len());
    answer("206 Partial Content").with("Content-Range", range).body(&bytes[sent])
}

fn is_probe(request: &Request) -> bool {
    request.range == Some(1..2)
}

fn sources() -> Sources {
    Sources::new(Settings { timeout: Duration::from_secs(20), ..Settings::default() }).expect("runtime")
}

fn who() -> Identity {
    let uid = rustix::process::geteuid().as_raw();
    Identity { uid, gid: rustix::process::getegid().as_raw(), ..Identity::default() }
}

fn data() -> Vec<u8> {
    (0..200_000u32).flat_map(|k| k.wrapping_mul(0x9e37_79b9).to_be_bytes()).collect()
}

/// Result of a range read from a server that gives this answer to every range except the probe.
fn of_range(lie: impl Fn(&[u8], Range<usize>) -> Answer + Send + Sync + 'static) -> Result<(), SourceError> {
    let bytes = data();
    let lying = bytes.clone();
    let liar = Liar::of(&bytes, move |r| r.range.clone().filter(|_| !is_probe(r)).map(|range| lie(&lying, range)));
    let source = liar.source();
    let version = source.stat().expect("stat");
    assert!(source.has_ranges().expect("probe"));
    let mut buf = vec![0; 1000];
    let read = source.read_at(&version, 5000, &mut buf);
    assert!(read.is_err() || buf == bytes[5000..6000], "wrong bytes were taken");
    read
}

/// [S-190]
#[test]
fn a_range_that_is_another_one_is_found_out() {
    assert_eq!(of_range(|b, asked| part(b, asked.clone(), asked)), Ok(()), "the honest one");
    for (what, found) in [
        ("the first bytes", of_range(|b, asked| part(b, 0..asked.len(), 0..asked.len()))),
        ("more than asked for", of_range(|b, asked| part(b, asked.start..asked.end + 5, asked.start..asked.end + 5))),
        ("less than asked for", of_range(|b, asked| part(b, asked.start..asked.end - 5, asked.start..asked.end - 5))),
        ("no word which", of_range(|b, asked| answer("206 Partial Content").body(&b[asked]))),
        ("all of it", of_range(|b, _| answer("200 OK").body(b))),
        ("a longer body", of_range(|b, asked| part(b, asked.start..asked.end + 5, asked).unmeasured())),
    ] {
        assert!(matches!(found, Err(SourceError::Permanent(_))), "{what}: {found:?}");
    }
    let found = of_range(|b, asked| part(b, asked.start..asked.end - 5, asked).unmeasured());
    assert!(matches!(found, Err(SourceError::Passing(_))), "a body that breaks off may be whole next time: {found:?}");
    let found = of_range(|b, asked| part(&[b, b"grown"].concat(), asked.clone(), asked));
    assert!(matches!(found, Err(SourceError::Changed(_))), "it has another size: {found:?}");
}

/// [S-190]
#[test]
fn a_server_that_always_answers_with_other_ranges_is_read_from_its_start() {
    let bytes = data();
    let lying = bytes.clone();
    let lie = move |r: &Request| r.range.clone().map(|asked| part(&lying, 0..asked.len(), 0..asked.len()));
    let liar = Liar::of(&bytes, lie);
    let source = liar.source();
    assert!(!source.has_ranges().expect("probe"));
    let version = source.stat().expect("stat");
    assert!(!source.notices_replacement(&version), "neither tag nor time");
    let mut all = Vec::new();
    let mut each = |bytes: &[u8]| {
        all.extend_from_slice(bytes);
        true
    };
    source.read_all(&version, &mut each).expect("all");
    assert!(all == bytes);
}

#[test]
fn an_s3_server_is_not_believed_either() {
    let bytes = data();
    for lies in [false, true] {
        let served = bytes.clone();
        let lie = move |r: &Request| {
            let asked = r.range.clone();
            let answer = match asked.filter(|_| lies) {
                Some(asked) => part(&served, 0..asked.len(), 0..asked.len()),
                None => honest(r, &served),
            };
            answer.with("ETag", "\"a\"")
        };
        let liar = Liar::start(lie);
        let source = sources().open("s3://bucket/x", &liar.s3_user()).expect("open");
        let version = source.stat().expect("stat");
        assert!(source.notices_replacement(&version));
        let mut buf = vec![0; 1000];
        let read = source.read_at(&version, 5000, &mut buf);
        match lies {
            false => assert!(read == Ok(()) && buf == bytes[5000..6000], "{read:?}"),
            true => assert!(matches!(&read, Err(SourceError::Permanent(why)) if why.contains("asked for")), "{read:?}"),
        }
    }
}

/// [S-422]
#[test]
fn bytes_are_counted_before_a_range_is_complete() {
    let bytes = data();
    let served = bytes.clone();
    let breaks_off = move |r: &Request| {
        let asked = r.range.clone().filter(|_| !is_probe(r));
        asked.map(|asked| part(&served, asked.start..asked.end - 5, asked).with("ETag", "\"a\"").unmeasured())
    };
    let liar = Liar::of(&bytes, breaks_off);
    let s3 = sources().open("s3://bucket/x", &liar.s3_user()).expect("open");
    for (what, source) in [("http", liar.source()), ("s3", s3)] {
        let (version, arrived) = (source.stat().expect("stat"), AtomicU64::new(0));
        let read = source.fetch_at(&version, 5000, &mut [0; 1000], &arrived);
        assert!(matches!(read, Err(SourceError::Passing(_))), "{what}: {read:?}");
        assert_eq!(arrived.into_inner(), 995, "{what}");
    }
}

#[test]
fn a_status_is_said_with_its_name() {
    for (status, expected) in [
        ("503 Service Unavailable", SourceError::Passing("the server answered 503 Service Unavailable".into())),
        ("403 Forbidden", SourceError::Denied("the server answered 403 Forbidden".into())),
        ("404 Not Found", SourceError::Permanent("the server answered 404 Not Found".into())),
    ] {
        let liar = Liar::start(move |_| answer(status).body(b"<html>a page</html>"));
        assert_eq!(liar.source().stat(), Err(expected));
    }
    let bytes = data();
    let liar = Liar::of(&bytes, |r| (r.method == "HEAD").then(|| answer("405 Method Not Allowed")));
    assert_eq!(liar.source().stat().expect("by GET then").size, bytes.len() as u64);
}

/// Result of an upload of a few bytes to a server that gives this answer.
fn upload(lie: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> (Result<(), SourceError>, Vec<String>) {
    let liar = Liar::start(lie);
    let mut upload: Box<dyn Upload> = sources().create(&liar.uri(), &who()).expect("create").upload;
    let sent = upload.append(b"result").and_then(|()| upload.complete(6));
    let ended = match sent {
        Ok(()) => upload.finish(6).map(drop),
        Err(e) => {
            upload.abort();
            Err(e)
        }
    };
    (ended, liar.asked().iter().map(|line| line.split(' ').next().unwrap_or_default().to_string()).collect())
}

/// [S-192]
#[test]
fn a_server_that_refuses_to_rename_leaves_nothing_and_it_is_said() {
    let file = |r: &Request| match r.method.as_str() {
        "HEAD" => answer("200 OK").with("Content-Length", "6"),
        _ => answer("201 Created"),
    };
    let (ended, _) = upload(file);
    assert_eq!(ended, Ok(()));
    for status in ["405 Method Not Allowed", "207 Multi-Status", "302 Found"] {
        let (ended, asked) = upload(move |r| if r.method == "MOVE" { answer(status) } else { file(r) });
        let said = ended.expect_err("refused").to_string();
        assert!(said.contains("MOVE to the final name") && said.contains(status), "{said}");
        assert!(said.contains("the sent part was removed again"), "{said}");
        assert_eq!(asked.last().map(String::as_str), Some("DELETE"), "{asked:?}");
    }
    let (ended, _) = upload(move |r| match r.method.as_str() {
        "MOVE" => answer("501 Not Implemented"),
        "DELETE" => answer("403 Forbidden"),
        _ => file(r),
    });
    let said = ended.expect_err("refused").to_string();
    assert!(said.contains("still lies at http://") && said.contains("403 Forbidden"), "{said}");
}

#[test]
fn a_page_to_log_in_at_is_no_success() {
    let (ended, _) = upload(|r| match r.path.as_str() {
        "/login" => answer("200 OK").body(b"who?"),
        _ => answer("302 Found").with("Location", "/login"),
    });
    assert!(matches!(&ended, Err(SourceError::Permanent(why)) if why.contains("302 Found")), "{ended:?}");
    // The server reports success, and the file is missing.
    let (ended, _) = upload(|r| match r.method.as_str() {
        "PUT" | "MOVE" | "DELETE" => answer("204 No Content"),
        _ if r.path == "/x" => answer("404 Not Found"),
        _ => answer("200 OK").with("Content-Length", "6"),
    });
    assert!(ended.is_err());
}
