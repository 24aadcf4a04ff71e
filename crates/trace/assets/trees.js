"use strict";
// Draws what was drafted in a round: columns are levels of the draft, from left to right as they were run. What the target
// said is the thick path along the top, and what it added stands at its end.
const drawRound = (() => {
  const NAMES = "http://www.w3.org/2000/svg";
  const [COLUMN, ROW, BOX, TOP] = [150, 27, 128, 24];
  const FATES = { accepted: "accepted", rejected: "sent, not accepted", pruned: "drafted, not sent",
    bonus: "added by the target" };

  // What cannot be seen is written out, and what is too long is cut.
  const shown = (text) => {
    const seen = text.replace(/\n/g, "↵").replace(/\t/g, "⇥").replace(/ /g, "␣");
    return seen.length > 10 ? seen.slice(0, 9) + "…" : seen || "∅";
  };

  const make = (name, attributes, ...children) => {
    const made = document.createElementNS(NAMES, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  // The nodes of a round, and behind them what the target added: each continues what it said before.
  const drawn = (round) => {
    const accepted = round.nodes.map((node, i) => (node.fate === "accepted" ? i + 1 : 0));
    const end = Math.max(0, ...accepted);
    const added = round.tokens.filter((token) => !token.drafted).map((token, i) => {
      const parent = i === 0 ? end : round.nodes.length + i;
      return { text: token.text, parent, fate: "bonus" };
    });
    return [...round.nodes, ...added];
  };

  // Where each node stands: its depth, and a row. A parent stands beside its first child, and what the target said comes
  // first.
  const places = (nodes) => {
    const below = [[], ...nodes.map(() => [])];
    const isSaid = (node) => node.fate === "accepted" || node.fate === "bonus";
    nodes.forEach((node, i) => (isSaid(node) ? below[node.parent].unshift(i + 1) : below[node.parent].push(i + 1)));
    const found = new Array(below.length);
    let rows = 0;
    const stack = [{ node: 0, depth: 0 }];
    while (stack.length > 0) {
      const { node, depth, row } = stack.pop();
      const own = row === undefined ? rows++ : row;
      found[node] = { depth, row: own };
      [...below[node]].reverse().forEach((child, i, all) =>
        stack.push({ node: child, depth: depth + 1, row: i === all.length - 1 ? own : undefined }));
    }
    return { found, rows };
  };

  const at = ({ depth, row }) => ({ x: depth * COLUMN, y: TOP + row * ROW });

  const edge = (from, to, kind) => {
    const [a, b] = [at(from), at(to)];
    const [ax, ay, bx, by] = [a.x + BOX, a.y + 11, b.x, b.y + 11];
    const bend = (bx - ax) / 2;
    return make("path", { class: kind, d: `M${ax} ${ay} C${ax + bend} ${ay} ${bx - bend} ${by} ${bx} ${by}` });
  };

  const box = (place, kind, text, prob, says) => {
    const { x, y } = at(place);
    const label = make("text", { class: "token", x: 6, y: 15 });
    label.textContent = shown(text);
    const parts = [make("rect", { width: BOX, height: 22, rx: 5 }), label];
    if (prob !== undefined) {
      const chance = make("text", { class: "prob", x: BOX - 5, y: 15, "text-anchor": "end" });
      chance.textContent = prob.toFixed(2);
      parts.push(chance);
    }
    const title = make("title", {});
    title.textContent = says;
    const focus = { class: kind, transform: `translate(${x} ${y})`, tabindex: 0, role: "img", "aria-label": says };
    return make("g", focus, title, ...parts);
  };

  return (element, round, before) => {
    const nodes = drawn(round);
    const { found, rows } = places(nodes);
    const edges = [], boxes = [];
    boxes.push(box(found[0], "root", before, undefined, `the token before: ${JSON.stringify(before)}`));
    nodes.forEach((node, i) => {
      edges.push(edge(found[node.parent], found[i + 1], node.fate));
      const chance = node.prob === undefined ? "" : `, probability ${node.prob.toFixed(3)}`;
      boxes.push(box(found[i + 1], node.fate, node.text, node.prob,
        `${JSON.stringify(node.text)}${chance}, ${FATES[node.fate]}`));
    });
    const times = round.levels_ms.map((ms, i) => {
      const time = make("text", { class: "time", x: (i + 1) * COLUMN, y: 14 });
      time.textContent = `level ${i + 1}: ${ms.toFixed(2)} ms`;
      return time;
    });
    const depth = Math.max(...found.map((place) => place.depth), round.levels_ms.length);
    const [width, height] = [depth * COLUMN + BOX + 12, TOP + rows * ROW + 6];
    const picture = make("svg", { width, height, viewBox: `-2 0 ${width} ${height}`, role: "group",
      "aria-label": "what was drafted in this round" }, ...times, ...edges, ...boxes);
    element.classList.add("tree");
    element.replaceChildren(picture);
  };
})();
