//! What is answered to which request.

use crate::Watched;
use crate::access::Access;
use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};
use store::daemon::Health;
use store::stats::OPEN_METRICS;

/// What was looked at is shown for so long: however many ask, looks are bounded.
const FRESH: Duration = Duration::from_millis(500);
/// A look that takes longer is itself the answer.
const LOOK_MAX: Duration = Duration::from_secs(3);

const TEXT: &str = "text/plain; charset=utf-8";
const INDEX: &str = "/metrics   all metrics, for Prometheus\n/healthz   whether the daemon is well\n";

/// An answer.
pub type Answer = Response<Full<Bytes>>;

/// What is answered.
pub struct Answers {
    watched: Arc<dyn Watched>,
    access: Access,
    metrics: Mutex<Option<(Instant, Bytes)>>,
    health: tokio::sync::Mutex<Option<(Instant, Health)>>,
}

impl Answers {
    /// About that daemon, to those who may watch it.
    pub fn new(watched: Arc<dyn Watched>, access: Access) -> Answers {
        Answers { watched, access, metrics: Mutex::default(), health: tokio::sync::Mutex::default() }
    }

    /// To one request.
    pub async fn to<B>(&self, request: &Request<B>) -> Answer {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = said(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        let is_granted = self.access.is_granted(request.headers());
        match request.uri().path() {
            // Whether it serves is said to everybody, why not only to those who may watch.
            "/healthz" => well(self.health().await, is_granted),
            _ if !is_granted => {
                let mut answer = said(StatusCode::UNAUTHORIZED, "this takes the token of `token_file`\n");
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                answer
            }
            "/metrics" => answer(StatusCode::OK, OPEN_METRICS, self.metrics()),
            "/" => said(StatusCode::OK, INDEX),
            _ => said(StatusCode::NOT_FOUND, "there is no such page; / lists them\n"),
        }
    }

    fn metrics(&self) -> Bytes {
        let mut kept = self.metrics.lock();
        if let Some((_, text)) = kept.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return text.clone();
        }
        let text = Bytes::from(self.watched.metrics());
        *kept = Some((Instant::now(), text.clone()));
        text
    }

    /// One look at a time; who comes meanwhile waits for it.
    async fn health(&self) -> Health {
        let mut kept = self.health.lock().await;
        if let Some((_, health)) = kept.as_ref().filter(|(at, _)| at.elapsed() < FRESH) {
            return health.clone();
        }
        let watched = self.watched.clone();
        let look = tokio::task::spawn_blocking(move || watched.health());
        let health = match tokio::time::timeout(LOOK_MAX, look).await {
            Ok(Ok(health)) => health,
            _ => Health { failing: vec!["the store of the state does not answer".into()], degraded: Vec::new() },
        };
        *kept = Some((Instant::now(), health.clone()));
        health
    }
}

fn well(health: Health, with_reasons: bool) -> Answer {
    let (status, word) = match (health.failing.is_empty(), health.degraded.is_empty()) {
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
        (true, false) => (StatusCode::OK, "degraded"),
        (true, true) => (StatusCode::OK, "ok"),
    };
    let reasons = health.failing.into_iter().chain(health.degraded).filter(|_| with_reasons);
    said(status, [word.to_owned()].into_iter().chain(reasons).map(|line| line + "\n").collect::<String>())
}

fn said(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(status, TEXT, text.into())
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    answer
}
