"""Ranks that were started with different options, or see different files, are told which rank differs in what."""

import json
import re
import shutil
import subprocess
import unittest

from programs import MPIEXEC, Program, UniversesCase, h5py, needs_h5py, numpy

COSMOFLOW, LM = Program("keelson-cosmoflow"), Program("keelson-lm")


class Ranks(UniversesCase):
    universes = (4, 3, 0)

    def start(self, program, *command_lines, folders=None, environments=None):
        """One rank for each command line, in a folder of its own and with variables of its own if there are some."""
        command = list(MPIEXEC)
        for rank, arguments in enumerate(command_lines):
            words = [program.path] + [str(a) for a in arguments]
            if environments:
                words = ["env"] + [f"{name}={value}" for name, value in environments[rank].items()] + words
            if folders:
                words = ["sh", "-c", 'cd "$0" && exec "$@"', str(folders[rank])] + words
            command += ([":"] if rank else []) + ["-n", "1"] + words
        return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120)

    def refused(self, *arguments, says, **options):
        done = self.start(*arguments, **options)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        lines = [line for line in done.stderr.splitlines() if ": error: " in line]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], says)
        self.assertFalse((self.out / "checkpoints").exists())

    def test_options(self):
        train = ["train", "--data", self.data, "--out", self.out]
        for option, one, other in (("--lr", 0.001, 0.002), ("--seed", 1, 2), ("--epochs", 1, 2), ("--dropout", 0, 0.5),
                                   ("--channels", 0, 1), ("--normalise", "log1p", "mean"), ("--batch", 1, 2)):
            with self.subTest(option):
                self.refused(COSMOFLOW, train + [option, one], train + [option, other],
                             says=rf"{option} is {other} on rank 1 \(\S+\), {one} on rank 0 \(\S+\)")
        self.refused(COSMOFLOW, train, train + ["--augment"], says=r"--augment is true on rank 1 \(\S+\), false on rank 0")
        self.refused(COSMOFLOW, train, ["evaluate", "--checkpoint", self.out], says="the subcommand is evaluate on rank 1")

    def test_environment(self):
        for name, value, command in (("KEELSON_BACKEND", "kokkos", ["train", "--data", self.data, "--out", self.out]),
                                     ("KEELSON_COLLECTIVES", "staged", ["train", "--data", self.data, "--out", self.out]),
                                     ("KEELSON_ALLREDUCE", "ring", ["train", "--data", self.data, "--out", self.out]),
                                     ("KEELSON_TUNE", "on", ["evaluate", "--checkpoint", self.out])):
            with self.subTest(name):
                self.refused(COSMOFLOW, command, command, environments=[{name: ""}, {name: value}],
                             says=rf"different environment variables: {name} is {value} on rank 1 \(\S+\), not given on "
                                  r"rank 0 \(\S+\); set them alike on all ranks")

    def test_other_numbers_of_threads(self):
        """Rank 1 takes what rank 0 has measured, which each would measure for itself with its number of threads."""
        for tune in ("off", "on"):
            with self.subTest(KEELSON_TUNE=tune):
                environments = [{"KEELSON_TUNE": tune, "KEELSON_CACHE": self.folder / f"of rank {rank}",
                                 "OMP_NUM_THREADS": rank + 1} for rank in (0, 1)]
                train = ["train", "--data", self.data, "--out", self.folder / tune, "--epochs", 1]
                done = self.start(COSMOFLOW, train, train, environments=environments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("1 to 2 threads each", done.stderr)
        # Whatever rank 0 has measured to be the fastest: a library may not have that algorithm for 2 threads.
        for number in range(self.candidates(environments[0]["KEELSON_CACHE"])):
            with self.subTest(number):
                self.choose(environments[0]["KEELSON_CACHE"], number)
                done = self.start(COSMOFLOW, train + ["--overwrite"], train + ["--overwrite"], environments=environments)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @staticmethod
    def choices(cache):
        """The tuner's files: (path, {problem: choice}, {problem: names of the candidates})."""
        for path in cache.glob("*.json"):
            chosen = {k: v for k, v in json.loads(path.read_text()).items() if ", of " in k}
            if chosen:
                yield path, chosen, {k: k.split(", of ", 1)[1].split(" | ") for k in chosen}

    def candidates(self, cache):
        counts = [len(names) for _, _, of in self.choices(cache) for names in of.values()]
        self.assertTrue(counts, "rank 0 has measured nothing")
        return max(counts)

    def choose(self, cache, number):
        """Replaces each choice by the candidate of this number, or by the last one."""
        for path, chosen, of in self.choices(cache):
            path.write_text(json.dumps({**json.loads(path.read_text()), **{k: of[k][min(number, len(of[k]) - 1)] for k in chosen}}))

    def test_resuming_on_one_rank_alone(self):
        train = ["train", "--data", self.data, "--out", self.out]
        self.refused(COSMOFLOW, train, train + ["--resume"], says=r"--resume is given on rank 1 \(\S+\), not given on rank 0")

    def test_options_that_come_from_elsewhere(self):
        (self.folder / "a").mkdir()
        (self.folder / "b").mkdir()
        (self.folder / "a/x.toml").write_text("lr = 0.001\n")
        (self.folder / "b/x.toml").write_text("lr = 0.004\n")
        train = ["train", "--data", self.data, "--out", self.out, "--config", "x.toml"]
        self.refused(COSMOFLOW, train, train, folders=[self.folder / "a", self.folder / "b"],
                     says=r"--lr is 0.004 on rank 1 \(\S+\), 0.001 on rank 0")

    def folders_with_data(self, change):
        """Two folders with data/, of which `change` has been made to the second one."""
        folders = [self.folder / "a", self.folder / "b"]
        for folder in folders:
            folder.mkdir()
            shutil.copytree(self.data, folder / "data")
        change(folders[1] / "data")
        return folders

    def test_another_number_of_samples(self):
        for part in ("train", "validation"):
            with self.subTest(part):
                folders = self.folders_with_data(lambda data: sorted((data / part).iterdir())[-1].unlink())
                train = ["train", "--data", "data", "--out", self.out, "--dropout", 0, "--epochs", 1]
                self.refused(COSMOFLOW, train, train, folders=folders,
                             says=rf"rank 1 \(\S+\): data/{part}/univ_\d+.h5: cannot be opened: No such file")
                for folder in folders:
                    shutil.rmtree(folder)

    @needs_h5py
    def test_other_targets(self):
        def change(data):
            with h5py.File(sorted((data / "train").iterdir())[1], "r+") as f:
                f["y"][0] += numpy.float32(0.25)

        folders = self.folders_with_data(change)
        train = ["train", "--data", "data", "--out", self.out, "--dropout", 0, "--epochs", 1]
        self.refused(COSMOFLOW, train, train, folders=folders,
                     says=r"rank 1 \(\S+\): data/train/univ_\d+.h5: has other arrays, attributes or targets")

    def test_the_same_data_in_other_folders(self):
        folders = self.folders_with_data(lambda data: None)
        train = ["train", "--data", "data", "--out", self.out, "--dropout", 0, "--epochs", 1]
        done = self.start(COSMOFLOW, train, train, folders=folders)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Evaluated on data that differ, by a checkpoint that only rank 0 reads.
        sorted((folders[1] / "data/validation").iterdir())[0].unlink()
        evaluate = ["evaluate", "--checkpoint", self.out, "--data", "data/validation"]
        done = self.start(COSMOFLOW, evaluate, evaluate, folders=folders)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"rank 1 \(\S+\): data/validation/univ_\d+.h5: cannot be read: No such file")

    def test_the_text_of_rank_0(self):
        """Rank 0 reads a text for all ranks, whatever the others have under its name."""
        folders = [self.folder / "a", self.folder / "b"]
        for folder, word in zip(folders, ("spam", "eggs")):
            folder.mkdir()
            (folder / "t.txt").write_text(f"green {word} and ham\n" * 500)
        train = ["train", "--train", folders[0] / "t.txt", "--out", self.out, "--hidden", 8, "--batch", 2, "--epochs", 1]
        self.assertEqual(self.start(LM, train, train).returncode, 0)
        evaluate = ["evaluate", "--checkpoint", self.out, "--data", "t.txt"]

        def perplexity(folders):
            done = self.start(LM, evaluate, evaluate, folders=folders)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            return re.search(r"perplexity [\d.]+: [\d.]+ nats", done.stdout)[0]

        self.assertEqual(perplexity(folders), perplexity([folders[0], folders[0]]))
        self.assertNotEqual(perplexity(folders), perplexity([folders[1], folders[1]]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
