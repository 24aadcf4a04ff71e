// The official client for Node against a running gateway.
import assert from "node:assert/strict";
import { test } from "node:test";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.env.ESPALIER_URL}/v1`, apiKey: "none", maxRetries: 0 });
const chat = {
    model: "medium",
    messages: [{ role: "user", content: "Ann has 3 dogs and 2 cats. How many pets has she?" }],
    max_tokens: 24,
    temperature: 0.7,
    seed: 3,
};

test("a stream has the text of the whole", async () => {
    const whole = await client.chat.completions.create({ ...chat, n: 2 });
    const streamed = ["", ""];
    for await (const piece of await client.chat.completions.create({ ...chat, n: 2, stream: true })) {
        for (const choice of piece.choices) streamed[choice.index] += choice.delta.content ?? "";
    }
    assert.deepEqual(streamed, whole.choices.map((choice) => choice.message.content));
    assert.equal(whole.usage.espalier.failovers, 0);
});

test("tools are called", async () => {
    const properties = { a: { enum: [1, 22] } };
    const parameters = { type: "object", properties, required: ["a"], additionalProperties: false };
    const tools = [{ type: "function", function: { name: "count", parameters } }];
    const chosen = { type: "function", function: { name: "count" } };
    const asked = { ...chat, max_tokens: 64, tools, tool_choice: chosen, parallel_tool_calls: false };
    const whole = (await client.chat.completions.create(asked)).choices[0];
    assert.equal(whole.message.tool_calls[0].function.name, "count");
    assert.ok([1, 22].includes(JSON.parse(whole.message.tool_calls[0].function.arguments).a));
    const streamed = (await client.chat.completions.stream(asked).finalChatCompletion()).choices[0];
    assert.equal(streamed.message.tool_calls[0].function.arguments, whole.message.tool_calls[0].function.arguments);
});

test("models are listed", async () => {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert.deepEqual(names, ["medium", "small"]);
});

test("what is wrong is told", async () => {
    const refused = client.chat.completions.create({ ...chat, response_format: { type: "yaml" } });
    await assert.rejects(refused, (error) => error.status === 400 && error.param === "response_format.type");
});
