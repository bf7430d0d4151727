//! A real browser without a window, controlled over a pipe (Chrome DevTools Protocol: JSON objects, each ended by a
//! zero).
//!
//! It connects to this machine only.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Time limit of a step, for a busy machine.
const STEP_MAX: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(20);

/// A browser with one page.
pub struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    last: u64,
    session: String,
    /// Requests and complaints of the page.
    pub asked: Vec<String>,
    pub complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Starts a browser; `None` where none is installed.
    pub fn start() -> Option<Browser> {
        let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
        let Some(name) = ["chromium", "chromium-browser", "google-chrome"].into_iter().find(is_there) else {
            println!("skipped: no Chromium here");
            return None;
        };
        let profile = tempfile::tempdir().expect("dir");
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1", name]);
        command.args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]);
        command.args(["--disable-background-networking", "--disable-component-update", "--no-proxy-server"]);
        command.arg("--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1");
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.args(["--remote-debugging-pipe", "about:blank"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a shell");
        let (to, out) = (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
        let (told, from) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(out).split(0) {
                let Ok(line) = line else { return };
                let _ = told.send(serde_json::from_slice(&line).unwrap_or_default());
            }
        });
        let (asked, complaints) = (Vec::new(), Vec::new());
        let mut browser =
            Browser { child, to, from, last: 0, session: String::new(), asked, complaints, _profile: profile };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let of = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", of)["sessionId"].as_str().expect("a session").to_owned();
        browser.session = session;
        for part in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{part}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and returns its answer.
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": params});
        if !self.session.is_empty() {
            request["sessionId"] = json!(self.session);
        }
        write!(self.to, "{request}\0").and_then(|()| self.to.flush()).expect("the browser runs");
        let until = Instant::now() + STEP_MAX;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let mut told = self.from.recv_timeout(left).unwrap_or_else(|_| panic!("no answer to {method}"));
            if told["id"] == self.last {
                assert!(told["error"].is_null(), "{method}: {}", told["error"]);
                return told["result"].take();
            }
            self.hear(&told);
        }
    }

    fn hear(&mut self, told: &Value) {
        let params = &told["params"];
        match told["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                self.asked.push(params["request"]["url"].as_str().unwrap_or_default().to_owned());
            }
            "Runtime.exceptionThrown" => self.complaints.push(params["exceptionDetails"].to_string()),
            // Failed requests are logged by the browser itself.
            "Log.entryAdded" if params["entry"]["source"] != "network" => {
                self.complaints.push(params["entry"].to_string());
            }
            _ => {}
        }
    }

    /// Opens a page.
    pub fn open(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": url}));
    }

    /// Evaluates an expression in the page.
    pub fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        self.call("Runtime.evaluate", asked)["result"]["value"].take()
    }

    /// Waits until an expression holds.
    pub fn until(&mut self, expression: &str) {
        let until = Instant::now() + STEP_MAX;
        // The page may not be there yet: then the expression throws.
        let guarded = format!("(() => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }})()");
        while self.value(&guarded) != true {
            let body = || "document.body.innerText.slice(0, 2000)".to_owned();
            if Instant::now() > until {
                panic!("never: {expression}; the page: {}", self.value(&body()));
            }
            std::thread::sleep(POLL);
        }
    }

    /// Returns the text of an element.
    pub fn text(&mut self, id: &str) -> String {
        self.value(&format!("document.getElementById('{id}').innerText")).as_str().unwrap_or_default().to_owned()
    }

    /// Types into the focused element.
    pub fn type_in(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses a key: `Tab` or `Enter`.
    pub fn press(&mut self, key: &str) {
        let (code, text) = if key == "Enter" { (13, "\r") } else { (9, "") };
        let with = |kind: &str| json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": if kind == "keyDown" { text } else { "" }});
        self.call("Input.dispatchKeyEvent", with("keyDown"));
        self.call("Input.dispatchKeyEvent", with("keyUp"));
    }

    /// Sets the width of the page, and light or dark.
    pub fn look(&mut self, width: u32, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", scheme);
    }

    /// Returns what a screen reader gets: role and name of each node that is not ignored.
    pub fn read_out(&mut self) -> Vec<(String, String)> {
        let tree = self.call("Accessibility.getFullAXTree", json!({}));
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let nodes = tree["nodes"].as_array().cloned().unwrap_or_default();
        nodes
            .iter()
            .filter(|node| node["ignored"] != true)
            .map(|node| (text(&node["role"]), text(&node["name"])))
            .collect()
    }
}
