//! The steps of a node for one file: which one is next, and what its answer means.

use super::file::{Claiming, File, Find, Lowered, Purpose, Stage, Task};
use super::{Action, Answer, Created, Holder, Mode, Request, Step, Use};
use crate::time::Time;

impl Holder {
    /// Begins the next step of a file, if none is under way.
    pub(super) fn file_goes_on(&mut self, now: Time, key: u64) {
        let Some(file) = self.files.get_mut(&key) else { return };
        if file.pending || file.retry.is_some_and(|retry| now < retry) {
            return;
        }
        file.retry = None;
        if file.task == Task::Idle {
            self.choose(now, key);
        }
        let Some(file) = self.files.get(&key) else { return };
        let task = file.task;
        if let Some(request) = request(key, file) {
            if self.session.is_registered() {
                let caller = self.session.caller(self.node);
                self.actions.push_back(Action::Ask { key: Some(key), caller, request });
                self.file(key).pending = true;
            }
        } else if let Some(step) = step(task) {
            self.file(key).pending = true;
            self.actions.push_back(Action::Step { key, step });
        }
    }

    fn choose(&mut self, now: Time, key: u64) {
        let reachable = self.session.is_registered();
        let caches = self.session.caches(&self.config, now);
        let lapsed = self.session.has_surely_lapsed(&self.config, now);
        let number = self.number();
        let Some(file) = self.files.get_mut(&key) else { return };
        if file.owes.is_some() && reachable {
            file.task = Task::Lower;
            return;
        }
        file.end_first_use(now);
        if let Some(to) = file.lowers() {
            file.blocked = true;
            file.task = Task::Drain(to);
            return;
        }
        file.drop_recall();
        for usage in file.wants.clone() {
            if file.permit(usage).is_some() {
                file.wants.remove(&usage);
                file.offered(now + self.config.retry);
                self.actions.push_back(Action::Ready { key, usage });
                continue;
            }
            file.task = task_for(file, usage, Reach { reachable, caches, lapsed }, number);
            if file.task != Task::Idle {
                return;
            }
        }
    }

    /// The store has answered a request for a file.
    pub(super) fn answered(&mut self, now: Time, key: u64, answer: Answer) {
        let caches = self.session.caches(&self.config, now);
        let (pause, settle_again) = (self.config.retry, self.config.renew_every);
        let file = self.file(key);
        file.pending = false;
        let task = file.task;
        match answer {
            Answer::OtherRun => {
                file.forget_step();
                self.disconnected();
            }
            Answer::Unregistered => {
                file.forget_step();
                self.register_again();
            }
            Answer::Closed | Answer::Claimed(_) | Answer::Lapsed(_) | Answer::Recall { .. } => {
                let recalls = file.refused(now, pause);
                let granted = matches!(answer, Answer::Recall { .. });
                file.task = match task {
                    Task::Claim(Stage::Ask, claiming) if granted || claiming.granted => {
                        Task::Claim(Stage::Ask, Claiming { granted: true, ..claiming })
                    }
                    Task::Take(_) if granted => task,
                    Task::Claim(stage, _) if stage != Stage::Ask => task,
                    _ => Task::Idle,
                };
                match answer {
                    Answer::Claimed(node) | Answer::Lapsed(node) => self.lapsed(node),
                    Answer::Recall { nodes, mode } if recalls => self.recall(key, nodes, mode),
                    _ => {}
                }
            }
            Answer::Granted { mode, generation, newest, unheld } => {
                file.accepted();
                file.task = match task {
                    Task::Admit { number, .. } | Task::Take(number) => {
                        file.granted(mode, number, (generation, newest), caches);
                        if unheld && generation == 0 {
                            file.was_unheld(now);
                        }
                        Task::Idle
                    }
                    Task::Claim(Stage::Finish, claiming) => {
                        file.granted(mode, claiming.number, (generation, newest), caches);
                        Task::Claim(Stage::Tidy, claiming)
                    }
                    task => task,
                };
                self.last += 1;
            }
            Answer::Unsettled => {
                file.accepted();
                file.task = Task::Find(start(file), Purpose::Settle);
            }
            Answer::Drained { unsettled } => {
                file.accepted();
                if let Task::Claim(_, claiming) = task {
                    let claiming = Claiming { granted: true, unsettled, ..claiming };
                    // A node that held the file since it found the generation knows that no other was claimed.
                    let known = file.layout.is_some_and(|generation| generation + 1 == claiming.generation);
                    file.blocked = true;
                    file.task = match known {
                        true => Task::Claim(Stage::Drain, claiming),
                        false => Task::Check(Find::Pointer, claiming),
                    };
                    self.last += 1;
                }
            }
            Answer::Done | Answer::Session { .. } => carried_out(file, now + settle_again),
        }
    }

