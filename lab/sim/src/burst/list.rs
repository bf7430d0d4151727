//! Applications from a list: a CSV file with a line for each class of them.
//!
//! ```text
//! name,bytes,interval_s,mtbf_s,count          as they are; `count` (1) applications of the class
//! ...,cores,...,checkpoint_frac_of_memory,...   real classes (LANL APEX): what is missing follows from nodes, memory and Daly's interval
//! ```
//! Other columns are ignored.

use super::load::Listed;
use policy::burst::advice::daly_s;
use std::collections::BTreeMap;

/// Machine from which a class's missing numbers are derived.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Cores of a node.
    pub cores_per_node: f64,
    /// Memory of a node, in bytes.
    pub memory_per_node: f64,
    /// Mean time between failures of a node, in seconds.
    pub node_mtbf_s: f64,
    /// Bytes per second at which a checkpoint is written.
    pub write: f64,
}

/// Reads a list of application classes.
///
/// # Errors
/// The line, its error, and the expected form.
pub fn read(text: &str, machine: &Machine) -> Result<Vec<Listed>, String> {
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty() && !line.starts_with('#'));
    let Some((header, _)) = lines.next() else { return Err("the list is empty".into()) };
    let columns: BTreeMap<&str, usize> = header.split(',').map(str::trim).zip(0..).collect();
    let mut listed = Vec::new();
    for (line, number) in lines {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != columns.len() {
            return Err(format!("line {number} has {} fields, the header {}", fields.len(), columns.len()));
        }
        let get = |name: &str| -> Result<Option<f64>, String> {
            let Some(text) = columns.get(name).map(|&at| fields[at]).filter(|text| !text.is_empty()) else {
                return Ok(None);
            };
            let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
            value
                .map(Some)
                .ok_or_else(|| format!("line {number}: `{name}` is \"{text}\", and must be a number above 0"))
        };
        let nodes = get("cores")?.map(|cores| (cores / machine.cores_per_node).max(1.0));
        let need = |value: Option<f64>, name: &str| {
            let mend = format!("give `{name}`, or `cores` and `checkpoint_frac_of_memory`");
            value.ok_or_else(|| format!("line {number} has no `{name}`: {mend}"))
        };
        let of_memory =
            get("checkpoint_frac_of_memory")?.zip(nodes).map(|(share, n)| share * n * machine.memory_per_node);
        let bytes = need(get("bytes")?.or(of_memory), "bytes")?;
        let mtbf_s = need(get("mtbf_s")?.or(nodes.map(|nodes| machine.node_mtbf_s / nodes)), "mtbf_s")?;
        let interval_s = get("interval_s")?.unwrap_or_else(|| daly_s(bytes / machine.write, mtbf_s).max(1.0));
        let count = get("count")?.unwrap_or(1.0);
        if count.fract() > 0.0 || count > 10_000.0 {
            return Err(format!("line {number}: `count` is a whole number up to 10000"));
        }
        let name = columns.get("name").or(columns.get("workflow_name_inferred")).map_or("", |&at| fields[at]);
        let one = Listed { name: name.to_owned(), bytes, interval_s, mtbf_s };
        listed.extend(std::iter::repeat_n(one, count as usize));
    }
    if listed.is_empty() { Err("the list names no application".into()) } else { Ok(listed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Machine =
        Machine { cores_per_node: 16.0, memory_per_node: 32e9, node_mtbf_s: 5.0 * 365.0 * 86_400.0, write: 40e9 };

    #[test]
    fn classes_as_they_are_and_classes_of_memory() {
        let own =
            read("name,bytes,interval_s,mtbf_s,count\nwave,8e10,3600,7200,2\ntide,4e10,1800,900,\n", &MACHINE).unwrap();
        let said: Vec<_> = own.iter().map(|of| (of.name.as_str(), of.bytes, of.interval_s, of.mtbf_s)).collect();
        assert_eq!(
            said,
            [("wave", 8e10, 3600.0, 7200.0), ("wave", 8e10, 3600.0, 7200.0), ("tide", 4e10, 1800.0, 900.0)]
        );
        // The published checkpoint of EAP: 52.4 TB, 1311 s at 40 GB/s.
        let eap = read("workflow_name_inferred,cores,checkpoint_frac_of_memory\nEAP,16384,1.60\n", &MACHINE).unwrap();
        assert!((eap[0].bytes / 1e12 - 52.43).abs() < 0.01 && (eap[0].bytes / MACHINE.write - 1310.7).abs() < 0.1);
        assert!((eap[0].mtbf_s - MACHINE.node_mtbf_s / 1024.0).abs() < 1.0);
        assert!((eap[0].interval_s - daly_s(eap[0].bytes / 40e9, eap[0].mtbf_s)).abs() < 1e-6);
    }

    #[test]
    fn what_is_no_list_says_where() {
        for (text, cause) in [
            ("", "empty"),
            ("name,bytes\n", "no application"),
            ("name,bytes\na,1,2\n", "line 2 has 3 fields"),
            ("name,bytes,mtbf_s\na,many,1\n", "line 2: `bytes` is \"many\""),
            ("name,bytes,mtbf_s\na,-1,1\n", "above 0"),
            ("name,bytes\na,1\n", "has no `mtbf_s`"),
            ("name,mtbf_s\na,1\n", "has no `bytes`"),
            ("bytes,mtbf_s,count\n1,1,1.5\n", "whole number"),
        ] {
            let refused = read(text, &MACHINE).expect_err(text);
            assert!(refused.contains(cause), "{text:?}: {refused}");
        }
    }
}
