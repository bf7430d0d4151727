//! Connections between nodes, for calls: TLS over TCP, made when there is something to send.
//!
//! ```text
//!   send ──> queue of the link to that node ──> frame: 4 bytes of length, a packet as JSON ──> receive, there
//!            a link is made by either node; both send on it; it ends when idle or broken
//! ```
//! A lease has the addresses and the public key of its node. One thread carries all links. A packet that finds its
//! queue full, or whose link breaks, gets lost.

use super::keys::{self, Keys};
use crate::{Error, Result};
use meta::messages::Packet;
use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrLike;
use object::workers::Pool;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{Notify, mpsc};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// Timeout of a connection to one address. A guess: the network of a cluster answers within milliseconds.
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// Timeout of the TLS handshake.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// Time without a packet after which a link ends.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Time after which unacknowledged bytes break a connection: the other host is gone.
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);
/// Maximum of concurrent handshakes of clients that connect here. A further one ends the oldest: clients that are no
/// nodes, connect and send nothing cannot exclude a node.
const HANDSHAKES_MAX: usize = 256;
/// Limits of a link's queue. One packet may exceed the bytes: the longest answers are lists of objects.
const QUEUED_MAX: usize = 1024;
const QUEUED_BYTES_MAX: usize = 64 << 20;
/// Longest packet. It has room for ten million objects of one node in a check.
const PACKET_BYTES_MAX: usize = 1 << 30;
/// Pause after the system failed to accept a connection.
const PAUSE: Duration = Duration::from_millis(200);

/// Addresses and key by which others connect to a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// Addresses at which the node listens.
    pub addresses: Vec<SocketAddr>,
    /// Its public key.
    pub key: String,
}

/// The nodes of the volume, as links need them.
pub(super) trait Peers: Send + Sync {
    /// Returns how to connect to the node of that name, if its lease was read.
    fn contact(&self, name: &str) -> Option<Contact>;
    /// Returns the name of the node with that public key, if its lease was read.
    fn name_of(&self, key: &str) -> Option<String>;
    /// Handles a packet of the node of that name. It must not block.
    fn receive(&self, from: &str, packet: Packet);
}

/// The sending half of a link: its queue, and the bytes in it.
#[derive(Clone)]
struct Link {
    queue: mpsc::Sender<Vec<u8>>,
    queued: Arc<AtomicUsize>,
}

impl Link {
    fn new() -> (Link, mpsc::Receiver<Vec<u8>>) {
        let (queue, frames) = mpsc::channel(QUEUED_MAX);
        (Link { queue, queued: Arc::default() }, frames)
    }

    /// Queues a frame, or loses it if the queue is full. Returns it if the link is over.
    fn push(&self, frame: Vec<u8>) -> Option<Vec<u8>> {
        let len = frame.len();
        let before = self.queued.fetch_add(len, Ordering::AcqRel);
        let lost = match before > 0 && before + len > QUEUED_BYTES_MAX {
            true => None,
            false => match self.queue.try_send(frame) {
                Ok(()) => return None,
                Err(TrySendError::Full(_)) => None,
                Err(TrySendError::Closed(frame)) => Some(frame),
            },
        };
        self.queued.fetch_sub(len, Ordering::AcqRel);
        lost
    }
}

/// The links of this node.
pub(super) struct Links {
    keys: Keys,
    handle: OnceLock<Handle>,
    peers: OnceLock<Arc<dyn Peers>>,
    open: Mutex<HashMap<String, Link>>,
    /// Reasons why nodes cannot be reached, by their names.
    unreachable: Mutex<HashMap<String, String>>,
    ends: Notify,
}

/// A socket at which other nodes can connect, not served yet.
pub(super) struct Socket(std::net::TcpListener);

/// Listens at the configured address, or at all addresses and any port. Returns how others connect.
pub(super) fn listen(keys: &Keys, at: Option<SocketAddr>) -> Result<(Socket, Contact)> {
    let all = [IpAddr::from(Ipv6Addr::UNSPECIFIED), Ipv4Addr::UNSPECIFIED.into()].map(|ip| SocketAddr::new(ip, 0));
    let wanted = at.map_or(all.to_vec(), |at| vec![at]);
    let bound = std::net::TcpListener::bind(&wanted[..]).and_then(|socket| {
        socket.set_nonblocking(true)?;
        let here = socket.local_addr()?;
        let ips = if here.ip().is_unspecified() { ips_of_this_host(here.is_ipv4())? } else { vec![here.ip()] };
        Ok((Socket(socket), ips.into_iter().map(|ip| SocketAddr::new(ip, here.port())).collect()))
    });
    let (socket, addresses) = bound.map_err(|error| {
        let shown = at.map_or("any port".into(), |at| at.to_string());
        Error::State(format!("other nodes cannot connect to this one at {shown} (`nodes_listen`): {error}"))
    })?;
    Ok((socket, Contact { addresses, key: keys.public() }))
}