    /// A record was looked for.
    pub(super) fn found(&mut self, now: Time, key: u64, found: Option<(u64, u64)>) {
        let retry = Some(now + self.config.retry);
        let file = self.file(key);
        file.pending = false;
        let (Task::Find(find, _) | Task::Check(find, _)) = file.task else { return };
        file.newest = false;
        let next = match (find, found) {
            (Find::Newest(generation), Some(_)) => return self.newest(now, key, generation),
            // Another file had this inode number.
            (Find::Newest(_), None) => Find::Pointer,
            (Find::Pointer, None) => Find::Next(0),
            (Find::Pointer, Some((generation, stamp))) => Find::Base(generation, Some(stamp)),
            // The record of another publication under this name came late.
            (Find::Base(generation, Some(stamp)), Some((_, other))) if stamp != other => Find::List(generation),
            (Find::Base(generation, _), Some(_)) => Find::Next(generation),
            (Find::Base(generation, _), None) => Find::List(generation),
            (Find::Next(_), Some((generation, _))) => Find::Next(generation),
            (Find::Next(generation), None) => return self.newest(now, key, generation),
            (Find::List(above), Some((generation, _))) if generation > above => Find::Base(generation, None),
            (Find::List(above), _) => {
                file.retry = retry;
                Find::List(above)
            }
        };
        file.task = match file.task {
            Task::Check(_, claiming) => Task::Check(next, claiming),
            Task::Find(_, purpose) => Task::Find(next, purpose),
            task => task,
        };
    }

    /// The newest generation is known.
    fn newest(&mut self, now: Time, key: u64, generation: u64) {
        let lapsed = self.session.has_surely_lapsed(&self.config, now);
        let number = self.number();
        let file = self.file(key);
        let purpose = match file.task {
            Task::Find(_, purpose) => purpose,
            Task::Check(_, claiming) if generation + 1 == claiming.generation => {
                file.task = Task::Claim(Stage::Drain, claiming);
                return;
            }
            Task::Check(_, claiming) => {
                // Another node has published since: the claim is too old.
                file.blocked = false;
                file.task = Task::Claim(Stage::Finish, Claiming { newest: generation, ..claiming });
                return;
            }
            _ => return,
        };
        file.task = match purpose {
            Purpose::Hold => {
                file.layout = file.hold.filter(|hold| hold.mode > Mode::Open).map(|_| generation);
                Task::Idle
            }
            Purpose::Provisional if lapsed => Task::Fence(generation + 1),
            Purpose::Provisional => Task::Idle,
            Purpose::Settle | Purpose::Change => claim(purpose, number, generation + 1),
        };
    }

    /// A record exists.
    pub(super) fn published(&mut self, now: Time, key: u64, created: Created) {
        let lapsed = self.session.has_surely_lapsed(&self.config, now);
        let number = self.number();
        let made = !matches!(created, Created::Exists { mine: false });
        let file = self.file(key);
        file.pending = false;
        match file.task {
            Task::Fence(generation) => {
                file.task = Task::Idle;
                if made && lapsed {
                    file.granted_provisionally(number, generation);
                    self.last += 1;
                }
            }
            Task::Claim(Stage::Publish, claiming) => {
                let changes = claiming.purpose == Purpose::Change;
                let settled = made && (!claiming.unsettled || claiming.settled);
                let stage = if made { Stage::Point } else { Stage::Finish };
                file.task = Task::Claim(stage, Claiming { made, settled, newest: claiming.generation, ..claiming });
                file.layout = file.layout.filter(|_| made).map(|_| claiming.generation);
                file.blocked = false;
                if made && changes {
                    file.wants.remove(&Use::Change);
                    self.ready(key, Use::Change);
                }
            }
            _ => {}
        }
    }

    /// A step has ended.
    pub(super) fn done(&mut self, now: Time, key: u64, done: bool) {
        let retry = Some(now + self.config.retry);
        let file = self.file(key);
        file.pending = false;
        let writes = file.hold.is_some_and(|hold| matches!(hold.mode, Mode::Write | Mode::Exclusive));
        file.task = match file.task {
            Task::Drain(to) if writes => Task::Settle(to),
            Task::Drain(to) | Task::Settle(to) if done => {
                file.lower(to);
                Task::Idle
            }
            Task::Whole if done => Task::Find(Find::Pointer, Purpose::Provisional),
            Task::Claim(stage, claiming) => match next_stage(stage, claiming, writes, done) {
                Some((stage, claiming)) => {
                    file.blocked &= !claiming.gives_up;
                    Task::Claim(stage, claiming)
                }
                None => Task::Idle,
            },
            Task::Whole => {
                file.retry = retry;
                Task::Idle
            }
            task => {
                file.retry = retry;
                task
            }
        };
    }
}

/// The table has carried out a request without a result. A settlement that this node gave up is not tried before `again`.
fn carried_out(file: &mut File, again: Time) {
    match std::mem::take(&mut file.task) {
        Task::Claim(Stage::Finish, claiming) if claiming.made => file.task = Task::Claim(Stage::Tidy, claiming),
        Task::Claim(Stage::Finish, claiming) if claiming.gives_up => file.retry = Some(again),
        Task::Lower => file.owes = None,
        _ => {}
    }
}

