//! Files that grow in bounded segments while the stripes that new segments get change.

#[allow(dead_code)]
mod world;

use engine::file::MirrorWrites;
use policy::layout::{OPEN_END, Placement};
use world::{Options, World};

#[test]
fn segments_of_every_stripe_size_are_bounded_wherever_they_start() {
    let place = |pages: u64| Placement {
        stripe_size: pages * 4096,
        stripe_count: 2,
        single_bytes_max: 0,
        segment_bytes: 16_384,
        mirrors: 1,
        tier: None,
    };
    let world = World::new(
        Options { targets: 3, placement: place(3), mirror_writes: MirrorWrites::Sync, inline_bytes_max: 0 },
        1,
    );
    let file = &world.life.file;
    let mut expected = Vec::new();
    // Segments of 12, 16, 12, 20 KiB ..: they start at no multiple of their stripes.
    for (n, pages) in [3, 2, 3, 5, 4, 1, 3].into_iter().enumerate() {
        file.set_placement(place(pages));
        let more = vec![n as u8 + 1; 21_000];
        file.write(expected.len() as u64, &more).expect("well");
        expected.extend(more);
    }
    let layout = file.layout().expect("laid out");
    let segments = &layout.mirrors[0].segments;
    let sizes: Vec<u64> = segments.iter().map(|segment| segment.stripe_size / 4096).collect();
    assert!([1, 2, 3, 4, 5].iter().all(|pages| sizes.contains(pages)), "{sizes:?}");
    for segment in segments {
        assert!(segment.end != OPEN_END && segment.end - segment.start <= 20_480, "{segment:?} of {sizes:?}");
    }
    let mut bytes = vec![0; expected.len()];
    file.read(0, &mut bytes).expect("well");
    assert!(bytes == expected);
}

#[test]
fn holes_stay_holes_when_a_file_outgrows_its_stub() {
    let place = Placement {
        stripe_size: 65_536,
        stripe_count: 1,
        single_bytes_max: 0,
        segment_bytes: 0,
        mirrors: 1,
        tier: None,
    };
    let inline_bytes_max = 300_000;
    let world =
        World::new(Options { targets: 1, placement: place, mirror_writes: MirrorWrites::Sync, inline_bytes_max }, 1);
    let file = &world.life.file;
    file.write(100, b"first").expect("well");
    file.write(200_000, b"second").expect("well");
    file.write(400_000, b"third").expect("it outgrows its stub");
    let object = *file.layout().expect("laid out").objects().next().expect("one").1;
    let at = policy::layout::Position { mirror: 0, segment: 0, index: 0 };
    let allocated = file.with_object(at, object.id, |h| h.allocated()).expect("well");
    assert_eq!(allocated, 3 * 4096, "three pages hold bytes");
    assert_eq!((file.seek_hole(100).expect("well"), file.seek_data(4096).expect("well")), (4096, 196_608));
    let mut bytes = [0; 6];
    file.read(200_000, &mut bytes).expect("well");
    assert_eq!(&bytes, b"second");
}
