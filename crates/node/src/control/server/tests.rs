//! The server against real sockets.

use super::super::Client;
use super::super::wire::read_line;
use super::*;
use serde_json::json;
use std::io::{BufReader, Read};
use std::sync::mpsc;

struct Echo;

impl Handler for Echo {
    fn handle(&self, caller: &Caller, command: &str, args: Value, out: &mut Responder<'_>) -> Result<Value, Problem> {
        match command {
            "echo.twice" => {
                out.progress(&args);
                Ok(json!([args.clone(), args]))
            }
            "echo.who" => Ok(json!(caller)),
            "echo.panic" => panic!("on purpose"),
            _ => Err(Problem::not_found("no such echo")),
        }
    }
}

struct Waits(Mutex<mpsc::Sender<&'static str>>);

impl Handler for Waits {
    fn handle(&self, _: &Caller, _: &str, _: Value, out: &mut Responder<'_>) -> Result<Value, Problem> {
        self.0.lock().send("began").expect("test listens");
        while !out.stop().is_set() {
            thread::yield_now();
        }
        self.0.lock().send("stopped").expect("test listens");
        Err(Problem::failed("stopped"))
    }
}

fn binding(options: ServerOptions) -> (tempfile::TempDir, Binding) {
    let dir = tempfile::tempdir().expect("temp dir");
    let mut binding = Binding::new(&dir.path().join("control.sock"), options).expect("socket");
    binding.register("echo", Arc::new(Echo));
    (dir, binding)
}

fn server(options: ServerOptions) -> (tempfile::TempDir, Server) {
    let (dir, binding) = binding(options);
    let server = binding.serve().expect("server");
    (dir, server)
}

#[test]
fn progress_comes_before_the_result_and_the_kernel_says_who_asks() {
    let (_dir, server) = server(ServerOptions::default());
    let mut client = Client::connect(&server.path).expect("client");
    let mut seen = Vec::new();
    let result = client.request("echo.twice", json!(7), &mut |p| seen.push(p)).expect("result");
    assert_eq!((seen, result), (vec![json!(7)], json!([7, 7])));
    let who = client.request("echo.who", Value::Null, &mut |_| {}).expect("result");
    assert_eq!(who["uid"], rustix::process::getuid().as_raw());
    assert_eq!(who["gid"], rustix::process::getegid().as_raw());
}

/// A daemon that just started lacks some commands, and a client requests one of these.
#[test]
fn who_comes_before_all_commands_are_there_waits_for_them() {
    let (dir, mut binding) = binding(ServerOptions::default());
    let mut stream = UnixStream::connect(dir.path().join("control.sock")).expect("connect");
    stream.write_all(b"{\"id\":1,\"command\":\"late.who\"}\n").expect("send");
    struct Late;
    impl Handler for Late {
        fn handle(&self, _: &Caller, _: &str, _: Value, _: &mut Responder<'_>) -> Result<Value, Problem> {
            Ok(json!("me"))
        }
    }
    binding.register("late", Arc::new(Late));
    let _server = binding.serve().expect("server");
    let line = read_line(&mut BufReader::new(stream), 1000).expect("line").expect("answer");
    assert_eq!(String::from_utf8_lossy(&line), r#"{"id":1,"result":"me"}"#);
}

#[test]
fn errors_come_back_whole_and_a_panic_ends_one_request_only() {
    let (_dir, server) = server(ServerOptions::default());
    let mut client = Client::connect(&server.path).expect("client");
    let problem = client.request("echo.nothing", Value::Null, &mut |_| {}).unwrap_err();
    assert_eq!((problem.cause.as_str(), problem.exit_code), ("no such echo", exit::NOT_FOUND));
    let problem = client.request("echo.panic", Value::Null, &mut |_| {}).unwrap_err();
    assert!(problem.cause.contains("bug"), "{problem}");
    let problem = client.request("other.thing", Value::Null, &mut |_| {}).unwrap_err();
    assert_eq!(problem.exit_code, exit::WRONG_INPUT);
    assert!(client.request("echo.twice", json!(1), &mut |_| {}).is_ok());
}

#[test]
fn a_caller_that_goes_away_stops_its_request() {
    let (_dir, mut binding) = binding(ServerOptions::default());
    let (tell, told) = mpsc::channel();
    binding.register("wait", Arc::new(Waits(Mutex::new(tell))));
    let server = binding.serve().expect("server");
    let mut stream = UnixStream::connect(&server.path).expect("connect");
    stream.write_all(b"{\"id\":1,\"command\":\"wait\"}\n").expect("send");
    assert_eq!(told.recv(), Ok("began"));
    drop(stream);
    assert_eq!(told.recv(), Ok("stopped"));
}

#[test]
fn a_connection_beyond_the_limit_gets_an_error() {
    let (_dir, server) = server(ServerOptions { connections_max: 1, ..ServerOptions::default() });
    let mut first = Client::connect(&server.path).expect("client");
    first.request("echo.twice", json!(1), &mut |_| {}).expect("served");
    let mut second = Client::connect(&server.path).expect("client");
    let problem = second.request("echo.twice", json!(1), &mut |_| {}).unwrap_err();
    assert_eq!(problem.exit_code, exit::BUSY);
    first.request("echo.twice", json!(1), &mut |_| {}).expect("still served");
}

#[test]
fn garbage_is_refused_and_the_connection_goes_on() {
    let (_dir, server) = server(ServerOptions::default());
    let mut stream = UnixStream::connect(&server.path).expect("connect");
    stream.write_all(b"what?\n{\"id\":4,\"command\":\"echo.twice\",\"args\":2}\n").expect("send");
    let mut lines = BufReader::new(stream);
    let first = read_line(&mut lines, 1000).expect("line").expect("answer");
    assert!(String::from_utf8_lossy(&first).contains("not understood"));
    let second = read_line(&mut lines, 1000).expect("line").expect("answer");
    assert_eq!(String::from_utf8_lossy(&second), r#"{"id":4,"progress":2}"#);
}

#[test]
fn the_socket_is_closed_to_others_unless_it_is_for_everybody() {
    for (everybody, mode) in [(false, 0o600), (true, 0o666)] {
        let (_dir, server) = server(ServerOptions { everybody, ..ServerOptions::default() });
        let found = std::fs::metadata(&server.path).expect("socket").permissions().mode() & 0o777;
        assert_eq!(found, mode);
    }
}

/// Connects as another user, if this is root; otherwise prints that it is skipped.
fn connect_as(uid: u32, path: &Path) -> Option<UnixStream> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: needs root to act as another user");
        return None;
    }
    let run = || {
        let uid = rustix::process::Uid::from_raw(uid);
        rustix::thread::set_thread_res_uid(uid, uid, uid).expect("root may");
        UnixStream::connect(path).expect("the socket is open to everybody")
    };
    Some(thread::scope(|scope| scope.spawn(run).join().expect("connects")))
}

fn for_everybody(options: ServerOptions) -> (tempfile::TempDir, Server) {
    let (dir, server) = server(ServerOptions { everybody: true, ..options });
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).expect("chmod");
    (dir, server)
}

