//! Commands that the leader serves, for requests to any node.

use super::Core;
use crate::calls::{Answer, SILENT, To};
use crate::control::{Caller, Problem, Responder};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

/// Commands of one kind: requests `T` with answers `R`.
pub struct Led<T: 'static, R: 'static> {
    /// Name of the calls.
    pub name: &'static str,
    /// Whether the leader can serve them already; until then callers retry.
    pub is_ready: fn(&Core) -> bool,
    /// Serves a request on the leader, for a user of any node.
    pub serve: fn(&Arc<Core>, &Caller, T, &mut Responder<'_>) -> Answer<R>,
}

impl<T: Serialize + DeserializeOwned, R: Serialize + DeserializeOwned> Led<T, R> {
    /// Serves other nodes whenever this node leads.
    pub fn register(&'static self, core: &Arc<Core>) {
        let Some(calls) = &core.calls else { return };
        let (here, core) = (Arc::downgrade(core), Arc::downgrade(core));
        let is_here = move || here.upgrade().is_some_and(|core| core.acts() && (self.is_ready)(&core));
        calls.register_where(self.name, is_here, move |caller, asked, out| {
            let core = core.upgrade().ok_or_else(|| Problem::busy("this node ends"))?;
            (self.serve)(&core, caller, asked, out)
        });
    }

    /// Sends a request to the leader, which may be this node. Its progress goes to `out`.
    pub fn ask(&self, core: &Arc<Core>, caller: &Caller, asked: T, out: &mut Responder<'_>) -> Answer<R> {
        match &core.calls {
            Some(calls) => calls.call(&To::Leader, self.name, caller, &asked, SILENT, out),
            None => (self.serve)(core, caller, asked, out),
        }
    }
}
