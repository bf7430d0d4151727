//! Listening, with TLS or without, and a task for each connection.

use crate::Watched;
use crate::access::Access;
use crate::answers::Answers;
use crate::places::Places;
use engine::volume;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use node::control::Problem;
use object::workers::apart;
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio_rustls::TlsAcceptor;

/// Maximum of connections. Prometheus needs one, a dashboard one.
const CONNECTIONS_MAX: usize = 32;
/// Time limit of the head of a request, including the TLS handshake.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
/// Threads for queries that may hang: one for each kind of query.
const LOOKS_MAX: usize = 4;
/// Maximum size of a head.
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Longest life of a connection.
const CONNECTION_MAX: Duration = Duration::from_secs(300);
/// Pause of `accept` after an error of the system.
const PAUSE: Duration = Duration::from_millis(200);

/// A listening socket that is not served yet.
pub struct Listening {
    listener: TcpListener,
    tls: Option<TlsAcceptor>,
    access: Access,
}

/// A served address, until this is dropped.
pub struct Endpoint {
    stop: Arc<Notify>,
    thread: Option<Receiver<()>>,
}

impl Listening {
    /// Listens on the address in `volume.toml`, if there is one.
    pub fn at(config: &volume::Endpoint) -> Result<Option<Listening>, Problem> {
        let Some(address) = config.listen else { return Ok(None) };
        let access = Access::of(config.token_file.as_deref())?;
        let tls = match (&config.certificate, &config.certificate_key) {
            (Some(certificate), Some(key)) => Some(tls(certificate, key)?),
            _ => None,
        };
        let listener = TcpListener::bind(address).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listener.map_err(|error| {
            Problem::failed(format!("the endpoint cannot listen at {address}: {error}"))
                .so("the volume is not mounted")
                .try_this("give another address as `listen` in `[endpoint]`; each volume of a machine needs its own")
        })?;
        Ok(Some(Listening { listener, tls, access }))
    }

    /// Address of the listening socket.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Starts to answer requests.
    pub fn serve(self, watched: Arc<dyn Watched>) -> io::Result<Endpoint> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(LOOKS_MAX).build()?;
        let stop = Arc::new(Notify::new());
        let (listener, stops) = (self.listener, stop.clone());
        let server =
            Server { answers: Answers::new(watched, self.access), places: Places::new(CONNECTIONS_MAX), tls: self.tls };
        let thread = apart("endpoint", move || run(runtime, listener, server, &stops))?;
        Ok(Endpoint { stop, thread: Some(thread) })
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.notify_one();
        let _ = self.thread.take().map(|thread| thread.recv());
    }
}

struct Server {
    answers: Answers,
    places: Places,
    tls: Option<TlsAcceptor>,
}

fn run(runtime: Runtime, listener: TcpListener, server: Server, stops: &Notify) {
    let served = runtime.block_on(async {
        let (listener, server) = (tokio::net::TcpListener::from_std(listener)?, Arc::new(server));
        tokio::select! {
            () = accept(&listener, &server) => {}
            () = stops.notified() => {}
        }
        io::Result::Ok(())
    });
    if let Err(error) = served {
        tracing::error!("the endpoint cannot be served: {error}");
    }
    // Shutdown does not wait for a query that hangs.
    runtime.shutdown_background();
}

async fn accept(listener: &tokio::net::TcpListener, server: &Arc<Server>) {
    for number in 0.. {
        match listener.accept().await {
            Ok((stream, _)) => {
                let inside = server.clone();
                let task = tokio::spawn(async move {
                    // After the end or the time limit, the connection is over.
                    let _ = tokio::time::timeout(CONNECTION_MAX, connection(stream, &inside, number)).await;
                    inside.places.leave(number);
                });
                if !server.places.take(number, task.abort_handle()) {
                    task.abort();
                }
            }
            Err(error) => {
                tracing::warn!("the endpoint accepts no connections: {error}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(stream: tokio::net::TcpStream, server: &Arc<Server>, number: u64) {
    let Some(tls) = &server.tls else { return serve(stream, server, number).await };
    if let Ok(Ok(stream)) = tokio::time::timeout(HEAD_WITHIN, tls.accept(stream)).await {
        serve(stream, server, number).await;
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin, server: &Arc<Server>, number: u64) {
    let service = service_fn(|request| async move {
        let task = server.places.busy(number);
        let answer = server.answers.to(&request).await;
        server.places.idle(number, task);
        Ok::<_, Infallible>(answer)
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_WITHIN).max_buf_size(HEAD_BYTES_MAX);
    if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!("a connection of the endpoint: {error}");
    }
}

fn tls(certificate: &Path, key: &Path) -> Result<TlsAcceptor, Problem> {
    let wrong = |file: &Path, why: String| {
        Problem::wrong(format!("{}: {why}", file.display()))
            .so("the volume is not mounted")
            .try_this("name a certificate and its key, both PEM, in `[endpoint]`")
    };
    let text = std::fs::read(certificate).map_err(|error| wrong(certificate, error.to_string()))?;
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    let chain = chain.ok().filter(|chain| !chain.is_empty());
    let chain = chain.ok_or_else(|| wrong(certificate, "it has no certificate".into()))?;
    let text = object::host::read_secret(key).map_err(|why| wrong(key, why))?;
    let secret = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| wrong(key, "it has no key".into()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| config.with_no_client_auth().with_single_cert(chain, secret))
        .map_err(|error| wrong(certificate, error.to_string()))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}
