"""Installs the engine of a build tree and the Python package into folders of the build (../install.py), and runs the package's
tests on one rank and on two. Exit code 77: a package that the tests need is not installed."""

import os
import pathlib
import sys

TESTS = pathlib.Path(__file__).resolve().parent
sys.path.append(str(TESTS.parent))
from install import NEEDED, install, options, require, run  # noqa: E402


def main():
    o = options(__doc__)
    require({**NEEDED, "h5py": "python3-h5py", "mpi4py": "python3-mpi4py", "pytest": "python3-pytest"})
    site = install(o)
    tests = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(TESTS))
    variables = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    run(*tests, **variables)
    run(*os.environ.get("KEELSON_MPIEXEC", "mpirun").split(), "-n", "2", *tests, **variables, OMP_NUM_THREADS="1")


if __name__ == "__main__":
    main()