fn claim(purpose: Purpose, number: u64, generation: u64) -> Task {
    let claiming = Claiming {
        purpose,
        number,
        generation,
        granted: false,
        unsettled: false,
        settled: false,
        gives_up: false,
        changed: false,
        made: false,
        newest: 0,
    };
    Task::Claim(Stage::Ask, claiming)
}

/// The begin of a search: the table's generation of this run, or the pointer.
fn start(file: &File) -> Find {
    match file.hint {
        generation if generation > 0 && file.newest => Find::Newest(generation),
        generation if generation > 0 && file.hold.is_some() => Find::Base(generation, None),
        _ => Find::Pointer,
    }
}

/// Relation of a node to the store.
#[derive(Clone, Copy)]
struct Reach {
    /// Requests for files can be sent.
    reachable: bool,
    /// Modes that cache may be used.
    caches: bool,
    /// The session has surely lapsed.
    lapsed: bool,
}

/// The task that leads to a use.
fn task_for(file: &File, usage: Use, reach: Reach, number: u64) -> Task {
    let Reach { reachable, caches, lapsed } = reach;
    let enough = file.serves(usage);
    match (usage, file.layout) {
        (Use::Change, Some(generation)) if reachable => claim(Purpose::Change, number, generation + 1),
        (Use::Change, None) if reachable => Task::Find(start(file), Purpose::Change),
        (Use::Change, _) => Task::Idle,
        (_, None) if enough => Task::Find(start(file), Purpose::Hold),
        (Use::Alone, _) if reachable && caches => Task::Take(number),
        (Use::Read | Use::Write | Use::Grow, _) if reachable && !enough => {
            Task::Admit { number, writes: usage != Use::Read }
        }
        (Use::Read | Use::Write, _) if lapsed && !enough => Task::Whole,
        _ => Task::Idle,
    }
}

fn request(key: u64, file: &File) -> Option<Request> {
    Some(match file.task {
        Task::Lower => {
            let Lowered { number, mode, generation } = file.owes?;
            Request::Lower { key, number, mode, generation }
        }
        Task::Admit { number, writes } => Request::Admit { key, number, writes },
        Task::Take(number) => Request::Claim { key, number, generation: 0 },
        Task::Claim(Stage::Ask, claiming) => {
            Request::Claim { key, number: claiming.number, generation: claiming.generation }
        }
        Task::Claim(Stage::Finish, claiming) => {
            let keeps = claiming.made && claiming.purpose == Purpose::Settle;
            let (number, generation) = (claiming.number, claiming.newest);
            Request::Finish { key, number, generation, settled: claiming.settled, keeps }
        }
        _ => return None,
    })
}

fn step(task: Task) -> Option<Step> {
    Some(match task {
        Task::Drain(_) | Task::Claim(Stage::Drain, _) => Step::Drain,
        Task::Settle(_) | Task::Claim(Stage::Settle, _) => Step::Settle,
        Task::Find(find, _) | Task::Check(find, _) => match find {
            Find::Pointer => Step::Pointer,
            Find::Newest(generation) => Step::Look(generation),
            Find::Base(generation, _) => Step::Look(generation),
            Find::Next(generation) => Step::Look(generation + 1),
            Find::List(_) => Step::List,
        },
        Task::Whole => Step::Whole,
        Task::Fence(generation) => Step::Publish { generation, changed: false, sealed: false },
        Task::Claim(Stage::SettleFromObjects, claiming) => Step::SettleFromObjects(claiming.generation),
        Task::Claim(Stage::Change, claiming) => Step::Change(claiming.generation),
        Task::Claim(Stage::Publish, claiming) => {
            Step::Publish { generation: claiming.generation, changed: claiming.changed, sealed: claiming.settled }
        }
        Task::Claim(Stage::Point, claiming) => Step::Point(claiming.generation),
        Task::Claim(Stage::Tidy, claiming) => Step::Tidy(claiming.generation),
        _ => return None,
    })
}

/// The stage after a step of a claim.
fn next_stage(stage: Stage, mut claiming: Claiming, writes: bool, done: bool) -> Option<(Stage, Claiming)> {
    let changes = if claiming.purpose == Purpose::Change { Stage::Change } else { Stage::Publish };
    let objects = if claiming.unsettled { Stage::SettleFromObjects } else { changes };
    let next = match stage {
        Stage::Drain if writes => Stage::Settle,
        Stage::Settle if !done => stage,
        Stage::Drain | Stage::Settle => objects,
        // The claim ends without a generation, so that a node may settle the file that reaches its objects.
        Stage::SettleFromObjects if !done => {
            (claiming.gives_up, claiming.newest) = (true, claiming.generation - 1);
            Stage::Finish
        }
        Stage::SettleFromObjects => {
            claiming.settled = true;
            changes
        }
        Stage::Change => {
            claiming.changed = done;
            Stage::Publish
        }
        Stage::Point => Stage::Finish,
        Stage::Tidy => return None,
        Stage::Ask | Stage::Publish | Stage::Finish => stage,
    };
    Some((next, claiming))
}
