// Asks a gateway over HTTP, prints the answer as it comes, and tells how many tokens a round of speculation made.
import process from "node:process";

/** What is read of a piece of a streamed answer; docs/http.md has the rest. */
interface Piece {
    choices: { delta: { content?: string } }[];
    usage?: { completion_tokens: number; espalier: { tau: number } } | null;
    error?: { message: string };
}

/** The data of server-sent events, one by one. */
async function* eventsOf(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
    const decoder = new TextDecoder();
    let rest = "";
    for await (const bytes of body) {
        rest += decoder.decode(bytes, { stream: true });
        const events = rest.split("\n\n");
        rest = events.pop() ?? "";
        for (const event of events) if (event.startsWith("data: ")) yield event.slice("data: ".length);
    }
}

async function ask(gateway: string, question: string): Promise<void> {
    const response = await fetch(`${gateway}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
            model: "medium",
            messages: [{ role: "user", content: question }],
            max_tokens: 48,
            temperature: 0.8,
            seed: 7,
            stream: true,
            stream_options: { include_usage: true },
        }),
        // What is not answered within a minute is given up; that frees all that the request holds.
        signal: AbortSignal.timeout(60_000),
    });
    if (!response.ok || response.body === null) throw new Error(`${response.status}: ${await response.text()}`);
    for await (const event of eventsOf(response.body)) {
        if (event === "[DONE]") return;
        const piece = JSON.parse(event) as Piece;
        if (piece.error) throw new Error(piece.error.message);
        process.stdout.write(piece.choices[0]?.delta.content ?? "");
        if (piece.usage) {
            console.log(`\n${piece.usage.completion_tokens} tokens, ${piece.usage.espalier.tau.toFixed(2)} a round`);
        }
    }
    throw new Error("the answer ended before it was finished");
}

const [gateway, question] = process.argv.slice(2);
if (gateway === undefined || question === undefined) throw new Error("usage: ask URL QUESTION");
await ask(gateway, question);
