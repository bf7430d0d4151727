//! Calls between nodes in one process that loses messages.

use super::*;
use meta::messages::Message;
use policy::cluster::Node;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Instant;

/// Nodes in one process: each message arrives at once, unless it is lost.
#[derive(Default)]
struct Net {
    there: Mutex<HashMap<String, Arc<Calls>>>,
    /// Texts to lose, by their content, and how many of each.
    loses: Mutex<Vec<(&'static str, usize)>>,
}

struct End(Arc<Net>, String);

impl Talk for End {
    fn me(&self) -> Node {
        Node(1)
    }
    fn own(&self) -> &str {
        &self.1
    }
    fn leads(&self) -> bool {
        self.1 == "a"
    }
    fn leader(&self) -> Option<String> {
        Some("a".into())
    }
    fn is_over(&self, _: Node) -> bool {
        false
    }
    fn members(&self) -> Vec<Member> {
        Vec::new()
    }
    fn send(&self, _: Option<&str>, _: &Message) {}
    fn call(&self, name: &str, packet: Packet) {
        let text = format!("{packet:?}");
        if let Some((_, n)) = self.0.loses.lock().iter_mut().find(|(what, n)| *n > 0 && text.contains(what)) {
            *n -= 1;
            return;
        }
        let there = self.0.there.lock().get(name).cloned();
        there.into_iter().for_each(|calls| calls.handle(&self.1, packet.clone()));
    }
}

fn node(net: &Arc<Net>, name: &str) -> Arc<Calls> {
    let calls = Calls::repeating(Arc::new(End(net.clone(), name.into())), Duration::from_millis(20));
    net.there.lock().insert(name.into(), calls.clone());
    calls
}

/// Returns caller, request and the number of requests, after a few lines of progress.
#[derive(Default)]
struct Echo {
    served: AtomicU64,
    lines: u64,
}

impl Echo {
    fn register(self, calls: &Calls) {
        calls.register("echo", move |caller, args, out| self.serve(caller, args, out));
    }

