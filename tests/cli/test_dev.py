"""./dev format sees the sources that git knows, and those that git does not know yet."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
UGLY = "int   main( ) {return 0;}\n"


@unittest.skipUnless(shutil.which("git") and shutil.which("clang-format"), "needs git and clang-format")
class Format(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        for name in ("dev", ".clang-format", ".gitignore", "CMakePresets.json"):
            shutil.copy(TOP / name, self.top)
        (self.top / "known.cpp").write_text("int main() { return 0; }\n")
        self.git("init", "--quiet")
        self.git("add", "known.cpp")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.top, check=True)

    def format(self, *arguments):
        return subprocess.run(["env", "KEELSON_USE=native", "./dev", "format", *arguments], cwd=self.top, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def test_a_file_that_git_does_not_know_is_checked_and_formatted(self):
        self.assertEqual(self.format("--check").returncode, 0)
        (self.top / "unknown.hpp").write_text(UGLY)
        found = self.format("--check")
        self.assertEqual(found.returncode, 1, found.stdout)
        self.assertIn("unknown.hpp", found.stdout)
        self.assertEqual((self.top / "unknown.hpp").read_text(), UGLY, "--check changes nothing")
        self.assertEqual(self.format().returncode, 0)
        self.assertEqual((self.top / "unknown.hpp").read_text(), "int main() { return 0; }\n")

    def test_ignored_and_deleted_files_are_left_alone(self):
        (self.top / "build").mkdir()
        (self.top / "build/made.cpp").write_text(UGLY)
        (self.top / "known.cpp").unlink()
        (self.top / "new name.cpp").write_text("int main() { return 0; }\n")
        found = self.format("--check")
        self.assertEqual(found.returncode, 0, found.stdout)


if __name__ == "__main__":
    unittest.main()
