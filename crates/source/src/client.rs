//! The http client: that of hyper, with redirects.

use crate::connect::{BoxError, Connector};
use bytes::Bytes;
use engine::source::{Result, SourceError};
use futures_util::{Stream, TryStreamExt};
use http::header::{AUTHORIZATION, COOKIE, LOCATION, PROXY_AUTHORIZATION};
use http::uri::Scheme;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Body as _, Frame, Incoming};
use hyper_util::client::legacy;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opendal::Buffer;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Maximum of redirects per request, the same as in reqwest.
const REDIRECTS_MAX: usize = 10;

/// Header with the session token of s3.
const S3_TOKEN: &str = "x-amz-security-token";

/// Body of a request.
pub type Body = UnsyncBoxBody<Buffer, BoxError>;

/// A complete body, perhaps empty.
pub fn whole(buffer: Buffer) -> Body {
    Full::new(buffer).map_err(|never| match never {}).boxed_unsync()
}

/// A body that arrives in blocks; an error among them breaks the connection.
pub fn blocks(stream: impl Stream<Item = io::Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(stream.map_ok(|block| Frame::data(Buffer::from(block))).map_err(BoxError::from)).boxed_unsync()
}

/// More redirects than permitted.
#[derive(Debug, thiserror::Error)]
#[error("more than {REDIRECTS_MAX} redirects")]
pub struct Endless;

/// A pool of connections.
#[derive(Clone)]
pub struct Client {
    pool: legacy::Client<Connector, Body>,
    proxies: Arc<Matcher>,
    redirects: bool,
}

impl Client {
    /// Creates a client that follows redirects; nothing is sent yet. A connection may take the timeout; the caller
    /// limits the rest.
    pub fn new(timeout: Duration) -> Result<Client> {
        Client::through(Matcher::from_env(), timeout)
    }

    /// Makes the client return a redirect as the answer.
    pub fn without_redirects(self) -> Client {
        Client { redirects: false, ..self }
    }

    fn through(proxies: Matcher, timeout: Duration) -> Result<Client> {
        let proxies = Arc::new(proxies);
        let connector = Connector::new(proxies.clone(), timeout)
            .map_err(|e| SourceError::Permanent(format!("no http client: {e}")))?;
        let pool = legacy::Client::builder(TokioExecutor::new()).pool_timer(TokioTimer::new()).build(connector);
        Ok(Client { pool, proxies, redirects: true })
    }

    /// Sends a request. Follows redirects only for a request without a body.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, BoxError> {
        let (mut parts, body) = request.into_parts();
        let follow = self.redirects && body.is_end_stream();
        let mut body = Some(body);
        for _ in 0..=REDIRECTS_MAX {
            let mut request = Request::from_parts(parts.clone(), body.take().unwrap_or_else(|| whole(Buffer::new())));
            if parts.uri.scheme() == Some(&Scheme::HTTP)
                && let Some(auth) = self.proxies.intercept(&parts.uri).and_then(|proxy| proxy.basic_auth().cloned())
            {
                request.headers_mut().insert(PROXY_AUTHORIZATION, auth);
            }
            let answer = self.pool.request(request).await?;
            let Some(next) = redirect(&parts.uri, &answer).filter(|_| follow) else { return Ok(answer) };
            // Credentials for one server are not sent to another.
            if (next.scheme(), next.authority()) != (parts.uri.scheme(), parts.uri.authority()) {
                parts.headers.remove(AUTHORIZATION);
                parts.headers.remove(COOKIE);
                parts.headers.remove(S3_TOKEN);
            }
            if answer.status() == StatusCode::SEE_OTHER && parts.method != Method::HEAD {
                parts.method = Method::GET;
            }
            parts.uri = next;
        }
        Err(Endless.into())
    }
}

