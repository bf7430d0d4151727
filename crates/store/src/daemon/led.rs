//! Commands that the leader serves, for requests to any node.

use super::Core;
use crate::calls::{Answer, SILENT, Service, To};
use crate::control::{Caller, Problem, Responder};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::{Arc, Weak};

/// Commands of one kind; `T` is the serialized request.
pub struct Led<T: 'static> {
    /// Name of the calls.
    pub name: &'static str,
    /// Whether the leader can serve them already; until then callers retry.
    pub is_ready: fn(&Core) -> bool,
    /// Serves a request on the leader, for a user of any node.
    pub serve: fn(&Arc<Core>, &Caller, T, &mut Responder<'_>) -> Answer,
}

impl<T: Serialize + DeserializeOwned> Led<T> {
    /// Serves other nodes whenever this node leads.
    pub fn register(&'static self, core: &Arc<Core>) {
        if let Some(calls) = &core.calls {
            calls.register(self.name, Arc::new(Served { core: Arc::downgrade(core), led: self }));
        }
    }

    /// Sends a request to the leader, which may be this node. Its progress goes to `out`.
    pub fn ask(&self, core: &Arc<Core>, caller: &Caller, asked: T, out: &mut Responder<'_>) -> Answer {
        match &core.calls {
            Some(calls) => calls.call(&To::Leader, self.name, caller, json!(asked), SILENT, out),
            None => (self.serve)(core, caller, asked, out),
        }
    }
}

struct Served<T: 'static> {
    core: Weak<Core>,
    led: &'static Led<T>,
}

impl<T: Serialize + DeserializeOwned> Service for Served<T> {
    fn is_here(&self) -> bool {
        self.core.upgrade().is_some_and(|core| core.acts() && (self.led.is_ready)(&core))
    }

    fn serve(&self, caller: &Caller, args: Value, out: &mut Responder<'_>) -> Answer {
        let asked = serde_json::from_value(args)
            .map_err(|error| Problem::wrong(format!("a request of another node makes no sense: {error}")))?;
        let core = self.core.upgrade().ok_or_else(|| Problem::busy("this node ends"))?;
        (self.led.serve)(&core, caller, asked, out)
    }
}
