"""Whether every link of a book in HTML leads somewhere, and nothing of it comes from elsewhere: check.py FOLDER."""

import posixpath
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser fetches by itself.
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}


class Page(HTMLParser):
    """The anchors of a page, and where its links lead."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.fetched = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif (tag, name) in FETCHED and value:
                self.fetched.append(value)
            elif (tag, name) == ("a", "href") and value:
                self.links.append(value)


def faults(folder):
    """What is wrong, one sentence each, and how many links were followed."""
    found, followed = [], 0
    pages = {path.relative_to(folder).as_posix(): Page(path.read_text()) for path in folder.rglob("*.html")}
    for name, page in pages.items():
        found += [f"{name} fetches {link}" for link in page.fetched if urlsplit(link).netloc]
        for link in page.links + page.fetched:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            followed += 1
            path = posixpath.join(posixpath.dirname(name), unquote(parts.path))
            file = posixpath.normpath(path) if parts.path else name
            if not (folder / file).is_file():
                found.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors:
                found.append(f"{name}: {link} leads to no heading")
    return found, followed


if __name__ == "__main__":
    wrong, followed = faults(Path(sys.argv[1]))
    print("\n".join(wrong), file=sys.stderr, end="\n" if wrong else "")
    print(f"{followed} links lead somewhere" if not wrong else f"{len(wrong)} of {followed} links are wrong")
    sys.exit(1 if wrong else 0)
