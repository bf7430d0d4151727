//! Connections of the http client: the environment's proxies, and TLS with the system's roots.
//!
//! ```text
//! no proxy           tcp, or tls over tcp
//! a proxy of http    the same, to the proxy; requests name whole URIs
//! a proxy of https   tls through a tunnel (CONNECT) over the same, to the proxy
//! ```

use http::Uri;
use http::uri::Scheme;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpStream;
use tower_service::Service;

/// Silence of a connection after which keepalive probes are sent. Same as in reqwest.
const KEEPALIVE: Duration = Duration::from_secs(15);

/// Error of a connection, from hyper or from below it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Connects to a server or to the proxy before it.
#[derive(Clone)]
pub struct Connector {
    tcp: HttpConnector,
    tls: Arc<ClientConfig>,
    proxies: Arc<Matcher>,
    timeout: Duration,
}

impl Connector {
    /// Reads the system's roots; nothing is connected yet.
    pub fn new(proxies: Arc<Matcher>, timeout: Duration) -> io::Result<Connector> {
        let tls = Arc::new(ClientConfig::builder().with_native_roots()?.with_no_client_auth());
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(KEEPALIVE));
        Ok(Connector { tcp, tls, proxies, timeout })
    }

    async fn connect(self, to: Uri) -> Result<Wire, BoxError> {
        let mut direct = HttpsConnector::from((self.tcp, self.tls.clone()));
        let Some(proxy) = self.proxies.intercept(&to) else {
            return Ok(Wire { stream: MaybeHttpsStream::Http(direct.call(to).await?), full_uris: false });
        };
        if to.scheme() == Some(&Scheme::HTTP) {
            let stream = MaybeHttpsStream::Http(direct.call(proxy.uri().clone()).await?);
            return Ok(Wire { stream, full_uris: true });
        }
        let mut tunnel = Tunnel::new(proxy.uri().clone(), direct);
        if let Some(auth) = proxy.basic_auth() {
            tunnel = tunnel.with_auth(auth.clone());
        }
        Ok(Wire { stream: HttpsConnector::from((tunnel, self.tls)).call(to).await?, full_uris: false })
    }
}

impl Service<Uri> for Connector {
    type Response = Wire;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Wire, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let (timeout, connected) = (self.timeout, self.clone().connect(to));
        Box::pin(async move { tokio::time::timeout(timeout, connected).await? })
    }
}

/// A connection, plain or with TLS, perhaps through a tunnel that has TLS itself.
pub struct Wire {
    stream: MaybeHttpsStream<MaybeHttpsStream<TokioIo<TcpStream>>>,
    /// The other end is a proxy that requires whole URIs.
    full_uris: bool,
}

impl Connection for Wire {
    fn connected(&self) -> Connected {
        self.stream.connected().proxy(self.full_uris)
    }
}

impl Read for Wire {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl Write for Wire {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
