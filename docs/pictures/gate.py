"""Draws docs/pictures/gate.svg: speed-up over requests at once, from tables of docs/benchmarks.md.

    python3 docs/pictures/gate.py
"""

import math
import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[1]
# The section of a table, the column of its ratios, and how it is named.
SERIES = [
    ("### The same processor, a day later", 2, "AVX-512 (Zen 5)", "#2b6cb0"),
    ("## A processor with AVX2 alone", 2, "AVX2 alone (Zen 3)", "#c05621"),
]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 330, 60, 20, 44, 52
LEAST, MOST = 0.7, 2.1
RATIO = re.compile(r"([\d.]+)x \(([\d.]+) to ([\d.]+)\)")


def points(section, column):
    """(requests at once, ratio, low, high) of the table under load in a section."""
    text = (DOCS / "benchmarks.md").read_text().split(f"\n{section}\n", 1)[1]
    table = text.split("**Under load.**", 1)[1].split("\n| at once", 1)[1].split("\n\n", 1)[0]
    for row in table.splitlines()[2:]:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        ratio, low, high = map(float, RATIO.match(cells[column]).groups())
        yield int(cells[0]), ratio, low, high


def x(at_once, shift=0):
    return LEFT + 24 + math.log2(at_once) / 6 * (WIDTH - LEFT - RIGHT - 48) + shift


def y(ratio):
    return TOP + (MOST - ratio) / (MOST - LEAST) * (HEIGHT - TOP - BOTTOM)


def text(left, top, said, anchor="middle", size=12, fill="#222"):
    return f'<text x="{left:.1f}" y="{top:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{fill}">{said}</text>'


def drawing():
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'font-family="sans-serif" role="img" aria-label="Speed-up of drafting over requests at once">'
    )
    yield f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    yield text(LEFT, 22, "speed-up over plain decoding", "start", 13)
    for tick in (0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0):
        dash = "" if tick == 1.0 else ' stroke-dasharray="2 4"'
        stroke = "#222" if tick == 1.0 else "#bbb"
        yield f'<path d="M{LEFT} {y(tick):.1f}H{WIDTH - RIGHT}" stroke="{stroke}"{dash}/>'
        yield text(LEFT - 8, y(tick) + 4, f"{tick:.1f}", "end")
    for at_once in (1, 2, 4, 8, 16, 32, 64):
        yield text(x(at_once), HEIGHT - BOTTOM + 20, at_once)
    yield text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "requests at once, on two cores", size=13)
    for i, (section, column, name, colour) in enumerate(SERIES):
        shift, found = (i - 0.5) * 8, list(points(section, column))
        line = " ".join(f"{x(n, shift):.1f},{y(ratio):.1f}" for n, ratio, _, _ in found)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
        for n, ratio, low, high in found:
            yield f'<path d="M{x(n, shift):.1f} {y(low):.1f}V{y(high):.1f}" stroke="{colour}"/>'
            yield f'<circle cx="{x(n, shift):.1f}" cy="{y(ratio):.1f}" r="4" fill="{colour}"/>'
        yield f'<rect x="{WIDTH - 190}" y="{30 + 20 * i}" width="12" height="12" fill="{colour}"/>'
        yield text(WIDTH - 172, 41 + 20 * i, name, "start")
    yield "</svg>"


if __name__ == "__main__":
    (DOCS / "pictures/gate.svg").write_text("\n".join(drawing()) + "\n")
