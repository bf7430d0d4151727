//! A file that one host replaces by another, again and again, while the others open it: what they find is whole;
//! whether they find it is measured, since volumes are no better.

use crate::agent::Call;
use crate::hosts::{LOCAL, hosts};
use crate::real::until;
use crate::saves::{How, Orders, Report};
use std::time::Duration;

#[test]
fn a_file_that_is_replaced_is_whole() {
    let Some(hosts) = hosts() else { return };
    let (mut agents, dir) = (hosts.agents(), hosts.directory("replaced"));
    let orders =
        Orders { path: format!("{dir}/file"), last: 0, stop: format!("{LOCAL}/replaced.stop"), how: How::Synced };
    agents[0].begin(&Call::Save(orders.clone()));
    until("it is there", || agents[1].call(Call::Size { path: orders.path.clone() }).result.is_ok());
    agents[1].begin(&Call::Load(orders.clone()));
    agents[2].begin(&Call::Load(orders.clone()));
    std::thread::sleep(Duration::from_secs(1));
    for host in &hosts.hosts {
        std::fs::write(host.path(&orders.stop), "").expect("told");
    }
    let reports: Vec<Report> =
        agents.iter().map(|agent| serde_json::from_value(agent.end().ok()).expect("a report")).collect();
    assert!(reports[0].errors.is_empty(), "{:?}", reports[0].errors);
    for read in &reports[1..] {
        println!("replaced {} times: {} loads, errors {:?}", reports[0].done, read.done, read.errors);
        assert!(read.wrong.is_empty(), "{:?}", read.wrong);
    }
}
