"""Clients that nobody here wrote, against a running gateway: their objects can be read, their errors are the right ones."""

import asyncio
import contextlib
import io
import json
import os
import pathlib
import re
import time
import unittest
import urllib.error
import urllib.request

import openai
import pydantic
from langchain_openai import ChatOpenAI

URL = os.environ["ESPALIER_URL"]
QUESTION = [{"role": "user", "content": "Ann has 3 dogs and 2 cats. How many pets has she?"}]


def setUpModule():
    deadline = time.monotonic() + 120
    while True:
        try:
            return urllib.request.urlopen(f"{URL}/readyz", timeout=5).read()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


class OpenAi(unittest.TestCase):
    client = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)

    def chat(self, **more):
        return self.client.chat.completions.create(model="medium", messages=QUESTION, max_tokens=24, **more)

    def test_models_are_listed(self):
        self.assertEqual([model.id for model in self.client.models.list()], ["medium", "small"])
        self.assertEqual(self.client.models.retrieve("small").object, "model")

    def test_a_stream_has_the_text_of_the_whole(self):
        whole = self.chat(temperature=0.7, seed=3)
        self.assertEqual(whole.choices[0].message.role, "assistant")
        pieces = list(self.chat(temperature=0.7, seed=3, stream=True, stream_options={"include_usage": True}))
        text = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual(pieces[-1].usage.total_tokens, whole.usage.total_tokens)
        self.assertGreaterEqual(pieces[-1].usage.espalier["tau"], 1)

    def test_speculation_changes_no_text(self):
        plain = self.chat(temperature=0.7, seed=3, extra_body={"espalier": {"speculate": False}})
        self.assertEqual(plain.usage.espalier["drafted"], 0)
        self.assertEqual(plain.choices[0].message.content, self.chat(temperature=0.7, seed=3).choices[0].message.content)

    def test_choices_and_seeds(self):
        first, second = (self.chat(temperature=1, seed=5, n=3) for _ in range(2))
        texts = [choice.message.content for choice in first.choices]
        self.assertEqual(texts, [choice.message.content for choice in second.choices])
        self.assertEqual(len(set(texts)), 3)

    def test_stops_end_a_text(self):
        self.assertIn(" ", self.chat(temperature=0).choices[0].message.content)
        stopped = self.chat(temperature=0, stop=[" "]).choices[0]
        self.assertEqual((stopped.finish_reason, " " in stopped.message.content), ("stop", False))

    def test_answers_have_the_form_that_was_asked_for(self):
        schema = {
            "type": "object",
            "properties": {"pets": {"type": "integer", "minimum": 0, "maximum": 99}, "sure": {"type": "boolean"}},
            "required": ["pets", "sure"],
            "additionalProperties": False,
        }
        form = {"type": "json_schema", "json_schema": {"name": "pets", "strict": True, "schema": schema}}
        answer = self.client.chat.completions.create(model="medium", messages=QUESTION, response_format=form)
        self.assertEqual(answer.choices[0].finish_reason, "stop")
        self.assertEqual(list(json.loads(answer.choices[0].message.content)), ["pets", "sure"])

    def test_tools_are_called_and_their_answers_read(self):
        parameters = {
            "type": "object",
            "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}},
            "required": ["a"],
            "additionalProperties": False,
        }
        tool = {"type": "function", "function": {"name": "count", "description": "counts", "parameters": parameters}}
        asked = {"tools": [tool], "tool_choice": "required", "parallel_tool_calls": False, "temperature": 0.7, "seed": 3}
        answer = self.client.chat.completions.create(model="medium", messages=QUESTION, max_tokens=64, **asked).choices[0]
        (call,) = answer.message.tool_calls
        self.assertEqual((answer.finish_reason, call.type, call.function.name), ("tool_calls", "function", "count"))
        self.assertEqual(list(json.loads(call.function.arguments)), ["a"])
        with self.client.chat.completions.stream(model="medium", messages=QUESTION, max_tokens=64, **asked) as stream:
            whole = stream.get_final_completion().choices[0].message.tool_calls[0]
        self.assertEqual(whole.function.arguments, call.function.arguments)
        told = [*QUESTION, answer.message, {"role": "tool", "tool_call_id": call.id, "content": "5"}]
        words = self.client.chat.completions.create(model="medium", messages=told, max_tokens=8, tools=[tool])
        self.assertEqual(words.usage.completion_tokens, 8)

    def test_logprobs(self):
        rated = self.chat(temperature=0, logprobs=True, top_logprobs=3).choices[0].logprobs.content
        self.assertEqual(len(rated), 24)
        for token in rated:
            self.assertAlmostEqual(token.logprob, token.top_logprobs[0].logprob)
            self.assertEqual((token.token, len(token.top_logprobs)), (token.top_logprobs[0].token, 3))

    def test_completions(self):
        answer = self.client.completions.create(model="small", prompt=["2 + 3 =", "5 - 1 ="], logprobs=2, temperature=0)
        self.assertEqual([choice.index for choice in answer.choices], [0, 1])
        self.assertEqual(len(answer.choices[1].logprobs.token_logprobs), 16)

    def test_what_is_wrong_is_told(self):
        with self.assertRaises(openai.NotFoundError) as found:
            self.client.chat.completions.create(model="huge", messages=QUESTION)
        self.assertEqual((found.exception.code, found.exception.param), ("model_not_found", "model"))
        tool = {"type": "function", "function": {"name": "add", "parameters": {"type": "objekt"}}}
        with self.assertRaises(openai.BadRequestError) as found:
            self.chat(tools=[tool])
        self.assertEqual(found.exception.param, "tools")

    def test_many_at_once(self):
        async def ask():
            # Of a full queue one client has half; who is refused is told when to come back, and does so.
            client = openai.AsyncOpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=10)

            async def text():
                stream = await client.chat.completions.create(
                    model="small", messages=QUESTION, max_tokens=16, temperature=0, stream=True
                )
                return "".join([piece.choices[0].delta.content or "" async for piece in stream])

            return await asyncio.gather(*(text() for _ in range(256)))

        texts = asyncio.run(ask())
        self.assertEqual((len(texts), len(set(texts))), (256, 1))


