#!/usr/bin/env python3
"""docs-links.py FOLDER: fails if a page of the site in FOLDER links to a page or heading that does not exist."""

import html.parser
import pathlib
import sys


class Page(html.parser.HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.names, self.links = set(), []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.names |= {attrs.get("id"), attrs.get("name")}
        if tag == "a" and "href" in attrs and ":" not in attrs["href"]:
            self.links.append(attrs["href"])


folder = pathlib.Path(sys.argv[1])
pages = {file.name: Page(file) for file in (folder / "index.html", *folder.glob("md_*.html"))}
broken = []
for name, page in pages.items():
    for link in page.links:
        file, _, heading = link.partition("#")
        if file and not (folder / file).exists() or heading and (target := pages.get(file or name)) and heading not in target.names:
            broken.append(f"{name}: {link}")
sys.exit("\n".join(["links that lead nowhere:", *broken]) if broken else 0)
