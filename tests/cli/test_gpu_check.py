"""scripts/gpu-check.sh where there is no GPU: that stages run, fail, end at their limits and are told as they should be."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest
import unittest.mock

TOP = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "scripts"))

from gpu_check import __main__ as gpu_check  # noqa: E402
from gpu_check import correctness, node, targets  # noqa: E402
from gpu_check.check import FAILED, NO_TIME, PASSED, SKIPPED  # noqa: E402

NO_DRIVER = "this machine has no NVIDIA driver (libcuda.so.1); run on a node with GPUs"


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out"

    def check(self, *arguments, code, env=None):
        done = subprocess.run([TOP / "scripts/gpu-check.sh", *map(str, arguments), "--out", self.out, "--work", self.folder],
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=600,
                              env={**os.environ, "KEELSON_PYTHON": sys.executable, **(env or {})})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def results(self):
        """What was written: the results by stage and name, and the summary."""
        lines = (self.out / "results.jsonl").read_text().splitlines()
        results = {(r["stage"], r["name"]): r for r in map(json.loads, lines)}
        self.assertEqual(len(results), len(lines))
        return results, json.loads((self.out / "summary.json").read_text())

    def programs(self, script):
        """A folder in which keelson-bench is a shell script."""
        folder = self.folder / "keelson-0/bin"
        folder.mkdir(parents=True)
        bench = folder / "keelson-bench"
        bench.write_text(f"#!/bin/sh\n{script}\n")
        bench.chmod(0o755)
        return folder


class Stages(Folder):
    def test_stages_run_on_this_build_and_no_target_passes(self):
        text = self.check("--programs", os.environ["KEELSON_BIN"], "--quick", "--time-limit", 6000, "--stage-limit", 600,
                          "--stages", "ops,bench,accuracy,input,ranks,replay,sanitizer,rest", code=77)
        results, summary = self.results()
        self.assertEqual(summary["failed"], [])
        self.assertEqual({row["status"] for row in summary["targets"]}, {SKIPPED}, "tiny sizes, or a CPU, prove nothing")
        self.assertEqual(len(summary["targets"]), len(targets.TARGETS))
        for passed in (("machine", "device"), ("ops", "test_ops Softmax/SoftmaxTest"), ("bench", "mlperf fp32 batch 1"),
                       ("bench", "plan mlperf fp32 batch 1"), ("bench", "lstm-small fp32"), ("data", "universes"),
                       ("accuracy", "fp32"), ("accuracy", "bf16"), ("input", "training"), ("ranks", "two ranks"),
                       ("ranks", "test_mpi")):
            self.assertEqual(results[passed]["status"], PASSED, passed)
        plan = results["bench", "plan mlperf fp32 batch 1"]
        self.assertIn("conv5", {row["node"] for row in plan["rows"]})
        self.assertGreater(results["ops", "test_ops Softmax/SoftmaxTest"]["tests"], 1)
        self.assertEqual(len(results["ranks", "two ranks"]["losses_of_two"]), 4)
        if not summary["gpu"]:
            for stage in ("replay", "sanitizer"):
                self.assertEqual(results[stage, stage]["status"], SKIPPED)
                self.assertRegex(results[stage, stage]["reason"], "^no GPU: this build computes on ")
            self.assertRegex(text, r"MLPerf CosmoFlow 128\^3, bf16, batch 1: 300 samples/s +skipped: no GPU\n")
            self.assertIn("No GPU: this build computes on ", text)
        self.assertRegex((self.out / "log.txt").read_text(), "##### bench: mlperf fp32 batch 1: done in .*keelson-bench step")
        files = [path for path in self.out.rglob("*") if path.is_file()]
        self.assertLessEqual(len(files), 8, files)
        self.assertEqual(list(self.folder.glob("gpu-check-*")), [], "large files are removed")

    def test_a_build_for_gpus_without_a_gpu(self):
        programs = self.programs(f"echo \"keelson-bench: error: device 'cuda': {NO_DRIVER}\" >&2; exit 2")
        archive = self.folder / "keelson.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(programs.parent, "keelson-0")
        text = self.check("--archive", archive, code=77)
        results, summary = self.results()
        self.assertIn(f"No GPU: {NO_DRIVER}", text)
        self.assertEqual(summary["no_gpu"], NO_DRIVER)
        self.assertEqual({r["status"] for (stage, _), r in results.items() if stage != "machine"}, {SKIPPED})

    def test_results_are_written_as_they_come(self):
        """A job may be killed at its limit: what was found before must be in the files then."""
        script = (f'case "$*" in *--version) echo 1; exit;; *"--warmup 0"*) echo said; echo \'{{"device": "X, sm_90"}}\'; exit;; esac\n'
                  f'touch {self.folder}/began; sleep 1000')
        check = subprocess.Popen([TOP / "scripts/gpu-check.sh", "--programs", self.programs(script), "--stages", "bench", "--out",
                                  self.out, "--work", self.folder], stdout=subprocess.DEVNULL, start_new_session=True,
                                 env={**os.environ, "KEELSON_PYTHON": sys.executable})
        self.addCleanup(check.wait)
        self.addCleanup(os.killpg, check.pid, signal.SIGKILL)
        while not (self.folder / "began").exists():
            self.assertIsNone(check.poll())
            time.sleep(0.05)
        results = [json.loads(line)["name"] for line in (self.out / "results.jsonl").read_text().splitlines()]
        self.assertEqual(results, ["device", "facts"], "the probe comes before all that may be slow")
        self.assertIn("--- stdout\nsaid\n", (self.out / "log.txt").read_text())

    def test_a_slow_machine_is_waited_for(self):
        """On a cold machine, the first call of nvidia-smi or of the libraries may take most of a minute."""
        self.assertGreaterEqual(gpu_check.STAGES[0].seconds, 180)

    def test_choices_of_an_earlier_check_are_used(self):
        kept = self.folder / "kept"
        self.check("--programs", self.programs(f'echo "$KEELSON_CACHE" >> {self.folder}/asked; exit 3'), code=1,
                   env={"KEELSON_CACHE": str(kept)})
        self.assertEqual(set((self.folder / "asked").read_text().split()), {str(kept)})

    def test_programs_that_fail(self):
        text = self.check("--programs", self.programs("echo some output; echo this broke >&2; exit 3"), code=1)
        results, summary = self.results()
        device = results["machine", "device"]
        self.assertEqual((device["status"], device["exit_code"], device["reason"]), (FAILED, 3, "exit code 3"))
        self.assertEqual(device["tail"], {"out": ["some output"], "err": ["this broke"]})
        self.assertEqual([r["name"] for r in summary["failed"]], ["device"])
        self.assertIn("failed: machine: device: exit code 3", text)

    def test_programs_that_never_end(self):
        pid = self.folder / "pid"
        # The answer of a GPU; whole steps then wait for a process of their own, which must end with them.
        script = (f'case "$*" in *--version) echo 1; exit;; *"--warmup 0"*) echo \'{{"device": "X, sm_90"}}\'; exit;; esac\n'
                  f'sleep 1000 & echo $! > {pid}; wait')
        self.check("--programs", self.programs(script), "--stages", "bench", "--stage-limit", 3, code=1)
        results, summary = self.results()
        first = results["bench", "mlperf bf16 batch 1"]
        self.assertEqual(first["status"], FAILED)
        self.assertRegex(first["reason"], r"^ended after its limit of \d+ s$")
        self.assertIn("--net", first["command"])
        self.assertEqual(results["bench", "lstm-medium bf16"]["reason"], NO_TIME)
        status = pathlib.Path("/proc") / pid.read_text().strip() / "status"
        self.assertTrue(not status.exists() or "zombie" in status.read_text())
        wanted = next(t for t in summary["targets"] if t["target"].endswith("300 samples/s"))
        self.assertEqual((wanted["status"], wanted["measured"]), (FAILED, None))

    def test_stages_run_in_the_order_that_is_asked_for(self):
        """Where time is short, what matters most comes first."""
        text = self.check("--programs", self.programs("exit 3"), "--stages", "ranks,bench,ops", code=1)
        begun = [line.split()[1] for line in text.splitlines() if line.startswith("=== ")]
        self.assertEqual(begun, ["machine", "ranks", "bench", "ops"])

    def test_refusals(self):
        self.assertIn("no stage 'jump'", self.check("--stages", "jump", code=2))
        self.assertIn("no keelson-bench in", self.check("--programs", self.folder, code=2))
        self.assertIn("cannot be unpacked", self.check("--archive", self.folder / "absent.tar.gz", code=2))
        self.assertIn("neither --archive nor --programs", self.check(code=2))


class Run:
    """Results as stages leave them."""

    gpu, quick = "", False

    def __init__(self, *results):
        self.results = [dict(zip(("stage", "name", "status"), r[:3]), **r[3]) for r in results]

    def found(self, stage, name=None):
        return next((r for r in reversed(self.results) if r["stage"] == stage and name in (None, r["name"])), None)

    def status(self, words):
        return next(row for row in targets.judge(self) if words in row["target"])["status"]


class Targets(unittest.TestCase):
    def test_thresholds(self):
        for rate, files, times, holds in ((300, 285, 1.5, PASSED), (299, 280, 1.49, FAILED)):
            run = Run(("bench", "mlperf bf16 batch 1", PASSED, {"rate": rate}),
                      ("input", "training", PASSED, {"samples_per_second": files}),
                      ("torch", "mlperf", PASSED, {"times": times}))
            for words in ("300 samples/s", "from files", "against PyTorch: 1.5"):
                self.assertEqual(run.status(words), holds, words)

    def test_what_fails_or_is_not_measured_does_not_pass(self):
        run = Run(("ops", "test_ops A", PASSED, {"tests": 3, "skipped": 0}), ("ops", "test_ops B", FAILED, {"tests": 1, "skipped": 0}),
                  ("accuracy", "bf16", FAILED, {"mae": 0.3, "apart": 0.021}), ("accuracy", "fp16", PASSED, {"mae": 0.3, "apart": 0.001}),
                  ("torch", "PyTorch", SKIPPED, {"reason": "not there: why"}),
                  ("sanitizer", "memcheck step", PASSED, {}), ("sanitizer", "memcheck ops", FAILED, {}),
                  ("bench", "paper fp16 batch 4", PASSED, {}), ("bench", "lstm-small fp32", SKIPPED, {"reason": NO_TIME}),
                  ("replay", "bf16", SKIPPED, {"reason": NO_TIME}), ("replay", "bf16", PASSED, {}))
        expected = {"tests on the device": FAILED, "bf16: validation": FAILED, "fp16: validation": PASSED, "sanitizer": FAILED,
                    "every network": SKIPPED, "recorded steps": PASSED, "large LSTM": SKIPPED, "two ranks": SKIPPED, "300 samples/s": SKIPPED}
        self.assertEqual({words: run.status(words) for words in expected}, expected)
        self.assertIn("skipped: PyTorch: not there: why", targets.table(targets.judge(run)))

    def test_tests_that_all_were_skipped_do_not_pass(self):
        self.assertNotEqual(Run(("ops", "test_ops A", PASSED, {"tests": 3, "skipped": 3})).status("tests on the device"), PASSED)

    def test_tests_that_had_no_time_are_told(self):
        run = Run(("ops", "test_ops A", PASSED, {"tests": 3, "skipped": 1}), ("ops", "test_ops B", SKIPPED, {"reason": NO_TIME}))
        row = next(row for row in targets.judge(run) if row["stage"] == "ops")
        self.assertEqual((row["status"], row["measured"]), (SKIPPED, "2 tests ran, 0 suites failed, 1 had no time"))

    def test_without_a_gpu_nothing_passes(self):
        run = Run(("bench", "mlperf bf16 batch 1", PASSED, {"rate": 1000}))
        run.gpu = "none here"
        self.assertEqual({row["status"] for row in targets.judge(run)}, {SKIPPED})


class Pieces(Folder):
    def test_libraries_are_found_where_python_packages_put_them(self):
        for path in ("a/nvidia/cudnn/lib/libcudnn.so.9", "a/nvidia/cu13/lib/libcublasLt.so.13", "b/nvidia/nccl/lib/libnccl.so.2",
                     "a/nvidia/other/lib/libother.so.1", "b/torch/lib/libtorch.so"):
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).touch()
        found = node.library_folders([str(self.folder / "a"), str(self.folder / "b")])
        expected = [str((self.folder / path).resolve()) for path in ("a/nvidia/cu13/lib", "a/nvidia/cudnn/lib", "b/nvidia/nccl/lib")]
        self.assertEqual(found[:3], expected)
        self.assertFalse(any(str(self.folder.resolve()) in folder for folder in found[3:]))

    def test_ranks_start_without_a_remote_shell(self):
        """Open MPI 4 ends with an error if it finds neither ssh nor rsh, although one node needs none."""
        tools = self.folder / "tools"
        tools.mkdir()
        programs = self.programs("exit 0")
        mpirun = tools / "mpirun"
        for version, shell, isolated in (("mpirun (Open MPI) 4.1.4", False, True), ("mpirun (Open MPI) 4.1.4", True, False),
                                         ("mpirun (Open MPI) 5.0.7", False, False), ("HYDRA build details", False, False)):
            mpirun.write_text(f"#!{shutil.which('sh')}\necho '{version}'\n")
            mpirun.chmod(0o755)
            (tools / "ssh").unlink(missing_ok=True)
            if shell:
                shutil.copy(mpirun, tools / "ssh")
            with unittest.mock.patch.dict(os.environ, {"PATH": str(tools)}):
                os.environ.pop("KEELSON_MPIEXEC", None)
                command = node.Node(programs, self.out).mpiexec()
            self.assertEqual(command[0], str(mpirun))
            self.assertEqual("--mca plm isolated" in " ".join(command), isolated, (version, shell))

    def test_what_compute_sanitizer_says(self):
        for clean, text in ((True, "========= ERROR SUMMARY: 0 errors"), (False, "========= ERROR SUMMARY: 10 errors"), (False, ""),
                            (True, "========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"),
                            (False, "========= RACECHECK SUMMARY: 2 hazards displayed (1 error, 1 warning)")):
            self.assertEqual(correctness.is_clean(text), clean, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
