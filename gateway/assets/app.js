// The playground: a conversation with a target, in which each round that made the text can be looked at.

const one = (id) => document.getElementById(id);
const element = (name, kind, text) => {
  const made = document.createElement(name);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
};

// What has been said, as requests hold it; of two answers that are compared the first goes on.
let messages = [];
// Stops the answers that are under way.
let stopping = null;

const headers = () => {
  const key = one("key").value;
  return { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
};

const tell = (text, isFault = false) => {
  one("status").textContent = text;
  one("status").className = isFault ? "fault" : "";
};

const refusal = async (response) => {
  const body = await response.json().catch(() => null);
  return new Error(body?.error?.message ?? `the gateway answers ${response.status}`);
};

// The pieces of an answer, as they come.
const pieces = async function* (body, signal) {
  const request = { method: "POST", headers: headers(), body: JSON.stringify(body), signal };
  const response = await fetch("/v1/chat/completions", request);
  if (!response.ok) throw await refusal(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let left = ""; ;) {
    const { value, done } = await reader.read();
    if (done) throw new Error("the answer broke off");
    const lines = (left + value).split("\n");
    left = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data: ")) continue;
      const data = line.slice(6);
      if (data === "[DONE]") return;
      const piece = JSON.parse(data);
      if (piece.error) throw new Error(piece.error.message);
      yield piece;
    }
  }
};

const number = (id) => (one(id).value === "" ? undefined : Number(one(id).value));

const request = (way) => ({
  model: one("target").value,
  messages,
  stream: true,
  stream_options: { include_usage: true },
  temperature: number("temperature"),
  top_p: number("top_p"),
  seed: number("seed"),
  max_tokens: number("max_tokens"),
  espalier: { rounds: true, policy: way.policy || undefined, drafter: way.drafter || undefined },
});

// Tokens a second after the first ones, which have waited for the prompt to be read.
const pace = (times) => {
  if (times.length < 2) return null;
  const [first, last] = [times[0], times[times.length - 1]];
  const later = times.slice(1).reduce((sum, { tokens }) => sum + tokens, 0);
  return last.at > first.at ? (1000 * later) / (last.at - first.at) : null;
};

const shown = (value, digits) => (value === null || value === undefined ? "-" : value.toFixed(digits));

// An answer and its rounds on the page.
class Answer {
  constructor(name) {
    this.rounds = [];
    this.text = "";
    this.paces = [];
    this.at = 0;
    this.root = element("article", "answer");
    this.said = element("p", "said");
    this.figures = element("div", "figures");
    this.view = element("div", "rounds");
    this.view.hidden = true;
    if (name) this.root.append(element("p", "name", name));
    this.root.append(this.said, this.figures, this.view);
    this.build();
  }

  build() {
    const step = element("div", "step");
    this.back = element("button", "back", "‹ Round before");
    this.next = element("button", "next", "Next round ›");
    this.slider = element("input");
    Object.assign(this.slider, { type: "range", min: 1, value: 1 });
    this.slider.setAttribute("aria-label", "round");
    [this.back.type, this.next.type] = ["button", "button"];
    this.back.onclick = () => this.show(this.at - 1);
    this.next.onclick = () => this.show(this.at + 1);
    this.slider.oninput = () => this.show(Number(this.slider.value) - 1);
    this.about = element("p", "about");
    this.about.setAttribute("aria-live", "polite");
    this.tree = element("div");
    step.append(this.back, this.slider, this.next);
    this.view.append(step, this.about, this.tree);
  }

  add(round) {
    const index = this.rounds.push(round) - 1;
    for (const token of round.tokens) {
      const made = element("span", `token ${token.drafted ? "drafted" : "added"}`, token.text);
      made.setAttribute("role", "button");
      made.dataset.round = index;
      made.tabIndex = token === round.tokens[0] ? 0 : -1;
      made.title = `round ${index + 1}, ${token.drafted ? "drafted and accepted" : "added by the target"}`;
      made.onclick = () => this.show(index);
      made.onkeydown = (event) => event.key === "Enter" && this.show(index);
      this.said.append(made);
      this.text += token.text;
    }
    this.paces.push({ at: round.at_ms, tokens: round.tokens.length });
    this.count();
  }

  get tau() {
    const tokens = this.rounds.reduce((sum, round) => sum + round.tokens.length, 0);
    return this.rounds.length ? tokens / this.rounds.length : null;
  }

  count(plain) {
    const figure = (value, what) => {
      const made = element("span");
      made.append(element("b", "", value), ` ${what}`);
      return made;
    };
    const own = pace(this.paces);
    const parts = [figure(shown(own, 0), "tokens/s"), figure(shown(this.tau, 2), "tokens a round (tau)"),
      figure(String(this.rounds.length), "rounds")];
    if (plain) parts.push(figure(shown(plain, 0), "tokens/s plainly"), figure(`${shown(own && own / plain, 2)}x`, "as fast"));
    this.figures.replaceChildren(...parts);
  }

