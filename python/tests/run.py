"""Installs the engine of a build tree and the Python package, as pip does it, into folders of the build, and runs the
package's tests on one rank and on two. Exit code 77: a package that the tests need is not installed."""

import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

NEEDED = {"nanobind": "python3-nanobind", "scikit_build_core": "python3-scikit-build-core", "numpy": "python3-numpy",
          "h5py": "python3-h5py", "mpi4py": "python3-mpi4py", "pytest": "python3-pytest"}
PYTHON = pathlib.Path(__file__).resolve().parents[1]


def run(*command, **variables):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, env={**os.environ, **variables})


def install(o, work):
    """The folder with the package. Its wheel is made by the function that pip calls (PEP 517), in this process' Python:
    pip itself needs certificates, which a private Debian does not have."""
    from scikit_build_core.build import build_wheel

    prefix, site = work / "prefix", work / "site"
    for folder in (prefix, site):
        shutil.rmtree(folder, ignore_errors=True)
    (work / "build" / "CMakeCache.txt").unlink(missing_ok=True)  # libraries may have been added or removed since then
    run(o.cmake, "--install", o.build, "--config", o.config, "--prefix", str(prefix))
    settings = {"build-dir": str(work / "build"), "cmake.define.CMAKE_CXX_COMPILER_LAUNCHER": o.launcher,
                "cmake.define.CMAKE_PREFIX_PATH": f"{prefix};{o.prefix_path}", "cmake.define.CMAKE_CXX_COMPILER": o.cxx,
                "cmake.build-type": o.config}
    os.chdir(PYTHON)
    wheel = build_wheel(str(work), {key: value for key, value in settings.items() if value})
    with zipfile.ZipFile(work / wheel) as archive:
        archive.extractall(site)
    return site


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("build", "work", "config", "cmake", "cxx", "launcher", "prefix-path"):
        parser.add_argument(f"--{option}", default="")
    o = parser.parse_args()
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f"SKIPPED: the Python package is not tested, since {', '.join(missing)} are not installed")
        sys.exit(77)
    work = pathlib.Path(o.work)
    work.mkdir(parents=True, exist_ok=True)
    site = install(o, work)
    tests = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(PYTHON / "tests"))
    os.chdir(work)  # in python/ Python would import the sources, not the installed package
    variables = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    run(*tests, **variables)
    run(*os.environ.get("KEELSON_MPIEXEC", "mpirun").split(), "-n", "2", *tests, **variables, OMP_NUM_THREADS="1")


if __name__ == "__main__":
    main()
