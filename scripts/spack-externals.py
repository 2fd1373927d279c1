#!/usr/bin/env python3
"""Writes a packages.yaml for Spack with the packages that this machine already has, so that Spack builds less.

usage: spack-externals.py [--compilers] > packages.yaml

--compilers: only the compilers, for plans of other machines

`spack external find` knows programs; libraries without a program are found here, by pkg-config and CMake's version files.
"""

import pathlib
import re
import shutil
import subprocess
import sys

PROGRAMS = {"cmake": "cmake", "ninja": "ninja", "gmake": "make", "pkgconf": "pkgconf", "python": "python3", "openmpi": "mpirun",
            "doxygen": "doxygen"}


def said(*command):
    """The output of a program; empty if it is missing."""
    try:
        return subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    except OSError:
        return ""


def version_in(text):
    found = re.search(r"\d+\.\d+(\.\d+)*", text)
    return found.group() if found else ""


def by_pkg_config(name):
    return version_in(said("pkg-config", "--modversion", name)) if shutil.which("pkg-config") else ""


def by_cmake(*names):
    """The version from the version file of a CMake package below /usr."""
    for name in names:
        for folder in ("/usr/lib", "/usr/share"):
            for file in pathlib.Path(folder).glob(f"**/cmake/{name}/*[vV]ersion.cmake"):
                found = re.search(r'set\(PACKAGE_VERSION "([\d.]+)"', file.read_text())
                if found:
                    return found.group(1)
    return ""


def by_program(name, option="--version"):
    return version_in(said(name, option)) if shutil.which(name) else ""


def prefix_of(program):
    """The folder that holds bin/PROGRAM; /usr for packages without a program."""
    found = shutil.which(program) if program else None
    return str(pathlib.Path(found).parent.parent) if found else "/usr"


def by_open_mpi():
    text = said("mpirun", "--version")
    return version_in(text) if re.search("Open MPI|OpenRTE|PRRTE", text) else ""


def compilers():
    version = version_in(said("gcc", "-dumpfullversion"))
    if not version:
        return ""
    names = {"c": "gcc", "cxx": "g++", "fortran": "gfortran"}
    paths = {language: shutil.which(program) for language, program in names.items() if shutil.which(program)}
    lines = "".join(f"          {language}: {path}\n" for language, path in paths.items())
    languages = ",".join("c++" if language == "cxx" else language for language in paths)
    return (f"  gcc:\n    externals:\n    - spec: gcc@{version} languages='{languages}'\n      prefix: {prefix_of('gcc')}\n"
            f"      extra_attributes:\n        compilers:\n{lines}")


def packages():
    """Specs of packages, without those that are missing here."""
    devices = "".join(file.read_text() for file in pathlib.Path("/usr/lib").glob("**/cmake/Kokkos/KokkosConfigCommon.cmake"))
    openmp, serial = (("+" if re.search(rf"Kokkos_DEVICES [^)]*{name.upper()}", devices) else "~") + name
                      for name in ("openmp", "serial"))
    found = {
        "cmake": (by_program("cmake"), ""),
        "ninja": (by_program("ninja"), ""),
        "gmake": (by_program("make"), ""),
        "pkgconf": (by_program("pkgconf"), ""),
        "python": (by_program("python3"), "+zlib+ssl+ctypes"),
        "openmpi": (by_open_mpi(), ""),
        "hdf5": (version_in(said("h5dump", "--version")) or by_pkg_config("hdf5"), "+mpi" if by_pkg_config("hdf5-openmpi") else "~mpi"),
        "zlib": (by_pkg_config("zlib"), ""),
        "kokkos": (by_cmake("Kokkos"), f"{openmp} {serial} cxxstd=20"),
        "onednn": (by_cmake("dnnl"), "cpu_runtime=omp"),
        "fftw": (by_pkg_config("fftw3"), "precision=float,double ~mpi"),
        "cli11": (by_pkg_config("CLI11") or by_cmake("CLI11"), ""),
        "cpp-httplib": (by_pkg_config("cpp-httplib"), ""),
        "fmt": (by_pkg_config("fmt"), ""),
        "nlohmann-json": (by_pkg_config("nlohmann_json"), ""),
        "googletest": (by_pkg_config("gtest"), ""),
        "benchmark": (by_pkg_config("benchmark"), ""),
        "doxygen": (by_program("doxygen"), ""),
        "py-nanobind": (version_in(said("python3", "-c", "import nanobind; print(nanobind.__version__)")), ""),
        "py-numpy": (version_in(said("python3", "-c", "import numpy; print(numpy.__version__)")), ""),
        "py-h5py": (version_in(said("python3", "-c", "import h5py; print(h5py.__version__)")), ""),
        "py-mpi4py": (version_in(said("python3", "-c", "import mpi4py; print(mpi4py.__version__)")), ""),
        "py-pip": (version_in(said("python3", "-m", "pip", "--version")), ""),
        "py-scikit-build-core": (version_in(
            said("python3", "-c", "import importlib.metadata as m; print(m.version('scikit_build_core'))")), ""),
    }
    return {name: f"{name}@{version} {rest}".strip() for name, (version, rest) in found.items() if version}


def main():
    if sys.argv[1:] not in ([], ["--compilers"]):
        sys.exit(__doc__)
    print("packages:")
    sys.stdout.write(compilers())
    for name, spec in packages().items() if not sys.argv[1:] else ():
        program = "python3" if name.startswith("py-") else PROGRAMS.get(name)
        print(f"  {name}:\n    externals:\n    - spec: {spec}\n      prefix: {prefix_of(program)}")
        if name.startswith("py-"):
            print("      dependencies:\n      - spec: python\n        deptypes: [build, run]")
        print("    buildable: false")


if __name__ == "__main__":
    main()