/// Addresses of this host's interfaces; loopback only if there is no other.
fn ips_of_this_host(only_v4: bool) -> io::Result<Vec<IpAddr>> {
    let ip = |address: nix::sys::socket::SockaddrStorage| match address.family()? {
        nix::sys::socket::AddressFamily::Inet => Some(IpAddr::from(address.as_sockaddr_in()?.ip())),
        nix::sys::socket::AddressFamily::Inet6 if !only_v4 => Some(address.as_sockaddr_in6()?.ip().into()),
        _ => None,
    };
    let is_usable = |ip: &IpAddr| !matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
    let found = getifaddrs()?.filter_map(|interface| ip(interface.address?)).filter(is_usable);
    let (loopback, others): (BTreeSet<_>, BTreeSet<_>) = found.partition(IpAddr::is_loopback);
    Ok(if others.is_empty() { loopback } else { others }.into_iter().collect())
}

impl Links {
    pub fn new(keys: Keys) -> Arc<Links> {
        let (handle, peers) = (OnceLock::new(), OnceLock::new());
        let (open, unreachable) = (Mutex::default(), Mutex::default());
        Arc::new(Links { keys, handle, peers, open, unreachable, ends: Notify::new() })
    }

    /// Accepts and makes links from now on.
    pub fn start(self: &Arc<Links>, socket: Socket, peers: Arc<dyn Peers>, threads: &Pool) -> Result<()> {
        let known = Arc::downgrade(&peers);
        let is_known = move |key: &str| known.upgrade().is_some_and(|peers| peers.name_of(key).is_some());
        let acceptor = TlsAcceptor::from(Arc::new(self.keys.server(is_known)?));
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let failed = |error| Error::State(format!("no connections between nodes: {error}"));
        let runtime = runtime.map_err(failed)?;
        drop((self.peers.set(peers), self.handle.set(runtime.handle().clone())));
        let links = self.clone();
        let serve = move || {
            let accepts = async {
                tokio::select! {
                    ended = links.accept(socket, acceptor) => ended,
                    () = links.ends.notified() => Ok(()),
                }
            };
            if let Err(error) = runtime.block_on(accepts) {
                tracing::error!("other nodes cannot connect to this one: {error}");
            }
        };
        threads.push(serve).map_err(failed)
    }

    /// Ends all links.
    pub fn stop(&self) {
        self.ends.notify_one();
    }

    /// Sends a packet to the node of that name.
    pub fn send(self: &Arc<Links>, to: &str, packet: &Packet) {
        let mut frame = vec![0; 4];
        serde_json::to_writer(&mut frame, packet).expect("numbers and texts");
        let len = frame.len() - 4;
        if len > PACKET_BYTES_MAX {
            return tracing::error!("a message of {len} bytes to another node is too long, and is not sent");
        }
        frame[..4].copy_from_slice(&(len as u32).to_be_bytes());
        let mut open = self.open.lock();
        let unsent = match open.get(to) {
            Some(link) => link.push(frame),
            None => Some(frame),
        };
        if let Some(frame) = unsent
            && let Some(link) = self.dial(to)
        {
            open.retain(|_, link| !link.queue.is_closed());
            drop(link.push(frame));
            open.insert(to.to_owned(), link);
        }
    }

    /// Starts to connect to a node. `None` before the start.
    fn dial(self: &Arc<Links>, to: &str) -> Option<Link> {
        let (link, frames) = Link::new();
        let (links, to, queued) = (self.clone(), to.to_owned(), link.queued.clone());
        self.handle.get()?.spawn(async move {
            let stream = match links.connect(&to).await {
                Ok(stream) => stream,
                Err(error) => return links.cannot_reach(&to, &error),
            };
            links.unreachable.lock().remove(&to);
            let carried = links.carry(&to, stream, frames, &queued).await;
            carried.unwrap_or_else(|error| tracing::debug!("the connection to node {to} is over: {error}"));
        });
        Some(link)
    }

