"""Checkpoints by the Python module, on the volume whose mount point is WAVE_AT. Run by ../programs.rs."""

import os
import unittest
import warnings

try:
    import h5py
except ImportError:
    h5py = None

from entrepot.checkpoint import BUSY, Problem, abandon, advised_interval, checkpoint, newest
from entrepot.control import NO_DAEMON, WRONG_INPUT, find, parse

AT = os.environ["WAVE_AT"]


def save(directory, text, name="state"):
    with open(os.path.join(directory, name), "w") as file:
        file.write(text * 100_000)


class Checkpoints(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("error")
        os.chdir(AT)
        # Each test is an application of its own.
        self.app = self.id().rsplit(".", 1)[1]
        self.path = os.path.join(AT, self.app)

    def test_a_version_counts_from_the_end_of_the_block_on(self):
        self.assertIsNone(newest(self.app))
        self.assertIsNone(advised_interval(self.app))
        with checkpoint(self.app, self.path + "/1", version="one", mtbf=3600) as c:
            self.assertEqual(c.label, "one")
            save(c.path, "a")
            self.assertIsNone(newest(self.app))
        found = newest(self.app)
        self.assertEqual((found.label, found.directory, found.files), ("one", self.path + "/1", 1))
        self.assertEqual(found.bytes, 100_000)
        self.assertGreater(advised_interval(self.app), 0)
        with checkpoint(self.app, self.path + "/2") as c:
            os.mkdir(self.path + "/2/rank-0")
            save(self.path + "/2/rank-0", "b")
        self.assertEqual(newest(self.app, AT).directory, self.path + "/2")
        self.assertEqual(newest(self.app).label, c.label)

    def test_with_an_exception_it_never_counts_and_the_exception_goes_on(self):
        with checkpoint(self.app, self.path + "/1", version="one"):
            save(self.path + "/1", "a")
        with self.assertRaisesRegex(RuntimeError, "it fails"):
            with checkpoint(self.app, self.path + "/2", version="two"):
                save(self.path + "/2", "b")
                raise RuntimeError("it fails")
        self.assertEqual(newest(self.app).label, "one")
        # Nothing is in the way of the next.
        with checkpoint(self.app, self.path + "/3", version="three"):
            save(self.path + "/3", "c")
        self.assertEqual(newest(self.app).label, "three")

    def test_what_a_killed_run_left_is_given_up(self):
        if os.fork() == 0:
            checkpoint(self.app, self.path, version="left").__enter__()
            os._exit(0)
        self.assertEqual(os.wait()[1], 0)
        with self.assertRaises(Problem) as refused:
            checkpoint(self.app, self.path).__enter__()
        self.assertEqual(refused.exception.exit_code, BUSY)
        self.assertIn("begun already", str(refused.exception))
        self.assertTrue(abandon(self.app))
        self.assertFalse(abandon(self.app))
        with checkpoint(self.app, self.path):
            save(self.path, "a")

    def test_a_version_of_which_nothing_was_written_is_none(self):
        with self.assertRaisesRegex(Problem, "no file of version"):
            with checkpoint(self.app, self.path):
                pass
        self.assertIsNone(newest(self.app))

    def test_files_that_get_their_names_when_they_are_written_are_found(self):
        with checkpoint(self.app, self.path, version="0"):
            with open(self.path + "/only.tmp", "w") as file:
                file.write("a")
            os.rename(self.path + "/only.tmp", self.path + "/only")
        self.assertEqual((newest(self.app).label, newest(self.app).directory), ("0", self.path))
        # Large ones have a number, by which they are found later, too; small ones are in their stubs.
        with checkpoint(self.app, self.path, version="1"):
            for name in ("large", "small"):
                with open(f"{self.path}/{name}.tmp", "w") as file:
                    file.write("a" * (1_000_000 if name == "large" else 10))
                os.rename(f"{self.path}/{name}.tmp", f"{self.path}/{name}")
        self.assertEqual(newest(self.app).directory, self.path)
        os.rename(self.path, self.path + "-aside")
        self.assertEqual(newest(self.app).directory, self.path + "-aside")

    def test_a_version_that_was_removed_is_none(self):
        for n in "12":
            with checkpoint(self.app, self.path + "/" + n, version=n):
                save(self.path + "/" + n, n)
        os.remove(self.path + "/2/state")
        # Another of the same name is not its file.
        save(self.path + "/2", "x")
        self.assertEqual(newest(self.app).label, "1")

    def test_a_path_in_no_volume_is_refused(self):
        for path in ("/proc", "/nowhere/at/all"):
            with self.assertRaises(Problem) as refused:
                newest(self.app, path)
            self.assertEqual(refused.exception.exit_code, WRONG_INPUT)
            self.assertIn("lies in no volume", refused.exception.cause)
        os.symlink("/tmp", self.path)
        with self.assertRaisesRegex(Problem, "not in the volume"):
            checkpoint(self.app, self.path).__enter__()

    def test_names_in_any_letters(self):
        path = self.path + "/größe \"3\"\\\n"
        os.makedirs(path)
        with checkpoint(self.app, path, version="ü\"\\"):
            save(path, "a")
        self.assertEqual((newest(self.app).directory, newest(self.app).label), (path, "ü\"\\"))


class Hdf5(unittest.TestCase):
    @unittest.skipUnless(h5py, "h5py is not installed")
    def test_a_file_of_hdf5_is_written_closed_and_read_again(self):
        os.chdir(AT)
        with checkpoint("hdf5", "hdf5/step-1") as c:
            with h5py.File(os.path.join(c.path, "state.h5"), "w") as file:
                file["temperature"] = [float(n) for n in range(50_000)]
                file.attrs["step"] = 1
        with h5py.File(os.path.join(newest("hdf5").directory, "state.h5"), "r") as file:
            self.assertEqual((file.attrs["step"], file["temperature"][49_999]), (1, 49_999.0))


class Finding(unittest.TestCase):
    def test_the_table_of_the_kernel(self):
        table = ("22 1 0:20 / /proc rw - proc proc rw\n"
                 "41 1 0:51 / /my\\040scratch rw shared:1 - fuse.entrepot other#/other\\040vol/state rw,user_id=0,group_id=0\n"
                 "43 1 0:53 / /home/bob rw - fuse.entrepot other#/bob/state rw,user_id=48302,group_id=0\n"
                 "42 1 0:52 / /home/x rw - fuse.sshfs entrepot#/x/state rw\n")
        found = parse(table, own=48301)
        self.assertEqual([(of.at, of.socket) for of in found], [("/my scratch", "/other vol/state/control.sock")])
        self.assertEqual([of.at for of in parse(table, own=48302)], ["/my scratch", "/home/bob"])

    def test_the_volume_of_a_path_of_the_working_directory_and_of_the_environment(self):
        os.chdir(AT)
        self.assertEqual(find().at, AT)
        self.assertEqual(find("not/there/yet").at, AT)
        os.chdir("/")
        os.environ["ENTREPOT_VOLUME"] = AT
        self.assertEqual(find().at, AT)


class Hanging(unittest.TestCase):
    def test_a_daemon_that_hangs_or_is_gone_is_told_of(self):
        """Run alone, with the daemon stopped or killed."""
        with self.assertRaises(Problem) as refused:
            newest("wave", AT, timeout=0.5)
        self.assertEqual(refused.exception.exit_code, NO_DAEMON)
        print("told:", refused.exception)


if __name__ == "__main__":
    unittest.main()
