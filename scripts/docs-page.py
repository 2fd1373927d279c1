#!/usr/bin/env python3
"""docs-page.py FILE.md: the page as Doxygen reads it. Below each block of commands that no test runs stands why."""

import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
text = re.sub(r"^```(\w+) not run: ([^\n]*)\n(.*?)^```$", r"```\1\n\3```\n\n*Not run by the tests: \2.*", text, flags=re.MULTILINE | re.DOTALL)
sys.stdout.write(re.sub(r"^```(\w+) run by [^\n]*$", r"```\1", text, flags=re.MULTILINE))
