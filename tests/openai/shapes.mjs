// What a gateway answers, held against the shapes that OpenAI publishes as types: every field that must be there is, none
// is of another kind, and none is there that the API does not have, but for the `espalier` ones.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const url = `${process.env.ESPALIER_URL}/v1`;
const messages = [{ role: "user", content: "Ann has 3 dogs and 2 cats. How many pets has she?" }];
const chat = { model: "medium", messages, max_tokens: 24, temperature: 0.7, seed: 3 };
const properties = { a: { enum: [1, 22] } };
const parameters = { type: "object", properties, required: ["a"], additionalProperties: false };
const tools = [{ type: "function", function: { name: "count", parameters } }];
const calling = { ...chat, max_tokens: 64, tools, tool_choice: "required", parallel_tool_calls: false };
const completion = { model: "small", prompt: ["2 + 3 =", "5 - 1 ="], temperature: 0 };
// Pieces of a streamed completion have no reason before the last one; the type is that of a whole one.
const piece = `type Completion = OpenAI.Completions.Completion;
type Choice = Completion["choices"][number];
type Unfinished = Omit<Choice, "finish_reason"> & { finish_reason: Choice["finish_reason"] | null };
type CompletionPiece = Omit<Completion, "choices"> & { choices: Unfinished[] };
`;
const streamed = { stream: true, stream_options: { include_usage: true } };

async function answered(path, body) {
    const request = body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    const response = await fetch(url + path, request ?? {});
    return response.text();
}

async function whole(type, path, body) {
    return [[type, JSON.parse(await answered(path, body))]];
}

async function pieces(type, path, body) {
    const lines = (await answered(path, { ...body, ...streamed })).split("\n");
    const events = lines.filter((line) => line.startsWith("data: {")).map((line) => JSON.parse(line.slice(6)));
    assert.ok(events.length > 2, "a stream has a beginning, a middle and its usage");
    return events.map((event) => [type, event]);
}

async function error(path, body) {
    return [["OpenAI.ErrorObject", JSON.parse(await answered(path, body)).error]];
}

test("answers have the published shapes", async () => {
    const [all, part] = ["OpenAI.Chat.Completions.ChatCompletion", "OpenAI.Chat.Completions.ChatCompletionChunk"];
    const rated = { logprobs: true, top_logprobs: 2 };
    const found = [
        await whole(all, "/chat/completions", { ...chat, n: 2 }),
        await whole(all, "/chat/completions", { ...chat, ...rated }),
        await whole(all, "/chat/completions", calling),
        await pieces(part, "/chat/completions", { ...chat, ...rated, espalier: { rounds: true } }),
        await pieces(part, "/chat/completions", calling),
        await whole("OpenAI.Completions.Completion", "/completions", { ...completion, logprobs: 2 }),
        await pieces("CompletionPiece", "/completions", { ...completion, n: 2 }),
        await whole("OpenAI.Models.Model", "/models/medium"),
        await error("/chat/completions", { ...chat, frobnicate: 1 }),
        await error("/chat/completions", { ...chat, model: "huge" }),
        await error("/nothing"),
    ].flat();
    const ours = (key, value) => (key === "espalier" ? undefined : value);
    const shown = ([type, object], i) => `export const answer${i}: ${type} = ${JSON.stringify(object, ours)};\n`;
    const folder = fileURLToPath(new URL(".", import.meta.url));
    writeFileSync(`${folder}/shapes.ts`, `import OpenAI from "openai";\n\n${piece}${found.map(shown).join("")}`);
    const options = "--noEmit --strict --skipLibCheck --target es2022 --module nodenext --moduleResolution nodenext";
    try {
        execFileSync(`${folder}/node_modules/.bin/tsc`, [...options.split(" "), `${folder}/shapes.ts`], { cwd: folder });
    } catch (fault) {
        assert.fail(`${fault.stdout}`);
    }
    console.log(`${found.length} objects of ${new Set(found.map(([type]) => type)).size} types have the published shapes`);
});
