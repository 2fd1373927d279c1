#!/usr/bin/env python3
"""docs-page.py FILE.md: prints the page in the form for Doxygen. Below each block of commands that no test runs, adds
the reason. Links to headings become HTML, since Doxygen writes their text twice; links to files that are no pages
become plain text."""

import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def page(file):
    """Doxygen's name of one of these pages; None: the file is no page."""
    name = file.relative_to(TOP).as_posix()
    if name == "README.md":
        return "index.html"
    return f"md_{name[:-3].replace('/', '_2')}.html" if file.suffix == ".md" and file.parent in (TOP, TOP / "docs") else None


def link(found, document):
    text, target = found[1], found[2]
    if re.match(r"[a-z]+:", target):
        return found[0]
    path, _, heading = target.partition("#")
    html = page((document.parent / path).resolve() if path else document)
    heading = f"autotoc_md{heading}" if heading[:1].isdigit() else heading  # Doxygen's name of the heading
    return f'<a href="{html}{"#" + heading if heading else ""}">{text}</a>' if html else text


def without_marks(block):
    block = re.sub(r"\A```(\w+) not run: ([^\n]*)\n(.*)\Z", r"```\1\n\3\n\n*Not run by the tests: \2.*", block, flags=re.DOTALL)
    return re.sub(r"\A```(\w+) run by [^\n]*", r"```\1", block)


def main():
    document = pathlib.Path(sys.argv[1]).resolve()
    text, end = document.read_text(encoding="utf-8"), 0
    for block in [*FENCED.finditer(text), None]:
        prose = text[end:block.start() if block else len(text)]
        sys.stdout.write(re.sub(r"(?<!!)\[((?:[^\[\]]|`[^`]*`)*)\]\(([^)\s]+)\)", lambda found: link(found, document), prose))
        if block:
            sys.stdout.write(without_marks(block[0]))
            end = block.end()


main()