    /// Records why a node cannot be reached, and logs it once.
    fn cannot_reach(&self, to: &str, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            return tracing::debug!("node {to} cannot be reached yet: {error}");
        }
        if self.unreachable.lock().insert(to.to_owned(), error.to_string()).is_none() {
            tracing::warn!("another node cannot be reached, so requests to it wait: {error}");
        }
    }

    /// Reason why the last attempt to connect to a node failed.
    pub fn unreachable(&self, to: &str) -> Option<String> {
        self.unreachable.lock().get(to).cloned()
    }

    async fn connect(&self, to: &str) -> io::Result<impl AsyncRead + AsyncWrite + use<>> {
        let contact = self.peers.get().and_then(|peers| peers.contact(to));
        let contact = contact.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "its lease was not read yet"))?;
        let tls = TlsConnector::from(Arc::new(self.keys.client(&contact.key).map_err(io::Error::other)?));
        let mut failed = Vec::new();
        for address in contact.addresses {
            let connect = async {
                let stream = within(CONNECT_MAX, TcpStream::connect(address)).await?;
                prepare(&stream)?;
                within(HANDSHAKE_MAX, tls.connect(ServerName::from(address.ip()), stream)).await
            };
            match connect.await {
                Ok(stream) => return Ok(stream),
                Err(error) => failed.push(format!("{address}: {error}")),
            }
        }
        Err(io::Error::other(failed.join(", ")))
    }

    async fn accept(self: &Arc<Links>, socket: Socket, acceptor: TlsAcceptor) -> io::Result<()> {
        let listener = TcpListener::from_std(socket.0)?;
        let mut handshakes = VecDeque::new();
        loop {
            let Ok((stream, from)) = listener.accept().await else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            if handshakes.len() == HANDSHAKES_MAX {
                handshakes.pop_front().iter().for_each(AbortHandle::abort);
            }
            let (links, acceptor) = (self.clone(), acceptor.clone());
            let handshake = async move {
                let accepted = async {
                    prepare(&stream)?;
                    within(HANDSHAKE_MAX, acceptor.accept(stream)).await
                };
                match accepted.await {
                    Ok(stream) => drop(tokio::spawn(links.welcome(stream))),
                    Err(error) => tracing::debug!("a connection from {from} is refused: {error}"),
                }
            };
            handshakes.push_back(tokio::spawn(handshake).abort_handle());
        }
    }

    /// Carries a link that another node has made.
    async fn welcome(self: Arc<Links>, stream: TlsStream<TcpStream>) {
        let key = stream.get_ref().1.peer_certificates().and_then(|keys| keys.first()).map(|key| keys::text(key));
        let Some(name) = key.and_then(|key| self.peers.get()?.name_of(&key)) else { return };
        let (link, frames) = Link::new();
        self.offer(&name, &link);
        let carried = self.carry(&name, stream, frames, &link.queued).await;
        carried.unwrap_or_else(|error| tracing::debug!("the connection from node {name} is over: {error}"));
    }

    /// Sends by this link from now on, unless another link to the node is open.
    fn offer(&self, name: &str, link: &Link) {
        let mut open = self.open.lock();
        if open.get(name).is_none_or(|open| open.queue.is_closed()) {
            open.insert(name.to_owned(), link.clone());
        }
    }

    /// Sends the frames of the queue, and receives packets, until the link is idle or breaks.
    async fn carry(
        &self,
        name: &str,
        stream: impl AsyncRead + AsyncWrite,
        mut frames: mpsc::Receiver<Vec<u8>>,
        queued: &AtomicUsize,
    ) -> io::Result<()> {
        let (mut read, mut write) = tokio::io::split(stream);
        let is_used = AtomicBool::new(true);
        let sends = async {
            while let Some(frame) = frames.recv().await {
                write.write_all(&frame).await?;
                write.flush().await?;
                queued.fetch_sub(frame.len(), Ordering::AcqRel);
                is_used.store(true, Ordering::Release);
            }
            Ok(())
        };
        let receives = async {
            loop {
                let len = read.read_u32().await? as usize;
                if len > PACKET_BYTES_MAX {
                    return Err(io::Error::other("it sends a packet that is too long"));
                }
                let mut packet = Vec::new();
                (&mut read).take(len as u64).read_to_end(&mut packet).await?;
                is_used.store(true, Ordering::Release);
                match (packet.len() == len, serde_json::from_slice(&packet)) {
                    (false, _) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    (true, Ok(packet)) => self.peers.get().expect("set at the start").receive(name, packet),
                    (true, Err(error)) => tracing::debug!("a packet of node {name} is ignored: {error}"),
                }
            }
        };
        let idles = async {
            while is_used.swap(false, Ordering::AcqRel) {
                tokio::time::sleep(IDLE_MAX).await;
            }
            Ok(())
        };
        tokio::select! {
            over = sends => over,
            over = receives => over,
            over = idles => over,
        }
    }
}

async fn within<T>(limit: Duration, work: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    timeout(limit, work).await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// Has the kernel send small packets at once, and break a connection to a host that is gone.
fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let milliseconds = UNACKNOWLEDGED_MAX.as_millis() as u32;
    Ok(rustix::net::sockopt::set_tcp_user_timeout(stream, milliseconds)?)
}

#[cfg(test)]
mod tests;
