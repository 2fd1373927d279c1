"""scripts/check-names.py finds names that two sources of a target define in their anonymous namespaces."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/check-names.py"


class Names(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def check(self, *contents, namespace="a"):
        """What is said of sources whose anonymous namespaces have these contents; empty: nothing."""
        files = []
        for number, content in enumerate(contents):
            files.append(self.folder / f"{number}.cpp")
            files[-1].write_text(f"#include <vector>\nnamespace {namespace} {{\nnamespace {{\n{content}\n}}\n}}\n")
        done = subprocess.run([sys.executable, SCRIPT, "the_target", *files], text=True, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode != 0, bool(done.stderr), done.stderr)
        return done.stderr

    def test_both_places_and_the_target_are_named(self):
        said = self.check("int x = 1;\nconstexpr int most = 3;", "bool f();\n\ndouble most{2.5};")
        self.assertRegex(said, r"1\.cpp:6: 'most' is also in the anonymous namespace of .*0\.cpp:5")
        self.assertIn("the_target", said)

    def test_all_kinds_of_names_are_found(self):
        for name, one, other in (
                ("Lane", "struct Lane { int a; };", "class Lane final : public Base<int> { void f() {} };"),
                ("Lane", "struct Lane { int a; };", "enum class Lane : char { left, right };"),
                ("run", "void run(const std::vector<int>& v, int n = 3) { v[n]; }", "void run(const std::vector<int>& other, int) {}"),
                ("run", "template <class T>\nT run(T t) { return t; }", "template <class T>\nT run(T other) { return other; }"),
                ("run", "int run() { return 1; }", "struct run { int a; };"),
                ("names", "const std::vector<int> names{1, 2};", "constexpr const char* names[] = {\"a\", \"b\"};"),
                ("b", "constexpr int a = 1, b = 2;", "int b;"),
                ("Kind", "using Kind = int;", "using Kind = long;"),
                ("TEST", "TEST(Pool, IsFast) { f(); }", "TEST(Pool, IsFast) { g(); }")):
            self.assertIn(f"'{name}'", self.check(one, other), one)

    def test_what_a_compiler_takes_is_fine(self):
        for one, other in (
                ("void run(int n) {}", "void run(long n) {}"),  # an overload
                ("using Kind = int;", "using Kind = int;"),
                ("struct Lane;", "struct Lane { int a; };"),
                ("struct A { int most; void f() { int n; } };", "struct B { int most; void f() { int n; } };"),
                ("// int most;\n/* int most; */ const char* text = \"int most;\";", "int most;"),
                ("void A::f() {}", "void A::f() {}"),  # a member
                ("TEST(Pool, IsFast) {}", "TEST(Pool, IsRight) {}"),
                ("using namespace std;", "using namespace std;")):
            self.assertEqual(self.check(one, other), "", one)

    def test_other_namespaces_are_other_places(self):
        (self.folder / "b.cpp").write_text("namespace b { namespace { int most; } }")
        (self.folder / "c.cpp").write_text("namespace c { namespace { int most; } }")
        subprocess.run([sys.executable, SCRIPT, "t", self.folder / "b.cpp", self.folder / "c.cpp"], check=True)


if __name__ == "__main__":
    unittest.main()