class LangChain(unittest.TestCase):
    def test_an_answer_whole_and_in_pieces(self):
        model = ChatOpenAI(model="medium", base_url=f"{URL}/v1", api_key="none", temperature=0, max_tokens=24)
        whole = model.invoke(QUESTION[0]["content"])
        self.assertEqual(whole.usage_metadata["output_tokens"], 24)
        self.assertEqual("".join(piece.content for piece in model.stream(QUESTION[0]["content"])), whole.content)

    def test_tools_and_objects_of_a_class(self):
        class Pets(pydantic.BaseModel):
            """How many pets there are."""

            # Else a target that makes little sense goes on with properties of its own.
            model_config = pydantic.ConfigDict(extra="forbid")
            count: int = pydantic.Field(ge=0, le=99)

        model = ChatOpenAI(model="medium", base_url=f"{URL}/v1", api_key="none", temperature=0, max_tokens=64)
        bound = model.bind_tools([Pets], tool_choice="Pets", parallel_tool_calls=False)
        (call,) = bound.invoke(QUESTION[0]["content"]).tool_calls
        self.assertEqual((call["name"], list(call["args"])), ("Pets", ["count"]))
        for method in ["function_calling", "json_schema"]:
            held = model.with_structured_output(Pets, method=method)
            self.assertIsInstance(held.invoke(QUESTION[0]["content"]), Pets)


class Page(unittest.TestCase):
    def test_its_examples_run_one_after_the_other(self):
        page = pathlib.Path(__file__).parents[2] / "docs" / "http.md"
        examples = re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
        self.assertEqual(len(examples), 2)
        names = {}
        for example in examples:
            with contextlib.redirect_stdout(io.StringIO()) as said:
                exec(example.replace("http://127.0.0.1:50051", URL), names)
            self.assertTrue(said.getvalue().strip())


if __name__ == "__main__":
    unittest.main()
