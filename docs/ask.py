"""Asks a running `espalier serve` by OpenAI's package, and says how speculation went."""

import os
import sys

from openai import OpenAI

question = " ".join(sys.argv[1:]) or "Ann has 3 dogs. How many legs do they have?"
client = OpenAI(base_url=os.environ.get("ESPALIER_URL", "http://127.0.0.1:50051") + "/v1", api_key="none")
stream = client.chat.completions.create(
    model="medium",
    messages=[{"role": "user", "content": question}],
    temperature=0,
    stream=True,
    stream_options={"include_usage": True},
)
for piece in stream:
    if piece.choices:
        print(piece.choices[0].delta.content or "", end="", flush=True)
    if piece.usage:
        print(f"\n\n{piece.usage.completion_tokens} tokens, {piece.usage.espalier['tau']:.2f} in each round")
