"""What the configuration of a build for GPUs refuses, as far as that can be seen without CUDA."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(x LANGUAGES NONE)
list(PREPEND CMAKE_MODULE_PATH {top}/cmake)
set(KEELSON_HAVE_CUDA ON)
include(KeelsonCudnn)
message(STATUS "have cuDNN: ${{KEELSON_HAVE_CUDNN}} ${{cuDNN_VERSION}}")
"""


@unittest.skipUnless(shutil.which("cmake"), "needs cmake")
class Cudnn(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "CMakeLists.txt").write_text(PROJECT.format(top=TOP))
        (self.folder / "libcudnn.so").write_text("")

    def configure(self, version, architectures, *options):
        parts = zip(("MAJOR", "MINOR", "PATCHLEVEL"), version.split("."))
        (self.folder / "cudnn_version.h").write_text("".join(f"#define CUDNN_{p} {n}\n" for p, n in parts))
        done = subprocess.run(
            ["cmake", "-G", "Ninja", "-S", self.folder, "-B", self.folder / "build", "--fresh",
             f"-DcuDNN_INCLUDE_DIR={self.folder}", f"-DcuDNN_LIBRARY={self.folder}/libcudnn.so",
             f"-DCMAKE_CUDA_ARCHITECTURES={architectures}", *options],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, " ".join(done.stdout.split())

    def test_volta_is_refused_with_a_cudnn_that_has_dropped_it(self):
        for architecture in ("70", "70-real", "72"):
            code, text = self.configure("9.11.0", f"{architecture};80;90")
            self.assertNotEqual(code, 0, text)
            for part in (f"has '{architecture}', but cuDNN 9.11.0 in {self.folder} has no kernels for Volta",
                         "a cuDNN from 9.0 to 9.10 is expected", "Set cuDNN_ROOT to cuDNN 9.10 for CUDA 12",
                         "-DKEELSON_WITH_CUDNN=OFF"):
                self.assertIn(part, text)

    def test_what_goes_together_is_taken(self):
        for version, architectures in (("9.10.2", "70;80"), ("9.19.0", "75-real;80;90a"), ("9.0.0", "72")):
            code, text = self.configure(version, architectures)
            self.assertEqual(code, 0, text)
            self.assertIn(f"have cuDNN: ON {version}", text)

    def test_without_cudnn_volta_is_taken(self):
        code, text = self.configure("9.19.0", "70", "-DKEELSON_WITH_CUDNN=OFF")
        self.assertEqual(code, 0, text)
        self.assertIn("have cuDNN: OFF", text)


if __name__ == "__main__":
    unittest.main()
