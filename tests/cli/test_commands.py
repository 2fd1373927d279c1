"""The commands of README.md, CONTRIBUTING.md and docs/ run in one folder, with smaller sizes.

A block of code whose first line is ```sh or ```python is run here. What stands after the language says why it is not:
"not run: REASON", or "run by FILE", another test.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

from programs import MPIEXEC, long_test, needs_h5py
from test_readme import DOCUMENTS, TOP

# These make the data and the runs that the others go on with.
FIRST = [TOP / "docs" / f"{name}.md" for name in ("cosmoflow", "language-models", "climate", "runs")]

# The commands as they stand take hours or many cores. (pattern, what stands in its place)
SMALLER = [
    (r"-n (?:4|8|16) ", "-n 2 "),
    (r"-n 5 ", "-n 3 "),
    (r" --bind-to core", ""),
    (r"--net (lstm-)?medium", r"--net \1small"),
    (r"\bMODE\b", "gossip"),
    (r'(keelson-(?:cosmoflow|climate|lm) train\b)(?! "\$\{arguments)', r"\1 --max-steps 1 --overwrite"),
    (r" --max-steps 1( --overwrite [^\n]*--stack)", r"\1"),  # whose members train whole epochs
    (r"--members 100", "--members 4"),
    (r"^out=runs/mlperf", "out=runs/script"),
    (r"\(--recipe mlperf-64 --data", "(--size 32 --max-steps 1 --recipe mlperf-64 --data"),
    (r" --max-steps 100", ""),
    (r'(keelson-cosmoflow train\b)(?! "\$\{arguments)', r"\1 --size 32"),
    (r"(keelson-bench input\b)", r"\1 --size 32"),
    (r"--train 1000 --validation 128 --test 128", "--train 16 --validation 2 --test 2"),
    (r"--train 1000 --validation 100 --test 100", "--train 4 --validation 2 --test 2"),
    (r"generate --out climate --train 100 --validation 10 --test 10",
     "generate --out climate --height 96 --width 144 --train 4 --validation 2 --test 2"),
    (r"generate --out diffraction --size 64", "generate --out diffraction --size 32 --pool 150 --test 4"),
    (r"(keelson-label simulate [^\n]*) --seeds 5 --most 960", r"\1 --seeds 1 --most 70 --batch 10 --epochs 5"),
    (r"--height 192 --width 288", "--height 96 --width 144"),
    (r"--words 3000000", "--words 20000 --validation-words 4000"),
    (r"--tokens 200", "--tokens 20"),
    (r"(keelson-bench compare) --out", r"\1 --nets mlperf --sizes 32 --precisions fp32 --quick --out"),
    (r"(--html quick.html) --quick", r"\1"),
    (r"(keelson-bench step\b)", r"\1 --steps 1 --warmup 0"),
    (r" --steps 5 --warmup 1", ""),
    (r"(keelson-cosmoflow lr-range\b[^\n]*) --steps 40", r"\1 --size 32 --steps 4"),
    (r"--size 128", "--size 32"),
    (r"--size 384x576", "--size 96x144"),
    (r"--size 64 --batch 4", "--size 32 --batch 2"),
    (r"--max-bytes (?:256M|16M)", "--max-bytes 64K"),
    (r"1x4x128x128x128", "1x4x32x32x32"),
]

# What the reader brings.
BROUGHT = r"""
import h5py, numpy, os
numpy.random.seed(1)
def universes(folder, name, count):
    for i in range(count):
        with h5py.File(f"{folder}/{i}.h5", "w") as f:
            f[name] = numpy.random.poisson(1.0, (32, 32, 32, 4)).astype(numpy.int16)
            f["unitPar" if name == "full" else "y"] = numpy.random.uniform(-1, 1, 4).astype(numpy.float32)
for part, count in (("train", 64), ("validation", 4), ("test", 4)):
    universes(f"prepared/{part}", "x", count)
    universes(f"universes/{part}", "full", count)
os.makedirs("demo")
os.symlink("../prepared", "demo/data")  # as ./dev demo makes
os.makedirs("data")
os.symlink("../prepared", "data/universes")
open("designs.json", "w").write('[{"lr": 0.01}, {"lr": 0.005, "dropout": 0.3}, {"optimizer": "adam", "lr": 0.001}]')
open("problems.txt", "w").write("dense src=1x8192 outputs=128\n")
"""
PRELUDES = [
    ("counts.astype", "import numpy\ncounts = numpy.ones((32, 32, 32, 4))\nunit_parameters = numpy.zeros(4)\n"),
    ("sys.argv[1:]", "import sys\nsys.argv.append('universe-0001.h5')\n"),
]


def blocks(document):
    """(line, language, mark, code) of each block of commands."""
    text = document.read_text()
    for found in re.finditer(r"^```(sh|python)(?: ([^\n]*))?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield text.count("\n", 0, found.start()) + 1, found[1], found[2] or "", found[3]


def smaller(code):
    for pattern, replacement in SMALLER:
        code = re.sub(pattern, replacement, code, flags=re.MULTILINE)
    return code


@needs_h5py
class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="keelson-commands-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        programs = cls.folder / "bin"
        programs.mkdir()
        mpirun = programs / "mpirun"
        mpirun.write_text(f"#!/bin/sh\nexec {' '.join([shutil.which(MPIEXEC[0]), *MPIEXEC[1:]])} \"$@\"\n")
        mpirun.chmod(0o755)
        (programs / "python3").symlink_to(sys.executable)
        cls.work = cls.folder / "work"
        for folder in ("prepared", "universes"):
            for part in ("train", "validation", "test"):
                (cls.work / folder / part).mkdir(parents=True)
        (cls.work / "ptb").mkdir()
        for part, lines in (("train", 400), ("valid", 40), ("test", 40)):
            (cls.work / "ptb" / f"ptb.{part}.txt").write_text("the cat sat on the mat and saw <unk> dogs \n" * lines)
        cls.environment = {**os.environ, "PATH": f"{programs}:{os.environ['KEELSON_BIN']}:{os.environ['PATH']}"}
        subprocess.run([sys.executable, "-c", BROUGHT], cwd=cls.work, check=True)

    def run_block(self, language, code):
        if language == "sh":
            words = ["bash", "-euo", "pipefail", "-c", smaller(code)]
        else:
            prelude = "".join(text for sign, text in PRELUDES if sign in code)
            words = [sys.executable, "-c", prelude + code]
        return subprocess.run(words, cwd=self.work, env=self.environment, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=300)

    @long_test
    def test_each_runs_or_says_why_not(self):
        ran, failed = 0, []
        for document in FIRST + [d for d in DOCUMENTS if d not in FIRST]:
            for line, language, mark, code in blocks(document):
                where = f"{document.relative_to(TOP)}:{line}"
                if elsewhere := re.fullmatch(r"run by (\S+)", mark):
                    self.assertTrue((TOP / elsewhere[1]).is_file(), f"{where}: no file {elsewhere[1]}")
                elif mark:
                    self.assertRegex(mark, r"^not run: \S", where)
                else:
                    started = time.monotonic()
                    done = self.run_block(language, code)
                    print(f"{where}: {time.monotonic() - started:.1f} s", flush=True)
                    ran += 1
                    if done.returncode:
                        failed.append(f"{where}: exit code {done.returncode}\n{textwrap.indent(smaller(code), '  ')}\n{done.stdout}")
        self.assertFalse(failed, "\n".join(failed))
        self.assertGreater(ran, 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