/// Answer to a request; `None` if the server hung up.
fn ask(stream: &UnixStream) -> Option<String> {
    let mut stream = stream;
    // The server may have closed a refused connection already; its answer can still be read.
    let _ = stream.write_all(b"{\"id\":1,\"command\":\"echo.who\"}\n");
    let line = read_line(&mut BufReader::new(stream), 1000).ok()??;
    Some(String::from_utf8_lossy(&line).into_owned())
}

/// [S-172]
#[test]
fn one_user_does_not_get_all_connections() {
    let options = ServerOptions { connections_max: 16, connections_reserved: 4, ..ServerOptions::default() };
    let (_dir, server) = for_everybody(options);
    let Some(first) = connect_as(1001, &server.path) else { return };
    let mut mine = vec![first];
    let refused = loop {
        let stream = connect_as(1001, &server.path).expect("root");
        match ask(&stream).expect("an answer") {
            answer if answer.contains("result") => mine.push(stream),
            answer => break answer,
        }
    };
    assert!(refused.contains("you have 6 connections"), "half of what is not reserved: {refused}");
    let other = connect_as(1002, &server.path).expect("root");
    assert!(ask(&other).expect("an answer").contains("result"), "another user is served");
    let own: Vec<_> = (0..9).map(|_| UnixStream::connect(&server.path).expect("connect")).collect();
    assert!(own.iter().all(|stream| ask(stream).is_some_and(|answer| answer.contains("result"))), "and the operator");
    drop((own, mine));
    let again = || connect_as(1001, &server.path).and_then(|stream| ask(&stream));
    while !again().expect("an answer").contains("result") {
        thread::yield_now();
    }
}

/// [S-172]
#[test]
fn a_request_that_comes_byte_by_byte_has_a_deadline_as_a_whole() {
    let (_dir, server) = server(ServerOptions { line: Duration::from_millis(100), ..ServerOptions::default() });
    let mut stream = UnixStream::connect(&server.path).expect("connect");
    assert!(ask(&stream).is_some());
    // Each byte restarts the timeout of a read, but not the deadline of the whole line.
    while stream.write_all(b" ").is_ok() {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(!matches!(stream.read(&mut [0; 9]), Ok(1..)), "it hung up");
}

/// The client that ends a daemon receives the outcome, though unmounting took its time.
#[test]
fn the_end_waits_for_answers_under_way() {
    struct Slow;
    impl Handler for Slow {
        fn handle(&self, _: &Caller, _: &str, _: Value, out: &mut Responder<'_>) -> Result<Value, Problem> {
            out.progress("began");
            while !out.stop().is_set() {
                thread::yield_now();
            }
            thread::sleep(Duration::from_millis(400)); // longer than the server's own threads take to end
            Ok(json!("down"))
        }
    }
    let (dir, mut binding) = binding(ServerOptions::default());
    binding.register("slow", Arc::new(Slow));
    let server = binding.serve().expect("server");
    let mut stream = UnixStream::connect(dir.path().join("control.sock")).expect("connect");
    stream.write_all(b"{\"id\":1,\"command\":\"slow.down\"}\n").expect("send");
    let mut lines = BufReader::new(stream.try_clone().expect("clone"));
    read_line(&mut lines, 1000).expect("line").expect("it began");
    server.stop();
    stream.set_nonblocking(true).expect("set");
    let line = read_line(&mut lines, 1000).expect("it is there already").expect("answer");
    assert_eq!(String::from_utf8_lossy(&line), r#"{"id":1,"result":"down"}"#);
}