    fn serve(&self, caller: &Caller, args: Value, out: &mut Responder<'_>) -> Answer<(u32, u32, Value, u64)> {
        for line in 0..self.lines {
            out.progress(&line);
        }
        let n = self.served.fetch_add(1, Ordering::Relaxed) + 1;
        Ok((caller.uid, caller.gid, args, n))
    }
}

const ME: Caller = Caller { uid: 7, gid: 8 };

fn ask(calls: &Calls, to: &str, silent: Duration, seen: &mut Vec<Value>) -> Answer {
    let mut send = |value| {
        seen.push(value);
        true
    };
    let mut out = Responder::new(&mut send, Arc::default());
    let to = To::Node(to.to_owned());
    calls.call(&to, "echo", &ME, &"x", silent, &mut out)
}

#[test]
fn another_node_serves_on_behalf_of_who_asked_and_says_how_far_it_is() {
    let net = Arc::new(Net::default());
    let (a, b) = (node(&net, "a"), node(&net, "b"));
    Echo { lines: 3, ..Echo::default() }.register(&b);
    let mut seen = Vec::new();
    assert_eq!(ask(&a, "b", SILENT, &mut seen), Ok(json!([7, 8, "x", 1])));
    assert_eq!(seen, [json!(0), json!(1), json!(2)]);
    assert!(a.made.lock().is_empty());
}

#[test]
fn what_gets_lost_is_said_again_and_nothing_is_done_twice() {
    let net = Arc::new(Net::default());
    let (a, b) = (node(&net, "a"), node(&net, "b"));
    Echo::default().register(&b);
    for lost in ["Ask", "Answer"] {
        net.loses.lock().push((lost, 1));
    }
    assert_eq!(ask(&a, "b", SILENT, &mut Vec::new()), Ok(json!([7, 8, "x", 1])), "served once");
    assert!(net.loses.lock().iter().all(|(_, left)| *left == 0));
}

#[test]
fn a_queue_answers_once_and_serves_a_dropped_request_again() {
    let net = Arc::new(Net::default());
    let (a, b) = (node(&net, "a"), node(&net, "b"));
    let (tell, asked) = channel();
    b.register_queue("queue", move |args: Value, reply| tell.send((args, reply)).expect("awaited"));
    a.notify(&To::Node("b".into()), "queue", &"no answer");
    let (args, reply) = asked.recv().expect("a notice");
    assert_eq!(args, json!("no answer"));
    reply.send(&Ok(0));
    let (done, answers) = channel();
    let answered = move |answer| done.send(answer).expect("awaited");
    a.ask(&To::Node("b".into()), "queue", &"x", SILENT, answered);
    drop(asked.recv().expect("a request").1);
    asked.recv().expect("a repeated request").1.send(&Ok(1));
    assert_eq!(answers.recv().expect("an answer"), Ok(1));
}

#[test]
fn a_node_that_is_gone_or_does_not_serve_ends_in_a_problem() {
    let net = Arc::new(Net::default());
    let (a, b) = (node(&net, "a"), node(&net, "b"));
    let gone = ask(&a, "c", Duration::from_millis(1), &mut Vec::new()).expect_err("nobody");
    assert!(gone.cause.contains("does not"), "{gone}");
    let other = ask(&a, "b", SILENT, &mut Vec::new()).expect_err("no such service");
    assert!(other.cause.contains("another version"), "{other}");
    drop(b);
}

#[test]
fn one_user_cannot_take_all_places() {
    let net = Arc::new(Net::default());
    let b = node(&net, "b");
    Echo::default().register(&b);
    let held: Vec<_> = std::iter::from_fn(|| b.room.take(7, 1).ok()).collect();
    let a = node(&net, "a");
    assert_eq!(ask(&a, "b", SILENT, &mut Vec::new()).expect_err("full").exit_code, exit::BUSY);
    let mut quiet = |_| true;
    let mut out = Responder::new(&mut quiet, Arc::default());
    let to = To::Node("b".into());
    let other = Caller { uid: 9, ..ME };
    assert!(a.call::<Value>(&to, "echo", &other, &1, SILENT, &mut out).is_ok(), "another user");
    drop(held);
    assert!(ask(&a, "b", SILENT, &mut Vec::new()).is_ok());
}

#[test]
fn whoever_waits_no_more_stops_it() {
    let net = Arc::new(Net::default());
    let (a, b) = (node(&net, "a"), node(&net, "b"));
    let ended = Arc::new(AtomicBool::new(false));
    let ends = ended.clone();
    b.register("echo", move |_, _: Value, out| {
        while out.progress(&1) {
            std::thread::sleep(Duration::from_millis(1));
        }
        ends.store(true, Ordering::Relaxed);
        Ok(())
    });
    let mut hangs_up = |_| false;
    let mut out = Responder::new(&mut hangs_up, Arc::default());
    let to = To::Node("b".into());
    assert_eq!(a.call(&to, "echo", &ME, &1, SILENT, &mut out), Ok(()), "it says that it has ended");
    // The stop does not reach the server, which ends as if it had had no request for [`SILENT`].
    ended.store(false, Ordering::Relaxed);
    net.loses.lock().push(("Stop", usize::MAX));
    let mut hangs_up = |_| false;
    let mut out = Responder::new(&mut hangs_up, Arc::default());
    let unanswered = a.call::<()>(&to, "echo", &ME, &1, SILENT, &mut out).expect_err("it goes on");
    assert_eq!(unanswered.exit_code, exit::NO_DAEMON);
    while !ended.load(Ordering::Relaxed) {
        let before = Instant::now().checked_sub(SILENT);
        b.served.lock().values_mut().for_each(|served| served.asked = before.expect("up for long enough"));
        std::thread::sleep(Duration::from_millis(1));
    }
}
