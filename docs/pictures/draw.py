"""Draws the pictures of rounds in docs/concepts.md, from rounds of a system that it starts:

    python3 docs/pictures/draw.py target/release/espalier        # needs grpcio-tools

Target `medium`, drafter `sorted` at its first exit, greedy, the first question of models/medium/greedy.jsonl whose
rounds have what the picture is to show. The policies have fixed sizes, so that the pictures are the same every time.
"""

import html
import json
import subprocess
import sys
from pathlib import Path

from record import ROOT, record

PICTURES = Path(__file__).resolve().parent
MODEL = ROOT / "models/medium"
TREE = "eagle2,total=10,k=3,depth=4,gate=off"
ALL = "eagle2,total=300,k=3,depth=4,max_nodes=300,gate=off"
CHAIN = "constant,k=4,gate=off"
THRESHOLDS = [0.0, 0.0]
TOKENS = 48

GREEN, ORANGE, GREY, INK = "#2f855a", "#c05621", "#a0aec0", "#222"
STEP, ROW, BOX, TALL = 142, 27, 118, 21


def letters():
    """What each byte is written as in the vocabulary of byte-level BPE, the other way round."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + i): byte for i, byte in enumerate(others)}


class Words:
    """The texts of tokens, spaces made visible."""

    def __init__(self):
        tokenizer = json.loads((MODEL / "tokenizer.json").read_text())
        self.words = {number: word for word, number in tokenizer["model"]["vocab"].items()}
        self.words |= {added["id"]: added["content"] for added in tokenizer["added_tokens"]}
        self.bytes = letters()

    def plain(self, token):
        word = self.words[token]
        known = all(letter in self.bytes for letter in word)
        return bytes(map(self.bytes.get, word)).decode(errors="replace") if known else word

    def shown(self, token):
        return html.escape(self.plain(token).replace("\n", "⏎").replace(" ", "·"))


class System:
    """A system that runs while pictures are recorded."""

    def __init__(self, espalier):
        ports = ["--port", "0", "--verifier-port", "0", "--drafter-port", "0"]
        args = [espalier, "--models", str(ROOT / "models"), "serve", "--targets", "medium", "--drafter", "sorted"]
        self.process = subprocess.Popen([*args, *ports], stdout=subprocess.PIPE, text=True)
        addresses = {}
        for line in self.process.stdout:
            words = line.split()
            if words == ["ready"]:
                break
            addresses[words[0]] = words[-1]
        self.drafter, self.verifier = addresses["drafter"], addresses["verifier"]

    def rounds(self, committed, policy, tokens):
        return record(self.drafter, self.verifier, committed, policy, tokens, THRESHOLDS)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def children(tree):
    below = {}
    for node, parent in enumerate(tree["parents"], 1):
        below.setdefault(parent, []).append(node)
    return below


def places(tree, bonus_below):
    """Column and row of each node, of the root (0), and of the bonus (`None`)."""
    below, found, rows = children(tree), {}, iter(range(1000))

    def place(node, depth):
        rowed = [place(child, depth + 1) for child in below.get(node, [])]
        if node == bonus_below:
            row = next(rows)
            found[None] = (depth + 1, row)
            rowed.append(row)
        row = sum(rowed) / len(rowed) if rowed else next(rows)
        found[node] = (depth, row)
        return row

    place(0, 0)
    return found


def label(x, y, said, fill=INK, size=12, anchor="start", weight="normal"):
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" fill="{fill}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}">{said}</text>'
    )


def box(x, y, said, beside, stroke, fill="#fff", dash=""):
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    at = f'x="{x:.1f}" y="{y - TALL / 2:.1f}" width="{BOX}" height="{TALL}"'
    yield f'<rect {at} rx="4" fill="{fill}" stroke="{stroke}"{dashed}/>'
    yield label(x + 6, y + 4, said)
    yield label(x + BOX - 6, y + 4, beside, fill="#4a5568", size=11, anchor="end")


def edge(start, end, stroke, width):
    (x, y), (to_x, to_y) = start, end
    middle = (x + BOX + to_x) / 2
    path = f"M{x + BOX:.1f} {y:.1f}C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"
    return f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="{width}"/>'


def tree_picture(words, tree, root, top, pruned=()):
    """A tree as lines of SVG, and its height: accepted nodes green, the bonus orange, what was pruned dashed."""
    last = tree["path"][-1] if tree["path"] else 0
    bonus = tree["committed"][-1]
    at = {node: (16 + depth * STEP, top + row * ROW + ROW / 2) for node, (depth, row) in places(tree, last).items()}
    lines = []
    for node, parent in enumerate(tree["parents"], 1):
        taken = node in tree["path"]
        lines.append(edge(at[parent], at[node], GREEN if taken else GREY, 2.5 if taken else 1))
    lines.append(edge(at[last], at[None], ORANGE, 2.5))
    lines.extend(box(*at[0], words.shown(root), "root", INK, "#edf2f7"))
    for node, (token, prob) in enumerate(zip(tree["tokens"], tree["probs"]), 1):
        taken, gone = node in tree["path"], node in pruned
        stroke, fill = (GREEN, "#c6f6d5") if taken else (GREY, "#fff")
        lines.extend(box(*at[node], words.shown(token), f"{prob:.2f}", stroke, fill, "3 3" if gone else ""))
    lines.extend(box(*at[None], words.shown(bonus), "bonus", ORANGE, "#feebc8"))
    return lines, max(y for _, y in at.values()) - top + ROW


def page(name, width, height, lines, said):
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height:.0f}" width="{width}" '
        f'height="{height:.0f}" font-family="ui-monospace, monospace" role="img" aria-label="{html.escape(said)}">'
    )
    body = [head, f'<rect width="{width}" height="{height:.0f}" fill="#fff"/>', *lines, "</svg>"]
    (PICTURES / f"{name}.svg").write_text("\n".join(body) + "\n")


def depth(tree):
    return max(level for level, _ in places(tree, None).values())


def levels(count, y):
    names = ["the text so far"] + [f"level {level}" for level in range(1, count + 1)]
    return [label(16 + i * STEP, y, name, "#4a5568", 11) for i, name in enumerate(names)]


def draw_round(words, tree, root):
    lines, height = tree_picture(words, tree, root, 30)
    width = 16 + (depth(tree) + 2) * STEP
    page("round", width, height + 40, levels(depth(tree), 18) + lines, "One round: a candidate tree and its walk")


def draw_tree(words, chain, tree, root):
    above, height = tree_picture(words, chain, root, 30)
    below, more = tree_picture(words, tree, root, height + 66)
    second = label(16, height + 54, "a tree, below the same root", weight="bold")
    heads = [label(16, 18, "a chain", weight="bold"), second]
    width = 16 + (max(depth(chain), depth(tree)) + 2) * STEP
    page("tree", width, height + more + 76, heads + above + below, "A chain and a tree below the same root")


def draw_pruning(words, everything, sent, root):
    kept = {path(sent, node) for node in range(1, len(sent["tokens"]) + 1)}
    pruned = [node for node in range(1, len(everything["tokens"]) + 1) if path(everything, node) not in kept]
    lines, height = tree_picture(words, everything, root, 30, pruned)
    width = 16 + (depth(everything) + 2) * STEP
    said = "What was drafted, and what of it is sent"
    page("pruning", width, height + 40, levels(depth(everything), 18) + lines, said)


def path(tree, node):
    """The tokens from the root down to a node."""
    tokens = []
    while node:
        tokens.append(tree["tokens"][node - 1])
        node = tree["parents"][node - 1]
    return tuple(reversed(tokens))


def draw_tau(words, rounds):
    lines, y = [], 30
    for number, tree in enumerate(rounds, 1):
        x = 120
        lines.append(label(16, y, f"round {number}", "#4a5568"))
        for i, token in enumerate(tree["committed"]):
            said = words.plain(token).replace("\n", "⏎").replace(" ", "·")
            wide, drafted = 10 + 7.3 * len(said), i < len(tree["path"])
            stroke, fill = (GREEN, "#c6f6d5") if drafted else (ORANGE, "#feebc8")
            at = f'x="{x:.1f}" y="{y - 14}" width="{wide:.1f}" height="19"'
            lines.append(f'<rect {at} rx="3" fill="{fill}" stroke="{stroke}"/>')
            lines.append(label(x + 5, y, html.escape(said)))
            x += wide + 3
        y += 25
    tokens = sum(len(tree["committed"]) for tree in rounds)
    said = f"{tokens} tokens in {len(rounds)} rounds: tau = {tokens / len(rounds):.2f}"
    lines.append(label(16, y + 8, said, weight="bold"))
    page("tau", 720, y + 26, lines, "The tokens that each round committed")


def branches(tree):
    """Whether the walk takes a node that is not the best of its siblings, after one level or more, and goes on."""
    best = {min(nodes) for nodes in children(tree).values()}
    return len(tree["path"]) >= 3 and any(node not in best for node in tree["path"][:-1])


def main(espalier):
    words, system = Words(), System(espalier)
    try:
        for line in (MODEL / "greedy.jsonl").read_text().splitlines():
            prompt = json.loads(line)["prompt_ids"]
            rounds = system.rounds(prompt, TREE, TOKENS)
            committed = list(prompt)
            for tree in rounds:
                if branches(tree):
                    return draw(words, system, rounds, tree, committed)
                committed += tree["committed"]
        sys.exit("no round has what the pictures are to show")
    finally:
        system.stop()


def draw(words, system, rounds, tree, committed):
    """All pictures, of one text and one of its rounds."""
    def first(policy):
        return system.rounds(committed, policy, 16)[0]

    draw_tau(words, rounds)
    draw_round(words, tree, committed[-1])
    draw_tree(words, first(CHAIN), tree, committed[-1])
    draw_pruning(words, first(ALL), tree, committed[-1])


if __name__ == "__main__":
    main(sys.argv[1])
