//! Answers to HTTP requests.

use crate::access::Access;
use crate::jobs::{self, Job};
use crate::look::CachedQuery;
use crate::space::{self, Space};
use crate::{Watched, page};
use bytes::Bytes;
use engine::stats::OPEN_METRICS;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY, WWW_AUTHENTICATE,
};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use node::control::{Problem, exit};
use node::daemon::Health;
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;

/// Time that a result is reused: it bounds the work for any number of clients.
const FRESH: Duration = Duration::from_millis(500);
/// Time that a result for the dashboard is reused.
const FRESH_FOR_EYES: Duration = Duration::from_secs(1);

/// Time limit of a query; a slower one is answered as a failure.
const LOOK_MAX: Duration = Duration::from_secs(3);
/// Time limit of a query to other nodes, each of which has 3 s.
const LOOK_AROUND_MAX: Duration = Duration::from_secs(5);

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Response to a request.
pub type Answer = Response<Full<Bytes>>;

/// State from which requests are answered.
pub struct Answers {
    watched: Arc<dyn Watched>,
    access: Access,
    metrics: CachedQuery<Bytes>,
    health: CachedQuery<Health>,
    glance: CachedQuery<Result<Bytes, Problem>>,
    jobs: CachedQuery<Result<Arc<Vec<Job>>, Problem>>,
    file: CachedQuery<Result<Bytes, Problem>>,
    space: Space,
}

impl Answers {
    /// Creates the answers of a daemon, with its access control.
    pub fn new(watched: Arc<dyn Watched>, access: Access) -> Answers {
        Answers {
            watched,
            access,
            metrics: CachedQuery::new(FRESH, LOOK_MAX),
            health: CachedQuery::new(FRESH, LOOK_MAX),
            glance: CachedQuery::new(FRESH_FOR_EYES, LOOK_AROUND_MAX),
            jobs: CachedQuery::new(FRESH_FOR_EYES, LOOK_AROUND_MAX),
            file: CachedQuery::new(FRESH_FOR_EYES, LOOK_MAX),
            space: Space::new(space::EVERY),
        }
    }

    /// Answers one request.
    pub async fn to<B>(&self, request: &Request<B>) -> Answer {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            let mut answer = text_answer(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return answer;
        }
        if !self.access.is_meant(request.headers()) {
            return text_answer(
                StatusCode::MISDIRECTED_REQUEST,
                "without a token this answers to its address and localhost only\n",
            );
        }
        let is_granted = self.access.is_granted(request.headers());
        let path = request.uri().path();
        if let Some((kind, text)) = page::at(path) {
            return answer(StatusCode::OK, kind, Bytes::from_static(text.as_bytes()));
        }
        match path {
            // The health status is public; the reasons need access.
            "/healthz" => well(self.health().await, is_granted),
            _ if !is_granted => {
                let mut answer =
                    text_answer(StatusCode::UNAUTHORIZED, "this page requires the token of `token_file`\n");
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
                answer
            }
            "/metrics" => self.metrics().await,
            "/api/volume" => self.at_a_glance().await,
            // Without a token every user of the machine has access, so data of other users are not shown.
            "/api/jobs" | "/api/file" | "/api/space" if !self.access.has_token() => {
                text_answer(StatusCode::FORBIDDEN, "this page requires a token; name a `token_file` in `[endpoint]`\n")
            }
            "/api/space" => self.space(),
            "/api/jobs" => self.jobs(request.uri().query().unwrap_or_default()).await,
            "/api/file" => self.file(request.uri().query().unwrap_or_default()).await,
            _ => text_answer(
                StatusCode::NOT_FOUND,
                "there is no such page; / is the dashboard, /metrics and /healthz are for programs\n",
            ),
        }
    }

    async fn metrics(&self) -> Answer {
        let watched = self.watched.clone();
        match self.metrics.at("", move || Bytes::from(watched.metrics())).await {
            Some(text) => answer(StatusCode::OK, OPEN_METRICS, text),
            None => text_answer(StatusCode::SERVICE_UNAVAILABLE, "the daemon did not return its metrics in time\n"),
        }
    }

    async fn health(&self) -> Health {
        let watched = self.watched.clone();
        let health = self.health.at("", move || watched.health()).await;
        health
            .unwrap_or_else(|| Health { failing: vec!["the state store does not answer".into()], degraded: Vec::new() })
    }

    async fn at_a_glance(&self) -> Answer {
        let (watched, with_names) = (self.watched.clone(), self.access.has_token());
        let look = move || watched.at_a_glance(with_names);
        found(self.glance.at("", look).await, "the volume")
    }

    async fn jobs(&self, query: &str) -> Answer {
        let watched = self.watched.clone();
        let look = move || watched.jobs().map(|all| Arc::new(jobs::ordered(all)));
        let from = parameter(query, "from").and_then(|from| from.parse().ok()).unwrap_or(0);
        let find = parameter(query, "find").unwrap_or_default();
        let page = |all: Arc<Vec<Job>>| json(&jobs::page(&all, &find, from));
        found(self.jobs.at("", look).await.map(|all| all.map(page)), "the job runner")
    }

    fn space(&self) -> Answer {
        let watched = self.watched.clone();
        let shown = self.space.at(move || watched.space());
        found(Some(shown.map(|shown| json(&shown))), "the namespace")
    }

    async fn file(&self, query: &str) -> Answer {
        let Some(path) = parameter(query, "path") else {
            return text_answer(StatusCode::BAD_REQUEST, "name a file: /api/file?path=...\n");
        };
        let (watched, of) = (self.watched.clone(), path.clone());
        let look = move || watched.file(&of);
        found(self.file.at(&path, look).await, "the namespace")
    }
}

/// Returns a parameter of a query string.
fn parameter(query: &str, name: &str) -> Option<String> {
    let mut all = form_urlencoded::parse(query.as_bytes());
    all.find(|(key, _)| key == name).map(|(_, value)| value.into_owned())
}

#[derive(Serialize)]
struct Failed {
    error: String,
}

/// Serializes the body of an answer.
pub fn json(value: &impl Serialize) -> Bytes {
    Bytes::from(serde_json::to_vec(value).expect("names are strings"))
}

/// Returns the result as JSON; an error as an object with `error`.
fn found(found: Option<Result<Bytes, Problem>>, what: &str) -> Answer {
    let failed = |status, error| answer(status, JSON, json(&Failed { error }));
    match found {
        Some(Ok(text)) => answer(StatusCode::OK, JSON, text),
        Some(Err(problem)) => {
            let status = match problem.exit_code {
                exit::NOT_FOUND => StatusCode::NOT_FOUND,
                exit::WRONG_INPUT => StatusCode::BAD_REQUEST,
                exit::DENIED => StatusCode::FORBIDDEN,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            failed(status, problem.cause)
        }
        None => failed(StatusCode::SERVICE_UNAVAILABLE, format!("{what} does not answer")),
    }
}

fn well(health: Health, with_reasons: bool) -> Answer {
    let (status, word) = match (health.failing.is_empty(), health.degraded.is_empty()) {
        (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "failing"),
        (true, false) => (StatusCode::OK, "degraded"),
        (true, true) => (StatusCode::OK, "ok"),
    };
    let reasons = health.failing.into_iter().chain(health.degraded).filter(|_| with_reasons);
    text_answer(status, [word.to_owned()].into_iter().chain(reasons).map(|line| line + "\n").collect::<String>())
}

fn text_answer(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    answer(status, TEXT, text.into())
}

fn answer(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-content-type-options", HeaderValue::from_static("nosniff"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(page::POLICY));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}
