// What people do with the playground, in a real browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { chromium } from "playwright-core";

const { ESPALIER_URL: gateway, ESPALIER_WORK: work, CHROMIUM: executablePath } = process.env;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const DEADLINE = 60_000;
let browser;

before(async () => {
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  for (let tries = 0; ; tries++) {
    const ready = await fetch(`${gateway}/readyz`).then((answer) => answer.ok, () => false);
    if (ready) return;
    assert.ok(tries < 300, "the gateway is not ready");
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
});
after(() => browser?.close());

// A page at the gateway, with the hosts that it asks and what it complains about.
const open = async (options = {}) => {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  const page = await context.newPage();
  const [asked, faults] = [[], []];
  page.on("request", (request) => asked.push(request.url()));
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (said) => said.type() === "error" && faults.push(said.text()));
  page.setDefaultTimeout(DEADLINE);
  await page.goto(gateway);
  await page.waitForFunction(() => document.getElementById("target").options.length === 2);
  await page.selectOption("#target", "medium");
  return { page, asked, faults, context };
};

const ask = async (page, text) => {
  await page.fill("#message", text);
  await page.click("#send");
};

const ended = (page, how) =>
  page.waitForFunction((how) => document.getElementById("status").textContent === how, how);

// Accessibility faults that keep people from using it.
const serious = async (page) => {
  await page.evaluate(axe);
  const found = await page.evaluate(() => globalThis.axe.run());
  return found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map((node) => node.html).join(" ").slice(0, 300)}`);
};

test("an answer streams in, its tokens coloured, and its trees are drawn", async () => {
  const { page, asked, faults, context } = await open();
  await page.fill("#policy", "pct,gate=off");
  await page.fill("#max_tokens", "40");
  await ask(page, "Tom buys 4 pens at 3 dollars each. How much does he pay?");
  await page.waitForSelector(".said .token.drafted");
  await ended(page, "done");
  assert.ok((await page.locator(".said .token.drafted").count()) > 0, "nothing was drafted");
  assert.ok((await page.locator(".said .token.added").count()) > 0, "nothing was added");
  const figures = await page.textContent(".figures");
  assert.match(figures, /\d+ tokens\/s.*tau.*rounds.*plainly.*as fast/);

  // A click on a token shows its round.
  const token = page.locator(".said .token").last();
  const round = Number(await token.getAttribute("data-round"));
  assert.ok(round > 0, "it took one round only");
  await token.click();
  assert.match(await page.textContent(".about"), new RegExp(`^Round ${round + 1} of `));
  await page.locator(".back").click();
  const about = await page.textContent(".about");
  assert.match(about, new RegExp(`^Round ${round} of .* drafted, .* sent, .* accepted`));
  const drafted = Number(about.match(/(\d+) drafted/)[1]);
  const boxes = await page.locator(".tree g.accepted, .tree g.rejected, .tree g.pruned").count();
  assert.equal(boxes, drafted, "each drafted node is drawn");
  assert.ok((await page.locator(".tree g title").allTextContents()).some((text) => text.includes("probability")));

  const hosts = new Set(asked.map((url) => new URL(url)).filter(({ protocol }) => protocol !== "data:").map((url) => url.host));
  assert.deepEqual([...hosts], [new URL(gateway).host], "a foreign host was asked");
  assert.deepEqual(faults, []);
  await page.screenshot({ path: `${work}/light.png`, fullPage: true });
  assert.deepEqual(await serious(page), []);
  await context.close();
});

test("who changes nothing sees tokens, trees and a speed-up", async () => {
  const { page, context } = await open({ viewport: { width: 1200, height: 700 } });
  const questions = ["A train goes 60 miles an hour. How far does it go in 3 hours?", "Tom buys 4 pens at 3 dollars each. How much does he pay?"];
  // The first answers find out what drafting is worth.
  for (const question of [...questions, questions[0]]) {
    await page.click("#clear");
    await ask(page, question);
    await ended(page, "done");
  }
  assert.match(await page.textContent(".figures"), /tau.*plainly.*as fast/);
  await page.locator(".said .token.drafted").first().click();
  assert.match(await page.textContent(".about"), /^Round \d+ of \d+, by sorted: \d+ drafted/);
  // The picture in README is this one, of a release build.
  await page.screenshot({ path: `${work}/first.png`, fullPage: true });
  await context.close();
});

test("a conversation goes on, and begins anew", async () => {
  const { page, context } = await open();
  await page.fill("#max_tokens", "12");
  await page.uncheck("#plain");
  for (const text of ["Hello", "And then?"]) {
    await ask(page, text);
    await ended(page, "done");
  }
  assert.equal(await page.locator(".turn.user").count(), 2);
  assert.equal(await page.locator(".turn.assistant").count(), 2);
  await page.click("#clear");
  assert.equal(await page.locator(".turn").count(), 0);
  await context.close();
});

test("an answer can be stopped, and what has come stays", async () => {
  const { page, context } = await open();
  // Hot as it is, the text has no end of its own.
  await page.fill("#max_tokens", "900");
  await page.fill("#temperature", "2");
  await page.selectOption("#drafter", "none");
  // Whoever stops it does so as soon as there is something.
  await page.evaluate(() => {
    const watch = new MutationObserver(() => {
      if (document.querySelectorAll(".said .token").length < 5) return;
      watch.disconnect();
      document.getElementById("stop").click();
    });
    watch.observe(document.getElementById("log"), { childList: true, subtree: true });
  });
  await ask(page, "Tell me a long story about numbers.");
  await ended(page, "stopped");
  const tokens = await page.locator(".said .token").count();
  assert.ok(tokens >= 5 && tokens < 900, `${tokens} tokens`);
  assert.ok(await page.isEnabled("#send"));
  await context.close();
});

test("two policies are compared side by side on one prompt", async () => {
  const { page, context } = await open({ colorScheme: "dark" });
  await page.check("#compare");
  await page.fill("#policy", "pct,gate=off");
  await page.fill("#policy2", "constant,k=4,gate=off");
  await page.fill("#max_tokens", "32");
  await ask(page, "Tom buys 4 pens at 3 dollars each. How much does he pay?");
  await ended(page, "done");
  const texts = await page.locator(".answers.two .said").allTextContents();
  assert.equal(texts.length, 2);
  assert.equal(texts[0], texts[1], "whatever drafts, the text is the target's own");
  const boxes = await Promise.all([0, 1].map((i) => page.locator(".answers.two .answer").nth(i).boundingBox()));
  assert.ok(Math.abs(boxes[0].y - boxes[1].y) < 5 && boxes[1].x > boxes[0].x, "they stand side by side");
  assert.equal(await page.locator(".answers.two .tree svg").count(), 2);
  await page.screenshot({ path: `${work}/dark.png`, fullPage: true });
  assert.deepEqual(await serious(page), []);
  await context.close();
});

test("on a phone nothing is wider than the screen", async () => {
  const { page, context } = await open({ viewport: { width: 390, height: 800 }, hasTouch: true, isMobile: true });
  await page.fill("#policy", "pct,gate=off");
  await page.fill("#max_tokens", "24");
  await ask(page, "Ann has 3 dogs.");
  await ended(page, "done");
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  await page.screenshot({ path: `${work}/phone.png`, fullPage: true });
  assert.deepEqual(await serious(page), []);
  await context.close();
});

test("the keyboard alone is enough", async () => {
  const { page, context } = await open();
  await page.uncheck("#plain");
  await page.fill("#max_tokens", "12");
  await page.focus("#message");
  await page.keyboard.type("Ann has 3 dogs.");
  await page.keyboard.press("Enter");
  await ended(page, "done");
  await page.locator(".said .token[tabindex='0']").last().focus();
  await page.keyboard.press("Enter");
  const about = await page.textContent(".about");
  await page.locator(".rounds input").focus();
  await page.keyboard.press("ArrowLeft");
  assert.notEqual(await page.textContent(".about"), about);
  await context.close();
});

test("what is refused is told", async () => {
  const { page, context } = await open();
  await page.fill("#policy", "guess");
  await ask(page, "Hello");
  await page.waitForSelector("#status.fault");
  assert.match(await page.textContent("#status"), /guess/);
  assert.ok(await page.isEnabled("#send"));
  await context.close();
});

test("the page of `espalier explain` needs nothing but a browser", async () => {
  const context = await browser.newContext({ offline: true });
  const page = await context.newPage();
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  await page.goto(`file://${work}/trace.html`);
  const rounds = JSON.parse(readFileSync(`${work}/trace.json`, "utf8")).rounds;
  assert.equal(await page.locator("section svg").count(), rounds.length);
  const nodes = rounds.reduce((sum, round) => sum + round.nodes.length, 0);
  assert.equal(await page.locator(".tree g.accepted, .tree g.rejected, .tree g.pruned").count(), nodes);
  await page.screenshot({ path: `${work}/explain.png`, fullPage: true });
  assert.deepEqual(faults, []);
  assert.deepEqual(await serious(page), []);
  await context.close();
});
