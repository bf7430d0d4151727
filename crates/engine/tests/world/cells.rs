//! Possible contents of a file, cell by cell: the reference model for schedules with faults.
//!
//! A write that failed may have happened or not, for each cell; a loss of power may bring back whatever a cell held
//! since the last sync. So a cell has a set of values that a read may give.

use std::collections::BTreeSet;

/// Bytes of a cell; all of them have the same value unless a write was torn.
pub const CELL_BYTES: u64 = 512;

/// A cell of the file.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Contents that a read may return.
    pub now: Vec<u8>,
    /// Contents that it had since the last sync.
    pub since_sync: Vec<u8>,
    /// It, or the size around it, was changed since the last sync.
    pub touched: bool,
}

/// The file. Sizes are in cells.
pub struct Cells {
    pub cells: Vec<Cell>,
    pub sizes: BTreeSet<u64>,
    pub sizes_since_sync: BTreeSet<u64>,
}

fn add(values: &mut Vec<u8>, value: u8) {
    if !values.contains(&value) {
        values.push(value);
    }
}

impl Cells {
    pub fn new(count: u64) -> Cells {
        let cell = Cell { now: vec![0], since_sync: vec![0], touched: false };
        Cells { cells: vec![cell; count as usize], sizes: [0].into(), sizes_since_sync: [0].into() }
    }

    /// The size, if it is certain.
    pub fn size(&self) -> u64 {
        *self.sizes.last().expect("some size is always possible")
    }

    /// Cells `from..to` were set to `value`, or perhaps only tried to.
    pub fn set(&mut self, from: u64, to: u64, value: u8, done: bool) {
        for cell in &mut self.cells[from as usize..to as usize] {
            if done {
                cell.now.clear();
            }
            add(&mut cell.now, value);
            add(&mut cell.since_sync, value);
            cell.touched = true;
        }
    }

    /// The size became what `f` makes of it, or perhaps only tried to.
    pub fn resize(&mut self, f: impl Fn(u64) -> u64, done: bool) {
        let new: BTreeSet<u64> = self.sizes.iter().map(|s| f(*s)).collect();
        let least = *self.sizes.first().unwrap().min(new.first().unwrap());
        let most = self.size().max(*new.last().unwrap());
        self.cells[least as usize..most as usize].iter_mut().for_each(|c| c.touched = true);
        self.sizes_since_sync.extend(&new);
        if done {
            self.sizes = new;
        } else {
            self.sizes.extend(new);
        }
    }

    /// Everything acknowledged is durable.
    pub fn synced(&mut self) {
        for cell in &mut self.cells {
            cell.since_sync = cell.now.clone();
            cell.touched = false;
        }
        self.sizes_since_sync = self.sizes.clone();
    }

    /// The power was lost.
    pub fn crashed(&mut self) {
        for cell in &mut self.cells {
            cell.now = cell.since_sync.clone();
            cell.touched = false;
        }
        self.sizes = self.sizes_since_sync.clone();
    }

    /// The size was seen. Beyond it nothing is left.
    pub fn saw_size(&mut self, size_bytes: u64) -> Result<u64, String> {
        let size = size_bytes / CELL_BYTES;
        if !size_bytes.is_multiple_of(CELL_BYTES) || !self.sizes.contains(&size) {
            return Err(format!("the size is {size_bytes} bytes, may be {:?} cells", self.sizes));
        }
        self.sizes = [size].into();
        self.cells[size as usize..].iter_mut().for_each(|c| c.now = vec![0]);
        Ok(size)
    }

    /// A cell was read; with `certain`, no other value can be read from now on.
    pub fn saw(&mut self, at: u64, bytes: &[u8], certain: bool) -> Result<(), String> {
        let cell = &mut self.cells[at as usize];
        let first = bytes[0];
        let uniform = bytes.iter().all(|b| *b == first);
        if let Some(wrong) = bytes.iter().find(|b| !cell.now.contains(b)) {
            return Err(format!("cell {at} reads {wrong}, may be {:?}", cell.now));
        }
        if certain && uniform {
            cell.now = vec![first];
        }
        Ok(())
    }
}
