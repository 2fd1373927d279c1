import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Keelson(CMakePackage):
    """Training of 3-D convolutional, recurrent and segmentation networks for science, data-parallel on
    supercomputers, on CPUs (oneDNN) or GPUs (CUDA), on Kokkos and MPI."""

    # The sources are those that this package lies in, unless `spack develop` or a dev_path says otherwise.
    homepage = "file://" + os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 5))
    git = homepage

    test_requires_compiler = True

    license("Apache-2.0")

    version("main", branch="main")

    variant("apps", default=True, description="The programs keelson-cosmoflow, keelson-lm, keelson-climate, keelson-tabular, keelson-minerva, keelson-label, keelson-bench")
    variant("onednn", default=True, description="oneDNN, the fast backend of CPUs")
    variant("kokkos_kernels", default=False, description="Kokkos Kernels for dense linear algebra")
    variant("lapack", default=True, description="LAPACK, for the optimizers Shampoo and K-FAC on CPUs")
    variant("libdeflate", default=True, description="libdeflate, which decompresses HDF5 files faster than zlib")
    variant("parquet", default=False, description="Apache Arrow, which reads tables in Parquet files")
    variant("httplib", default=True, description="cpp-httplib, which the page of keelson-label needs", when="+apps")
    variant("cuda", default=False, description="GPUs, by CUDA")
    # Kokkos builds for one architecture, so what stands on it does, too.
    variant(
        "cuda_arch",
        default="none",
        values=("none",) + CudaPackage.cuda_arch_values,
        multi=False,
        description="The GPU's architecture: 70 for V100, 80 for A100, 90 for H100 and H200",
        when="+cuda",
    )
    variant("cudnn", default=True, description="cuDNN, the fast convolutions of GPUs", when="+cuda")
    variant("nccl", default=True, description="NCCL, to exchange arrays between GPUs", when="+cuda")
    variant("python", default=False, description="The Python package")
    variant("fortran", default=True, description="The Fortran module for networks inside simulations")
    variant("docs", default=False, description="The site of guides and API")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("mpi@3.1:")
    depends_on("hdf5@1.10:")
    depends_on("zlib-api")
    depends_on("fmt@9:")
    depends_on("nlohmann-json@3.10:")
    depends_on("kokkos@4.5:5")
    depends_on("kokkos +openmp", when="~cuda")
    depends_on("cli11@2.1:", when="+apps")
    depends_on("fftw@3 precision=float,double", when="+apps")
    depends_on("onednn@3.1: cpu_runtime=omp", when="+onednn")
    depends_on("kokkos-kernels@4.5:5", when="+kokkos_kernels")
    depends_on("lapack", when="+lapack")
    depends_on("libdeflate", when="+libdeflate")
    depends_on("arrow@12: +parquet", when="+parquet")
    depends_on("cpp-httplib@0.14:", when="+httplib")
    depends_on("googletest", type="test")
    depends_on("benchmark", type="test")
    depends_on("doxygen", type="build", when="+docs")

    with when("+cuda"):
        depends_on("cuda@12:")
        depends_on("cudnn@9:", when="+cudnn")
        depends_on("nccl@2.13:", when="+nccl")
        for _arch in CudaPackage.cuda_arch_values:
            depends_on(f"kokkos +cuda +cmake_lang cuda_arch={_arch}", when=f"cuda_arch={_arch}")
            depends_on(f"nccl +cuda cuda_arch={_arch}", when=f"+nccl cuda_arch={_arch}")
        requires("^kokkos +cuda_lambda", when="^kokkos@:4", msg="Keelson's kernels are lambdas: kokkos +cuda_lambda")
        conflicts("cuda_arch=none", msg="Say for which GPU: cuda_arch=70 (V100), 80 (A100), 90 (H100, H200)")
        for _arch in ("70", "72"):
            conflicts(
                "cudnn@9.11:",
                when=f"+cudnn cuda_arch={_arch}",
                msg="cuDNN 9.10 is the last for Volta: cudnn@9:9.10, with cuda@12, or ~cudnn",
            )
            conflicts("cuda@13:", when=f"cuda_arch={_arch}", msg="CUDA 12 is the last for Volta: cuda@12")
        conflicts("+cudnn", when="target=ppc64le:", msg="cuDNN 9 is for x86-64 and Arm only: ~cudnn")

    # Not extends("python"): its virtual environment would hide the NumPy of a machine whose own Python is used.
    with when("+python"):
        depends_on("python@3.10:", type=("build", "run"))
        depends_on("py-nanobind@2.4:", type="build")
        depends_on("py-scikit-build-core@0.10:", type="build")
        depends_on("py-pip", type="build")
        depends_on("py-numpy@1.24:", type=("build", "run"))
        depends_on("py-h5py", type="run")
        depends_on("py-mpi4py@4:", type="run")
        requires("+apps", msg="the Python package has the readers of the programs' data: +apps")

    conflicts("%gcc@:11", msg="C++20 as Keelson uses it needs GCC 12 or later")
    conflicts("%clang@:15", msg="C++20 as Keelson uses it needs Clang 16 or later")

    generator("ninja")

    def cmake_args(self):
        chosen = self.define_from_variant
        # Spack's compiler wrapper tunes for the target of the spec.
        arguments = [
            self.define("KEELSON_NATIVE", False),
            self.define("KEELSON_FETCH_KOKKOS", False),
            self.define("KEELSON_TESTS", self.run_tests),
            self.define("KEELSON_WITH_SIMGRID", "OFF"),
            chosen("KEELSON_APPS", "apps"),
            chosen("KEELSON_WITH_ONEDNN", "onednn"),
            chosen("KEELSON_WITH_KOKKOS_KERNELS", "kokkos_kernels"),
            chosen("KEELSON_WITH_LAPACK", "lapack"),
            chosen("KEELSON_WITH_LIBDEFLATE", "libdeflate"),
            chosen("KEELSON_WITH_PARQUET", "parquet"),
            self.define("KEELSON_WITH_HTTPLIB", self.spec.satisfies("+httplib")),
            chosen("KEELSON_WITH_CUDA", "cuda"),
            self.define("KEELSON_WITH_CUDNN", self.spec.satisfies("+cudnn")),
            self.define("KEELSON_WITH_NCCL", self.spec.satisfies("+nccl")),
        ]
        if self.spec.satisfies("+cuda"):
            arguments.append(self.define("CMAKE_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return arguments

    @property
    def python_folder(self):
        return join_path(self.prefix.lib, f"python{self.spec['python'].version.up_to(2)}", "site-packages")

    @property
    def python3(self):
        return Executable(join_path(self.spec["python"].prefix.bin, "python3"))

    @run_after("install", when="+python")
    def install_python(self):
        prefixes = ";".join([str(self.prefix)] + [str(d.prefix) for d in self.spec.traverse(root=False)])
        # A folder instead of a prefix, since Debian's pip would put "local" behind a prefix.
        self.python3("-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", f"--target={self.python_folder}",
                     "-C", f"cmake.define.CMAKE_PREFIX_PATH={prefixes}", join_path(self.stage.source_path, "python"))

    def setup_run_environment(self, env):
        if self.spec.satisfies("+python"):
            env.prepend_path("PYTHONPATH", self.python_folder)

    @run_after("install", when="+docs")
    def install_docs(self):
        with working_dir(self.stage.source_path):
            Executable(join_path("scripts", "docs.sh"))()
        install_tree(os.path.join(self.stage.source_path, "build", "docs", "html"), self.prefix.share.doc.keelson)

    def test_train(self):
        """train a small CosmoFlow on made-up universes, and evaluate it"""
        if self.spec.satisfies("~apps"):
            raise SkipTest("keelson ~apps has no programs")
        program = which(self.prefix.bin.join("keelson-cosmoflow"), required=True)
        program("generate", "--out", "universes", "--size", "32", "--particles", "1", "--order", "1", "--train", "8",
                "--validation", "2", "--test", "2")
        program("train", "--recipe", "demo", "--data", "universes", "--out", "run", "--epochs", "2", "--overwrite")
        out = program("evaluate", "--checkpoint", "run", "--data", "universes", output=str.split)
        assert "MAE" in out, out

    def test_python(self):
        """import the Python package and make a network"""
        if self.spec.satisfies("~python"):
            raise SkipTest("keelson ~python has no Python package")
        self.python3("-c", "import keelson; keelson.nets.cosmoflow(size=32)")
