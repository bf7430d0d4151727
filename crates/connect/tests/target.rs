//! A volume's target on file servers: its objects, and their state after connections break.

#[allow(dead_code)]
mod world;

use connect::private::Private;
use connect::{Mounts, Recipe, Servers};
use engine::volume::VolumeId;
use object::target::{DirectoryMedium, Identity, Medium};
use policy::connections::Policy;
use policy::{ObjectId, TargetId};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ID: ObjectId = ObjectId(0x1_0000_002a);
const OTHER: ObjectId = ObjectId(0x1_0000_002b);

/// Connections that are the same directory.
struct Directory(PathBuf);

impl Mounts for Directory {
    fn mount(&self, _number: u16) -> io::Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::open(&self.0, flags, Mode::empty())?)
    }
    fn take_out(&self, _number: u16) {}
    fn source(&self, _number: u16) -> String {
        self.0.display().to_string()
    }
}

fn identity(volume: u128) -> Identity {
    Identity { volume: VolumeId(volume), target: TargetId(1), name: "t1".into() }
}

/// A new target on servers.
fn target(servers: &Servers, mounts: Box<dyn Mounts>, connections: u16, write_behind: u64) -> Arc<dyn Medium> {
    let options = world::options(connections, Policy::Multiple, "test").set;
    let server = servers.over(mounts, options, write_behind).unwrap();
    DirectoryMedium::format_at(&server.root().unwrap(), &identity(7)).unwrap();
    let medium = server.medium(identity(7));
    assert_eq!(medium.create(ID).err(), Some(Errno::NODEV), "nothing before the first look");
    medium.probe_durable().unwrap();
    medium
}

fn on_directory(at: &Path, write_behind: u64) -> (Servers, Arc<dyn Medium>) {
    let servers = Servers::default();
    let medium = target(&servers, Box::new(Directory(at.into())), 3, write_behind);
    (servers, medium)
}

fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn read(medium: &dyn Medium, id: ObjectId, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let read = medium.open(id).unwrap().read_at(0, &mut bytes).unwrap();
    bytes.truncate(read);
    bytes
}

#[test]
fn objects_are_the_files_that_a_directory_has() {
    for write_behind in [0, 8 << 20] {
        let dir = tempfile::tempdir().unwrap();
        let (servers, medium) = on_directory(dir.path(), write_behind);
        let object = medium.create(ID).unwrap();
        assert_eq!(medium.create(ID).err(), Some(Errno::EXIST));
        assert_eq!(medium.open(OTHER).err(), Some(Errno::NOENT));
        let data = noise(3 << 20, 1);
        object.write_at(5, &data[5..]).unwrap();
        object.write_at(0, &data[..5]).unwrap();
        let mut parts = [vec![0; 7], vec![0; 1 << 20], vec![0; 4 << 20]];
        let mut buffers: Vec<_> = parts.iter_mut().map(|part| IoSliceMut::new(part)).collect();
        assert_eq!(object.read_vectored_at(0, &mut buffers, 7).unwrap(), data.len(), "it sees what was written before");
        assert!(parts.concat()[..data.len()] == data);
        object.sync().unwrap();
        medium.sync_names().unwrap();
        assert!(fs::read(dir.path().join("objects/2a/000000010000002a")).unwrap() == data);

        object.punch(1 << 20, 1 << 20).unwrap();
        object.set_len(5 << 19).unwrap();
        assert_eq!((object.len(), object.names()), (Ok(5 << 19), Ok(1)));
        let mut cut = data[..5 << 19].to_vec();
        cut[1 << 20..2 << 20].fill(0);
        assert!(read(&*medium, ID, 4 << 20) == cut);
        assert!(!object.knows_holes() && object.fd().is_none(), "the kernel gets no descriptor of one connection");
        assert_eq!(medium.descriptors_per_object(), 3);

        let linked = medium.link(ID, OTHER);
        assert_eq!(linked.as_ref().err(), (write_behind > 0).then_some(&Errno::OPNOTSUPP));
        if linked.is_ok() {
            assert!(read(&*medium, OTHER, 4 << 20) == cut);
            medium.remove(OTHER).unwrap();
        }
        assert_eq!(medium.list(), Ok(vec![ID]));
        medium.set_epoch(9).unwrap();
        assert_eq!(medium.epoch(), Ok(Some(9)));
        drop((object, linked));
        medium.remove(ID).unwrap();
        medium.remove(ID).unwrap();
        assert_eq!(medium.list(), Ok(Vec::new()));
        servers.end();
    }
}