/// Target of a redirect.
fn redirect(from: &Uri, answer: &Response<Incoming>) -> Option<Uri> {
    if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return None;
    }
    let to = answer.headers().get(LOCATION)?.to_str().ok()?;
    let to = url::Url::parse(&from.to_string()).ok()?.join(to).ok()?;
    matches!(to.scheme(), "http" | "https").then(|| to.as_str().parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Runtime;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc::{Receiver, channel};

    const PATIENCE: Duration = Duration::from_secs(20);

    /// A server that answers each request with `answer` of its path, and forwards the requests to the receiver.
    fn server(answer: impl Fn(&str) -> String + Send + 'static) -> (String, Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let authority = listener.local_addr().expect("address").to_string();
        let (received, receiver) = channel();
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
                let lines = reader.by_ref().lines().map_while(Result::ok).take_while(|line| !line.is_empty());
                let mut lines: Vec<String> = lines.collect();
                let len =
                    lines.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
                let mut body = vec![0; len.unwrap_or(0)];
                reader.read_exact(&mut body).expect("a body");
                lines.push(String::from_utf8_lossy(&body).into_owned());
                let path = lines.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
                let (answer, _) = (answer(path), received.send(lines.join("\n")));
                let _ = write!(stream, "HTTP/1.1 {answer}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
            }
        });
        (authority, receiver)
    }

    fn get(client: &Client, uri: &str) -> Result<StatusCode, BoxError> {
        let request = Request::get(uri).header(AUTHORIZATION, "Bearer secret").header(S3_TOKEN, "a secret too");
        send(client, request.body(whole(Buffer::new()))?)
    }

    fn send(client: &Client, request: Request<Body>) -> Result<StatusCode, BoxError> {
        let runtime = Runtime::new(PATIENCE);
        let answer = runtime.wait("answer", 0, async { Ok(client.send(request).await.map(|answer| answer.status())) });
        answer.expect("in time")
    }

    #[test]
    fn a_redirect_to_another_server_takes_no_credentials_along() {
        let (other, other_heard) = server(|_| "200 OK".into());
        let away = format!("307 Away\r\nLocation: http://{other}/there");
        let (first, first_heard) = server(move |path| match path {
            "/x" => "302 Found\r\nLocation: y".into(),
            "/y" => away.clone(),
            _ => "301 Moved\r\nLocation: /round".into(),
        });
        let client = Client::new(PATIENCE).expect("client");
        assert_eq!(get(&client, &format!("http://{first}/x")).expect("answer"), StatusCode::OK);
        for path in ["/x", "/y"] {
            let received = first_heard.recv().expect("asked").to_lowercase();
            assert!(received.starts_with(&format!("get {path} ")) && received.contains("bearer secret"), "{received}");
        }
        let received = other_heard.recv().expect("asked").to_lowercase();
        assert!(received.starts_with("get /there ") && !received.contains("secret"), "{received}");
        assert!(get(&client, &format!("http://{first}/round")).expect_err("endless").is::<Endless>());
        let client = Client::new(PATIENCE).expect("client").without_redirects();
        assert_eq!(get(&client, &format!("http://{first}/x")).expect("answer"), StatusCode::FOUND);
    }

    #[test]
    fn proxies_are_asked_for_whole_uris_or_for_a_tunnel() {
        let (proxy, received) =
            server(|path| if path.starts_with("http:") { "200 OK".into() } else { "403 No".into() });
        let proxies = || Matcher::builder().all(format!("http://user:word@{proxy}")).no("near.invalid").build();
        let client = Client::through(proxies(), PATIENCE).expect("client");
        assert_eq!(get(&client, "http://far.invalid/x").expect("answer"), StatusCode::OK);
        let sent = received.recv().expect("asked").to_lowercase();
        assert!(sent.starts_with("get http://far.invalid/x http/1.1"), "{sent}");
        assert!(sent.contains("proxy-authorization: basic dxnlcjp3b3jk"), "user:word in base64: {sent}");
        let refused = crate::failure::of_http(get(&client, "https://far.invalid/x").expect_err("no tunnel"));
        assert!(matches!(&refused, SourceError::Passing(why) if why.contains("tunnel")), "{refused}");
        let sent = received.recv().expect("asked").to_lowercase();
        assert!(sent.starts_with("connect far.invalid:443 http/1.1"), "{sent}");
        assert!(sent.contains("proxy-authorization: basic") && !sent.contains("secret"), "{sent}");
        get(&client, "http://near.invalid/x").expect_err("there is no such server, and the proxy is not asked");
        assert!(received.try_recv().is_err());
    }

    #[test]
    fn a_body_is_sent_once_with_its_length() {
        let (server, received) = server(|_| "307 Away\r\nLocation: /elsewhere".into());
        let client = Client::new(PATIENCE).expect("client");
        let pieces = Buffer::from(vec![Bytes::from_static(b"two "), Bytes::from_static(b"pieces")]);
        let request = Request::put(format!("http://{server}/x")).body(whole(pieces)).expect("a request");
        assert_eq!(send(&client, request).expect("answer"), StatusCode::TEMPORARY_REDIRECT);
        let sent = received.recv().expect("asked");
        assert!(sent.to_lowercase().contains("content-length: 10") && sent.ends_with("two pieces"), "{sent}");
        assert!(received.try_recv().is_err());
    }
}
