//! Links of several nodes in one process, over loopback.

use super::*;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Leases of the nodes in this process.
#[derive(Default)]
struct Volume(Mutex<HashMap<String, Contact>>);

struct OfVolume(Arc<Volume>, Mutex<Sender<(String, Packet)>>);

impl Peers for OfVolume {
    fn contact(&self, name: &str) -> Option<Contact> {
        self.0.0.lock().get(name).cloned()
    }
    fn name_of(&self, key: &str) -> Option<String> {
        self.0.0.lock().iter().find(|(_, contact)| contact.key == key).map(|(name, _)| name.clone())
    }
    fn receive(&self, from: &str, packet: Packet) {
        let _ = self.1.lock().send((from.to_owned(), packet));
    }
}

struct Running {
    links: Arc<Links>,
    received: Receiver<(String, Packet)>,
    contact: Contact,
    threads: Pool,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.links.stop();
        assert!(self.threads.stop(Duration::from_secs(20)));
    }
}

fn loopback() -> Option<SocketAddr> {
    Some(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0))
}

/// Starts a node, whose lease the volume does not have yet.
fn stranger(volume: &Arc<Volume>) -> Running {
    let keys = Keys::new().expect("a key");
    let (socket, contact) = listen(&keys, loopback()).expect("a socket");
    let (links, threads) = (Links::new(keys), Pool::new("test", 1));
    let (tell, received) = channel();
    links.start(socket, Arc::new(OfVolume(volume.clone(), Mutex::new(tell))), &threads).expect("started");
    Running { links, received, contact, threads }
}

fn node(volume: &Arc<Volume>, name: &str) -> Running {
    let node = stranger(volume);
    volume.0.lock().insert(name.to_owned(), node.contact.clone());
    node
}

fn answer(number: u64, text: impl Into<String>) -> Packet {
    Packet::Answer { number, text: text.into() }
}

/// The next packet at `to`, which `send` sends until it arrives.
fn until_received(to: &Running, send: impl Fn()) -> (String, Packet) {
    for _ in 0..200 {
        send();
        if let Ok(received) = to.received.recv_timeout(Duration::from_millis(100)) {
            return received;
        }
    }
    panic!("nothing arrives")
}

#[test]
fn packets_of_any_size_arrive_in_order_from_a_known_node() {
    let volume = Arc::new(Volume::default());
    let (a, b) = (node(&volume, "a"), node(&volume, "b"));
    let long = "ü".repeat(10 << 20);
    a.links.send("b", &answer(1, &*long));
    a.links.send("b", &answer(2, "short"));
    b.links.send("a", &answer(3, ""));
    let next = |node: &Running| node.received.recv_timeout(Duration::from_secs(20)).expect("it arrives");
    assert_eq!(next(&b), ("a".into(), answer(1, long)));
    assert_eq!(next(&b), ("a".into(), answer(2, "short")));
    assert_eq!(next(&a), ("b".into(), answer(3, "")));
    let bytes = || a.links.open.lock()["b"].queued.load(Ordering::Acquire);
    while bytes() > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// [S-430]
#[test]
fn a_stranger_reaches_no_node_and_is_reached_by_none() {
    let volume = Arc::new(Volume::default());
    let (b, other) = (node(&volume, "b"), stranger(&volume));
    // It knows the address and the key of a node, and no lease has its own key.
    other.links.send("b", &answer(1, ""));
    assert!(b.received.recv_timeout(Duration::from_millis(500)).is_err());
    // A lease has its address, and the key of another node.
    let disguised = Contact { key: Keys::new().expect("a key").public(), ..other.contact.clone() };
    volume.0.lock().insert("c".into(), disguised);
    b.links.send("c", &answer(1, ""));
    assert!(other.received.recv_timeout(Duration::from_millis(500)).is_err());
    // Once its lease is read, it is one of the nodes.
    volume.0.lock().insert("d".into(), other.contact.clone());
    assert_eq!(until_received(&b, || other.links.send("b", &answer(1, ""))).0, "d");
}

#[test]
fn a_node_that_started_again_is_reached_at_its_new_address() {
    let volume = Arc::new(Volume::default());
    let (a, b) = (node(&volume, "a"), node(&volume, "b"));
    until_received(&b, || a.links.send("b", &answer(1, "")));
    drop(b);
    let b = node(&volume, "b");
    assert_eq!(until_received(&b, || a.links.send("b", &answer(2, ""))), ("a".into(), answer(2, "")));
    assert_eq!(until_received(&a, || b.links.send("a", &answer(3, ""))).0, "b");
}

#[test]
fn garbage_and_an_address_that_does_not_answer_stop_nothing() {
    let volume = Arc::new(Volume::default());
    let (a, b) = (node(&volume, "a"), node(&volume, "b"));
    let mut client = std::net::TcpStream::connect(b.contact.addresses[0]).expect("connected");
    io::Write::write_all(&mut client, &[0; 4096]).expect("written");
    let waiting = || std::net::TcpStream::connect(b.contact.addresses[0]).expect("connected");
    let _idle: Vec<_> = (0..HANDSHAKES_MAX + 50).map(|_| waiting()).collect();
    // The first address is nobody's, the second is the node's.
    let unused = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("an address");
    let at = std::mem::replace(&mut volume.0.lock().get_mut("b").expect("known").addresses, vec![unused]);
    a.links.send("b", &answer(1, ""));
    let why = loop {
        if let Some(why) = a.links.unreachable("b") {
            break why;
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(why.contains(&unused.to_string()), "{why}");
    volume.0.lock().get_mut("b").expect("known").addresses.extend(at);
    assert_eq!(until_received(&b, || a.links.send("b", &answer(1, ""))).1, answer(1, ""));
    assert_eq!(a.links.unreachable("b"), None);
}

#[test]
fn a_queue_is_bounded() {
    let (link, mut frames) = Link::new();
    assert_eq!(link.push(vec![0; 2 * QUEUED_BYTES_MAX]), None, "one may be longer");
    assert_eq!(link.push(vec![0; 1]), None);
    assert_eq!(frames.try_recv().map(|frame| frame.len()), Ok(2 * QUEUED_BYTES_MAX));
    assert!(frames.try_recv().is_err(), "the second was lost");
    drop(frames);
    link.queued.store(0, Ordering::Release);
    assert_eq!(link.push(vec![7]), Some(vec![7]), "the link is over");
}

#[test]
fn a_node_announces_the_addresses_at_which_it_listens() {
    let keys = Keys::new().expect("a key");
    let (_socket, given) = listen(&keys, loopback()).expect("a socket");
    assert!(given.addresses.len() == 1 && given.addresses[0].ip().is_loopback());
    let (_other, all) = listen(&keys, None).expect("a socket");
    let (first, port) = (all.addresses[0], all.addresses[0].port());
    assert!(all.addresses.iter().all(|at| at.port() == port && at.ip().is_loopback() == first.ip().is_loopback()));
    let taken = listen(&keys, Some(given.addresses[0])).err().expect("it is taken").to_string();
    assert!(taken.contains(&given.addresses[0].to_string()), "{taken}");
}