/// The owner of an object repeats a failed write, and another open may do the next sync.
#[test]
fn the_failure_of_an_acknowledged_write_is_returned_until_a_sync_has_returned_it() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, medium) = on_directory(dir.path(), 8 << 20);
    let object = medium.create(ID).unwrap();
    object.write_at(i64::MAX as u64, &[1; 10]).unwrap();
    assert_eq!(object.len(), Ok(0), "the write has ended");
    for _ in 0..2 {
        assert_eq!(object.write_at(0, &[2; 10]), Err(Errno::INVAL));
    }
    drop(object);
    let object = medium.open(ID).unwrap();
    assert_eq!(object.sync(), Err(Errno::INVAL));
    object.write_at(0, &[2; 10]).unwrap();
    object.sync().unwrap();
    drop(object);
    assert_eq!(read(&*medium, ID, 20), [2; 10]);
    servers.end();
}

#[test]
fn a_directory_of_another_volume_is_a_target_that_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let (servers, medium) = on_directory(dir.path(), 0);
    let id = dir.path().join("target.id");
    let own = fs::read_to_string(&id).unwrap();
    fs::write(&id, own.replacen("volume = \"", "volume = \"1", 1)).unwrap();
    assert_eq!(medium.probe(), Err(Errno::NODEV), "and no connection is blamed");
    let connections = medium.connections().unwrap();
    assert!(connections["connections"].as_array().unwrap().iter().all(|c| c["state"] == "in use"), "{connections}");
    fs::write(&id, own).unwrap();
    medium.probe().unwrap();
    medium.disown().unwrap();
    assert_eq!(medium.probe(), Err(Errno::NODEV));
    servers.end();
}

/// Waits until all connections are in use and `times` of them were replaced.
fn whole_again(medium: &dyn Medium, times: u64) {
    let until = Instant::now() + Duration::from_secs(120);
    loop {
        let status = medium.connections().unwrap();
        let each = status["connections"].as_array().unwrap();
        let again: u64 = each.iter().map(|c| c["mounted_again"].as_u64().unwrap()).sum();
        if again >= times && each.iter().all(|c| c["state"] == "in use") {
            return;
        }
        assert!(Instant::now() < until, "not whole again: {status}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn objects_and_names_outlive_clients_that_die_or_hang() {
    let Some(server) = world::Gluster::start() else { return };
    let recipe = Recipe { kind: "glusterfs".into(), servers: vec![server.volume.clone()], options: Vec::new() };
    let servers = Servers::default();
    let medium = target(&servers, Box::new(Private::new(recipe, 3).unwrap()), 3, 0);
    let piece = 64 << 10;
    let data = noise(40 * piece, 2);
    let mut made = Vec::new();
    // Names go over connection 0 first, and bytes over all in turn.
    for (round, signal) in [(0, Signal::KILL), (1, Signal::STOP), (2, Signal::KILL)] {
        let id = ObjectId(ID.0 + round);
        let object = medium.create(id).unwrap();
        let mut stopped = None;
        for (n, bytes) in data.chunks(piece).enumerate() {
            if n == 7 {
                let client = world::clients(3)[round as usize].and_then(Pid::from_raw);
                kill_process(client.expect("a client"), signal).unwrap();
                stopped = client.filter(|_| signal == Signal::STOP);
            }
            object.write_at((n * piece) as u64, bytes).unwrap();
        }
        object.sync().unwrap();
        let late = ObjectId(ID.0 + 0x100 + round);
        medium.create(late).unwrap().write_at(0, b"late").unwrap();
        medium.sync_names().unwrap();
        medium.probe_durable().unwrap();
        whole_again(&*medium, round + 1);
        made.extend([id, late]);
        // It is unmounted, and knows nothing of it until it goes on.
        stopped.into_iter().for_each(|client| kill_process(client, Signal::KILL).unwrap());
        assert!(read(&*medium, id, data.len()) == data, "round {round}");
    }
    let mut listed = medium.list().unwrap();
    listed.sort();
    made.sort();
    assert_eq!(listed, made);
    drop(medium);
    servers.end();
    let until = Instant::now() + Duration::from_secs(60);
    while world::clients(3) != [None; 3] {
        assert!(Instant::now() < until, "nothing stays mounted: {:?}", world::clients(3));
        std::thread::sleep(Duration::from_millis(20));
    }
}