  // Shows a round, if there is one of that index.
  show(index) {
    if (index < 0 || index >= this.rounds.length) return;
    this.at = index;
    const round = this.rounds[index];
    this.view.hidden = false;
    this.slider.max = this.rounds.length;
    this.slider.value = index + 1;
    this.back.disabled = index === 0;
    this.next.disabled = index === this.rounds.length - 1;
    const of = (fate) => round.nodes.filter((node) => node.fate === fate).length;
    const sent = of("accepted") + of("rejected");
    this.about.textContent = `Round ${index + 1} of ${this.rounds.length}, by ${round.drafter}: ` +
      `${round.nodes.length} drafted, ${sent} sent, ${of("accepted")} accepted, ${round.tokens.length} tokens. ` +
      `Drafting ${shown(round.draft_ms, 2)} ms, target ${shown(round.verify_ms, 2)} ms, ` +
      `waiting ${shown(round.wait_ms, 2)} ms; there at ${shown(round.at_ms, 1)} ms.`;
    const before = index > 0 ? this.rounds[index - 1].tokens.at(-1)?.text ?? "" : messages[0]?.content.slice(-8) ?? "";
    drawRound(this.tree, round, before);
    for (const token of this.said.children) token.classList.toggle("here", Number(token.dataset.round) === index);
  }
}

// Asks for an answer, and shows it as it comes.
const hear = async (answer, body, signal) => {
  for await (const piece of pieces(body, signal)) {
    if (piece.espalier?.round) answer.add(piece.espalier.round);
    const rest = piece.choices[0]?.delta?.content;
    if (rest && !piece.espalier) {
      answer.said.append(rest);
      answer.text += rest;
    }
  }
};

// Tokens a second of plain decoding of the same prompt, at the load that there is.
const plainPace = async (body, signal) => {
  const times = [];
  const plain = { ...body, max_tokens: Math.min(body.max_tokens ?? 32, 48), espalier: { rounds: true, speculate: false } };
  for await (const piece of pieces(plain, signal)) {
    const round = piece.espalier?.round;
    if (round) times.push({ at: round.at_ms, tokens: round.tokens.length });
  }
  return pace(times);
};

const ways = () => {
  const first = { drafter: one("drafter").value, policy: one("policy").value };
  const second = { drafter: one("drafter2").value, policy: one("policy2").value };
  return one("compare").checked ? [first, second] : [first];
};

const turn = (who, ...parts) => {
  const made = element("section", `turn ${who}`);
  made.setAttribute("aria-label", who === "user" ? "question" : "answer");
  made.append(...parts);
  one("log").append(made);
  made.scrollIntoView({ block: "nearest" });
};

const ask = async (text) => {
  messages.push({ role: "user", content: text });
  turn("user", element("p", "said", text));
  stopping = new AbortController();
  const { signal } = stopping;
  const asked = ways();
  const named = ({ drafter, policy }) => `${drafter || "any drafter"}, policy ${policy || "as usual"}`;
  const answers = asked.map((way) => new Answer(asked.length > 1 ? named(way) : undefined));
  const both = element("div", answers.length > 1 ? "answers two" : "answers");
  both.append(...answers.map((answer) => answer.root));
  turn("assistant", both);
  const bodies = asked.map(request);
  tell("answering");
  try {
    // One after the other: each has the machine for itself.
    for (const [i, answer] of answers.entries()) {
      await hear(answer, bodies[i], signal);
      answer.show(0);
    }
    if (one("plain").checked) {
      tell("timing plain decoding");
      const plain = await plainPace(bodies[0], signal);
      answers.forEach((answer) => answer.count(plain));
    }
    tell("done");
  } catch (fault) {
    answers.forEach((answer) => answer.show(0));
    if (fault.name === "AbortError") tell("stopped");
    else tell(fault.message, true);
  }
  messages.push({ role: "assistant", content: answers[0].text });
  stopping = null;
};

const busy = (isBusy) => {
  one("send").disabled = isBusy;
  one("stop").disabled = !isBusy;
};

one("ask").onsubmit = async (event) => {
  event.preventDefault();
  const text = one("message").value.trim();
  if (!text || stopping || !one("settings").reportValidity()) return;
  one("message").value = "";
  busy(true);
  await ask(text);
  busy(false);
  one("message").focus();
};
one("message").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    one("ask").requestSubmit();
  }
};
one("stop").onclick = () => stopping?.abort();
one("clear").onclick = () => {
  stopping?.abort();
  messages = [];
  one("log").replaceChildren();
  tell("");
  one("message").focus();
};
one("settings").onsubmit = (event) => event.preventDefault();
const showSecond = () => {
  for (const label of document.querySelectorAll(".second")) label.hidden = !one("compare").checked;
};
one("compare").onchange = showSecond;
showSecond();

const fill = (select, options) => {
  const before = select.value;
  select.replaceChildren(...options.map(([value, text]) => Object.assign(element("option", "", text), { value })));
  if (options.some(([value]) => value === before)) select.value = before;
};

// Who drafts depends on who answers.
let models = [];
const offerDrafters = () => {
  const known = models.find((model) => model.id === one("target").value)?.espalier.drafters ?? [];
  const options = [["", "any"], ...known.map((name) => [name, name]), ["ngram", "n-grams"], ["none", "none"]];
  document.querySelectorAll("select.drafter").forEach((select) => fill(select, options));
};
one("target").onchange = offerDrafters;

const load = async () => {
  const response = await fetch("/v1/models", { headers: headers() });
  if (!response.ok) throw await refusal(response);
  models = (await response.json()).data;
  fill(one("target"), models.map((model) => [model.id, model.id]));
  offerDrafters();
  tell(models.length ? "" : "no target answers yet", models.length === 0);
};

const begin = async () => {
  const about = await (await fetch("/playground/about.json")).json();
  one("policies").append(...about.policies.map((name) => Object.assign(element("option"), { value: name })));
  if (about.keys) {
    document.querySelector(".key").hidden = false;
    one("key").onchange = () => load().catch((fault) => tell(fault.message, true));
    tell("give an API key first");
  } else {
    await load();
  }
};
begin().catch((fault) => tell(fault.message, true));
