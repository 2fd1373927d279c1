"""README.md and docs/ say what is: their commands, options, variables, files, links and the C++ example exist."""

import os
import pathlib
import re
import subprocess
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
DOCUMENTS = [TOP / "README.md", TOP / "CONTRIBUTING.md", *sorted((TOP / "docs").glob("*.md"))]
FOLDERS = ("apps", "backends", "cmake", "comm", "docs", "engine", "nets", "python", "scripts", "tests")


def blocks(document, language):
    return re.findall(rf"^```{language}(?: [^\n]*)?\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)


def prose(document):
    """The text without blocks of code."""
    return re.sub(r"^```.*?^```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)


def commands(document, pattern):
    """Words from the one that matches on, for each command of the document's shell blocks."""
    for block in blocks(document, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|\||;|\|", line.split(" # ")[0]):
                words = part.split()
                for i, word in enumerate(words):
                    if re.fullmatch(pattern, word):
                        yield words[i:]
                        break


def help_of(*words):
    program = os.path.join(os.environ["KEELSON_BIN"], words[0])
    done = subprocess.run([program, *words[1:], "--help"], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    return done.stdout


def sources():
    """Text of everything that may read a variable."""
    for folder in FOLDERS:
        for path in (TOP / folder).rglob("*"):
            if path.suffix in (".cpp", ".hpp", ".cmake", ".sh", ".py", ".txt"):
                yield path, path.read_text()
    for name in ("dev", "CMakeLists.txt"):
        yield TOP / name, (TOP / name).read_text()


class Documents(unittest.TestCase):
    def test_the_examples_are_what_the_tests_compile(self):
        folders = ("tests", "engine", "backends", "comm", "python/src")
        compiled = [path.read_text() for folder in folders for path in (TOP / folder).rglob("*.[ch]pp")]
        examples = [block for document in DOCUMENTS for block in blocks(document, "cpp")]
        self.assertGreaterEqual(len(examples), 6)
        for example in examples:
            for part in re.split(r"^\.\.\.\n", example, flags=re.MULTILINE):
                self.assertTrue(any(part in text for text in compiled), part)

    def test_the_glossary_names_what_headers_have(self):
        entries = re.findall(r"\| `(\w+)`, `([\w/.]+)` \|", (TOP / "docs/glossary.md").read_text())
        self.assertGreater(len(entries), 50)
        for name, header in entries:
            self.assertRegex((TOP / header).read_text(), rf"\b{name}\b", f"docs/glossary.md names {name} of {header}")

    def test_programs_have_the_options(self):
        known = {}
        checked = 0
        for document in DOCUMENTS:
            for words in commands(document, r"keelson-[a-z]+"):
                subcommand = tuple(words[:2]) if len(words) > 1 and not words[1].startswith("-") else tuple(words[:1])
                if subcommand not in known:
                    known[subcommand] = help_of(*subcommand)
                for word in words[len(subcommand):]:
                    option = re.match(r"--[a-z0-9-]+", word)
                    if option:
                        checked += 1
                        self.assertRegex(known[subcommand], rf"(?<![\w-]){option[0]}(?![\w-])", f"{document.name}: {' '.join(words)}")
        self.assertGreater(checked, 10)

    def test_dev_has_the_verbs(self):
        usage = subprocess.run([TOP / "dev"], text=True, stdout=subprocess.PIPE, check=True).stdout
        for document in DOCUMENTS:
            for words in commands(document, r"\./dev"):
                if len(words) > 1:
                    self.assertRegex(usage, rf"(?m)^  {words[1]}\b", f"{document.name}: {' '.join(words)}")

    def test_links_lead_somewhere(self):
        for document in DOCUMENTS:
            for target in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
                if re.match(r"[a-z]+:", target):
                    continue
                path, _, heading = target.partition("#")
                file = document.parent / path if path else document
                self.assertTrue(file.exists(), f"{document.name}: {target}")
                if heading:
                    titles = re.findall(r"^#+ (.*)$", prose(file), re.MULTILINE)
                    anchors = [re.sub(r"[^\w -]", "", t.lower()).replace(" ", "-") for t in titles]
                    self.assertIn(heading, anchors, f"{document.name}: {target}")

    def test_files_exist(self):
        for document in DOCUMENTS:
            for name in re.findall(rf"`((?:{'|'.join(FOLDERS)})/[^`\s]*)`", prose(document)):
                if "<" in name:  # a pattern for people
                    continue
                names = [name]
                if braces := re.fullmatch(r"(.*)\{(.*)\}(.*)", name):
                    names = [braces[1] + part + braces[3] for part in braces[2].split(",")]
                for n in names:
                    self.assertTrue(list(TOP.glob(n.rstrip("/"))), f"{document.name}: {n}")

    def test_variables_exist_and_are_all_told(self):
        texts = dict(sources())
        everything = "\n".join(text for path, text in texts.items() if path != pathlib.Path(__file__).resolve())
        for document in DOCUMENTS:
            for name in set(re.findall(r"KEELSON_[A-Z_]*[A-Z]", document.read_text())):
                self.assertRegex(everything, rf"\b{name}\b", document.name)
        told = (TOP / "docs/environment.md").read_text()
        for path, text in texts.items():
            if path.suffix == ".cpp" and path.relative_to(TOP).parts[0] != "tests":
                for name in re.findall(r'"(KEELSON_[A-Z_]+)"', text):
                    self.assertIn(name, told, f"read by {path}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
