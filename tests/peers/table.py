"""Tokens a second of llama.cpp and of espalier, from the lines that `run` gathered: medians, and the range of turns."""

import json
import sys
from statistics import median

COLUMNS = [("plain", 1), ("8", 8), ("16", 16), ("64", 64)]


def readings(lines):
    """(who, tokens at once, tokens a second) of every measurement."""
    for line in map(json.loads, lines):
        if "model_filename" in line:
            who = "llama.cpp " + line["model_filename"].rsplit("-", 1)[1].removesuffix(".gguf")
            yield who, line["n_prompt"] or 1, line["avg_ts"]
        for one in line.get("passes", []):
            yield "espalier, " + line["weights"], one["rows"], one["rows"] / one["ms"] * 1e3


found = {}
with open(sys.argv[1], encoding="utf-8") as lines:
    for who, tokens, rate in readings(lines):
        found.setdefault(who, {}).setdefault(tokens, []).append(rate)

print("| | " + " | ".join(name for name, _ in COLUMNS) + " |")
print("|---|" + "---:|" * len(COLUMNS))
for who, rates in found.items():
    cells = [rates.get(tokens) for _, tokens in COLUMNS]
    told = [f"{median(cell):.4g} ({min(cell):.4g} to {max(cell):.4g})" if cell else "" for cell in cells]
    print(f"| {who} | " + " | ".join(told) + " |")
