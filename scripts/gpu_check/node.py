"""The node: paths of the programs and of the libraries that they load, and the command that starts two ranks."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tarfile

# NVIDIA's libraries that the programs load; cuDNN loads its parts by their names.
NVIDIA = ("libcudart.so.*", "libcublasLt.so.*", "libcublas.so.*", "libcusolver.so.*", "libcusparse.so.*", "libnvJitLink.so.*",
          "libcudnn*.so.*", "libnccl.so.*", "libnvrtc*.so.*")


class Unusable(Exception):
    """An error that the user can correct: the text says what was found, what was expected, what to try."""


def cuda_home():
    """CUDA's folder, or None."""
    nvcc = shutil.which("nvcc")
    candidates = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"),
                  nvcc and str(pathlib.Path(nvcc).resolve().parents[1]), "/usr/local/cuda"]
    return next((pathlib.Path(c) for c in candidates if c and pathlib.Path(c).is_dir()), None)


def library_folders(paths=None):
    """Folders with NVIDIA's libraries: those of Python packages (nvidia/*/lib, torch/lib), then those of CUDA."""
    candidates = []
    for path in sys.path if paths is None else paths:
        site = pathlib.Path(path or ".")
        candidates += sorted(site.glob("nvidia/*/lib")) + [site / "torch/lib"]
    home = cuda_home()
    if home:
        candidates += [home / "lib64", home / "lib"]
    folders = []
    for folder in candidates:
        real = str(folder.resolve())
        if real not in folders and any(any(folder.glob(pattern)) for pattern in NVIDIA):
            folders.append(real)
    return folders


def unpack(archives, where):
    """Unpacks archives of Keelson into one folder and returns the archive's own folder there."""
    pathlib.Path(where).mkdir(parents=True, exist_ok=True)
    tops = set()
    for archive in archives:
        try:
            with tarfile.open(archive) as tar:
                tops |= {name.lstrip("./").split("/")[0] for name in tar.getnames()} - {""}
                if hasattr(tarfile, "data_filter"):
                    tar.extractall(where, filter="data")
                else:
                    tar.extractall(where)
        except (OSError, tarfile.TarError) as e:
            raise Unusable(f"the archive {archive} cannot be unpacked: {e}; make it by cpack (docs/running-on-a-cluster.md)")
    if len(tops) != 1:
        raise Unusable(f"the archives unpack into {sorted(tops)}, but one folder was expected: take them from one build")
    return pathlib.Path(where) / tops.pop()


class Node:
    def __init__(self, programs, out):
        """programs: the folder with keelson-bench and the others. An archive may have lib/ and mpi/ next to it."""
        self.programs = pathlib.Path(programs).resolve()
        bench = self.programs / "keelson-bench"
        if not bench.exists():
            raise Unusable(f"no keelson-bench in {self.programs}; give --archive FILE or --programs DIR "
                           "(the folder bin/ of a build or of an unpacked archive)")
        # A cache that the user names has the tuner's choices of an earlier check.
        self.env = dict(os.environ, KEELSON_CACHE=os.environ.get("KEELSON_CACHE", str(out / "cache")),
                        OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", GTEST_COLOR="no")
        self.folders = library_folders()
        mpi = self.programs.parent / "mpi"
        if mpi.is_dir():  # Open MPI of the build machine, for nodes without MPI
            self.env.update(OPAL_BINDIR=f"{mpi}/bin", OPAL_LIBDIR=f"{mpi}/lib", OPAL_PKGLIBDIR=f"{mpi}/plugins",
                            OPAL_PKGDATADIR=f"{mpi}/share", OPAL_SYSCONFDIR=f"{mpi}/share",
                            OMPI_MCA_mca_base_component_path=f"{mpi}/plugins",
                            PMIX_MCA_mca_base_component_path=f"{mpi}/pmix", PATH=f"{mpi}/bin:{os.environ['PATH']}")
            self.folders.insert(0, str(mpi / "lib"))
        given = [f for f in os.environ.get("LD_LIBRARY_PATH", "").split(":") if f]
        self.env["LD_LIBRARY_PATH"] = ":".join(given + self.folders)
        if not self.env["LD_LIBRARY_PATH"]:
            del self.env["LD_LIBRARY_PATH"]

    def program(self, name):
        """The path of a program, or None."""
        path = self.programs / name
        return path if path.exists() else None

    def mpiexec(self):
        """The command that starts ranks, without "-n N"; None if there is no mpirun."""
        if "KEELSON_MPIEXEC" in os.environ:
            return shlex.split(os.environ["KEELSON_MPIEXEC"])
        mpirun = shutil.which("mpirun", path=self.env["PATH"])
        if not mpirun:
            return None
        version = subprocess.run([mpirun, "--version"], env=self.env, text=True, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT).stdout
        if re.search("Open MPI|OpenRTE", version):  # ranks may share cores here
            # Open MPI 4 ends without a remote shell, which one node does not need.
            remote = any(shutil.which(shell, path=self.env["PATH"]) for shell in ("ssh", "rsh"))
            alone = [] if remote or not re.search(r"\b4\.\d+\.\d+", version) else ["--mca", "plm", "isolated"]
            return [mpirun, *alone, "--bind-to", "none", "--map-by", ":OVERSUBSCRIBE"]
        return [mpirun]

    def tool(self, name):
        """A program of CUDA or of the node, or None."""
        home = cuda_home()
        places = [str(home / "bin"), str(home / "compute-sanitizer")] if home else []
        return shutil.which(name, path=":".join([os.environ["PATH"], *places, "/usr/local/nvidia/bin"]))
