"""keelson-bench: what its verbs print, and what they refuse."""

import json
import os
import shlex
import subprocess
import unittest

PROGRAM = os.path.join(os.environ["KEELSON_BIN"], "keelson-bench")
MPIEXEC = shlex.split(os.environ["KEELSON_MPIEXEC"])


def run(*arguments, ranks=0):
    launcher = MPIEXEC + ["-n", str(ranks)] if ranks else []
    return subprocess.run(launcher + [PROGRAM] + [str(a) for a in arguments], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=120)


class Bench(unittest.TestCase):
    def succeed(self, *arguments, **options):
        done = run(*arguments, **options)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_step_plan(self):
        text = self.succeed("step", "--size", 32, "--steps", 2, "--plan")
        self.assertRegex(text, r"conv5\s.*\d+\.\d{3}")
        self.assertRegex(text, r"arena \S+ MiB \(lower bound")
        self.assertRegex(text, r"median \S+ ms a step")

    def test_step_json(self):
        for ranks in (0, 2):
            result = json.loads(self.succeed("step", "--size", 32, "--steps", 3, "--json", ranks=ranks))
            self.assertEqual(result["ranks"], ranks or 1)
            self.assertLessEqual(result["seconds_fastest"], result["seconds_per_step"])
            self.assertAlmostEqual(result["samples_per_second"], (ranks or 1) / result["seconds_per_step"], 3)

    def test_refusals(self):
        for arguments in (("step", "--net", "none"), ("step", "--size", 20), ("step", "--steps", 0), ("jump",)):
            with self.subTest(arguments):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
                self.assertEqual(done.stderr.count("keelson-bench: error: "), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
