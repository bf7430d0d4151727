//! Commands that the node that leads serves, whichever node is asked.

use super::Core;
use crate::calls::{Answer, SILENT, Service};
use crate::control::{Caller, Problem, Responder};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::{Arc, Weak};

/// Commands of one kind; `T` is what travels.
pub struct Led<T: 'static> {
    /// The name of the calls.
    pub name: &'static str,
    /// Whether the node that leads can serve them already; who asks goes on asking.
    pub is_ready: fn(&Core) -> bool,
    /// Serves one on the node that leads, on behalf of a user of any.
    pub serve: fn(&Arc<Core>, &Caller, T, &mut Responder<'_>) -> Answer,
}

impl<T: Serialize + DeserializeOwned> Led<T> {
    /// Serves other nodes from now on, whenever this one leads.
    pub fn register(&'static self, core: &Arc<Core>) {
        if let Some(calls) = &core.calls {
            calls.register(self.name, Arc::new(Served { core: Arc::downgrade(core), led: self }));
        }
    }

    /// Has the node that leads serve one, which may be this one. Its progress goes to `out`.
    pub fn ask(&self, core: &Arc<Core>, caller: &Caller, asked: T, out: &mut Responder<'_>) -> Answer {
        match &core.calls {
            Some(calls) => calls.call(&|| calls.leader(), self.name, caller, json!(asked), SILENT, out),
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
