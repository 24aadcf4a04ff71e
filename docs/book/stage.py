"""Lays out the sources of the book for mdBook: stage.py FOLDER.

docs/SUMMARY.md names the pages. Each keeps its place in the repository, so a link from page to page is the same in both
forms. mdBook makes pages of Markdown alone: a file of another kind that a page links to becomes a page that shows it, a
folder becomes a list of what is in it, and the links to them are changed here. Pictures are copied.
"""

import html
import posixpath
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUMMARY = "docs/SUMMARY.md"
LINK = re.compile(r"\]\(([^)\s]+)\)")
PICTURES = {".svg", ".png"}
SHOWN = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width">
<style>:root {{ color-scheme: light dark }} body {{ margin: 2rem; font: 15px/1.5 system-ui, sans-serif }}
pre {{ font: 13px/1.45 ui-monospace, monospace; overflow-x: auto }}</style></head>
<body><h1>{title}</h1>
{body}
</body></html>
"""


def fail(sentence):
    sys.exit(f"stage.py: {sentence}")


def tracked(folder):
    """The files below a folder that git knows or would know."""
    known = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", folder]
    return subprocess.run(known, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def resolved(page, target):
    """Where a link of a page leads, from the root of the repository."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(page), target))


def outside_code(text, change):
    """The text, each line that is in no fenced block changed."""
    fenced = False
    for line in text.splitlines(keepends=True):
        fence = line.lstrip().startswith("```")
        fenced ^= fence
        yield line if fenced or fence else change(line)


class Stage:
    def __init__(self, folder):
        self.folder = Path(folder)
        self.summary = (ROOT / SUMMARY).read_text()
        self.pages = [resolved(SUMMARY, target) for target in LINK.findall(self.summary)]

    def lay(self):
        twice = {page for page in self.pages if self.pages.count(page) > 1}
        if twice:
            fail(f"{SUMMARY} names {sorted(twice)} twice")
        self.write("SUMMARY.md", LINK.sub(lambda link: f"]({resolved(SUMMARY, link[1])})", self.summary))
        for page in self.pages:
            text = (ROOT / page).read_text()
            changed = outside_code(text, lambda line, page=page: LINK.sub(lambda link: self.link(page, link[1]), line))
            self.write(page, "".join(changed))

    def link(self, page, target):
        """A link as the book has it; what it leads to is laid out, too."""
        path, hash_sign, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:") or not path:
            return f"]({target})"
        file = resolved(page, path)
        if file in self.pages:
            return f"]({target})"
        if file == SUMMARY:
            # The contents are beside every page there.
            return f"]({posixpath.relpath('index.html', posixpath.dirname(page) or '.')})"
        return f"]({path}{self.show(page, file)}{hash_sign}{anchor})"

    def show(self, page, file):
        """Lays out a file or a folder that is no page, and says what is to be added to a link to it."""
        source = ROOT / file
        if source.is_dir():
            names = "".join(f"<li><code>{html.escape(name)}</code></li>\n" for name in tracked(file))
            self.write(f"{file}/index.html", SHOWN.format(title=html.escape(file), body=f"<ul>\n{names}</ul>"))
            return "/index.html"
        if not source.is_file():
            fail(f"{page} links to {file}, which is not there")
        if source.suffix == ".md":
            fail(f"{page} links to {file}, which {SUMMARY} does not name")
        if source.suffix in PICTURES:
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, self.folder / file)
            return ""
        body = f"<pre>{html.escape(source.read_text())}</pre>"
        self.write(f"{file}.html", SHOWN.format(title=html.escape(file), body=body))
        return ".html"

    def write(self, file, text):
        path = self.folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    Stage(sys.argv[1]).lay()
