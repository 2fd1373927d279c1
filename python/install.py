"""Installs the engine of a build tree, and the Python package, as pip does it, into WORK/prefix and WORK/site. Exit code 77:
something that the package is built with is not installed."""

import argparse
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

NEEDED = {"nanobind": "python3-nanobind", "scikit_build_core": "python3-scikit-build-core", "numpy": "python3-numpy"}
PYTHON = pathlib.Path(__file__).resolve().parent


def run(*command, **variables):
    print("+", *command, flush=True)
    subprocess.run(command, check=True, env={**os.environ, **variables})


def require(needed):
    """Ends with the code 77 if modules, of which the Debian packages are given, are missing."""
    missing = [package for module, package in needed.items() if importlib.util.find_spec(module) is None]
    if missing:
        print(f"SKIPPED: the Python package is not built, since {', '.join(missing)} are not installed")
        sys.exit(77)


def options(description):
    parser = argparse.ArgumentParser(description=description)
    for option in ("build", "work", "config", "cmake", "cxx", "launcher", "prefix-path"):
        parser.add_argument(f"--{option}", default="")
    return parser.parse_args()


def install(o):
    """The folder with the package. Its wheel is made by the function that pip calls (PEP 517), in this process' Python:
    pip itself needs certificates, which a private Debian does not have."""
    from scikit_build_core.build import build_wheel

    work = pathlib.Path(o.work).resolve()
    prefix, site = work / "prefix", work / "site"
    for folder in (prefix, site):
        shutil.rmtree(folder, ignore_errors=True)
    work.mkdir(parents=True, exist_ok=True)
    (work / "build" / "CMakeCache.txt").unlink(missing_ok=True)  # libraries may have been added or removed since then
    # The list of hundreds of installed files would hide what the tests say.
    installed = subprocess.run([o.cmake, "--install", o.build, "--config", o.config, "--prefix", str(prefix)],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if installed.returncode != 0:
        sys.exit(f"{installed.stdout}{o.cmake} --install {o.build} failed")
    settings = {"build-dir": str(work / "build"), "cmake.define.CMAKE_CXX_COMPILER_LAUNCHER": o.launcher,
                "cmake.define.CMAKE_PREFIX_PATH": f"{prefix};{o.prefix_path.replace('|', ';')}", "cmake.define.CMAKE_CXX_COMPILER": o.cxx,
                "cmake.build-type": o.config}
    os.chdir(PYTHON)
    wheel = build_wheel(str(work), {key: value for key, value in settings.items() if value})
    with zipfile.ZipFile(work / wheel) as archive:
        archive.extractall(site)
    os.chdir(work)  # in python/ Python would import the sources, not the installed package
    return site


if __name__ == "__main__":
    require(NEEDED)
    install(options(__doc__))
