"""Records rounds of a running system: between drafter and verifier stands a proxy that passes every message on.

It speaks to the drafter as a gateway does, and names the proxy as the verifier. Needs grpcio-tools, and a system started
by `espalier serve`. What comes out is what the services said: trees, probabilities, outcomes.
"""

import functools
import importlib
import itertools
import json
import queue
import sys
import tempfile
from concurrent import futures
from pathlib import Path

import grpc
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "espalier.v1"
FILES = ["common", "status", "drafter", "verifier"]
UNARY = ["Describe", "Status"]


@functools.cache
def protocol():
    """The modules of the protocol, made anew."""
    files = [f"espalier/v1/{name}.proto" for name in FILES]
    with tempfile.TemporaryDirectory() as folder:
        if protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={folder}", *files]) != 0:
            raise RuntimeError("the protocol cannot be compiled")
        sys.path.insert(0, folder)
        return {name: importlib.import_module(f"espalier.v1.{name}_pb2") for name in FILES}


class Proxy(grpc.GenericRpcHandler):
    """Passes calls of a verifier on, byte by byte, and keeps what a `Verify` stream said."""

    def __init__(self, verifier, pb):
        self.channel, self.pb = grpc.insecure_channel(verifier), pb
        self.trees, self.outcomes = [], []

    def service(self, call):
        method = call.method.rsplit("/", 1)[1]
        if method in UNARY:
            ask = self.channel.unary_unary(call.method)
            return grpc.unary_unary_rpc_method_handler(lambda request, _: ask(request))
        if method == "FetchTokenizer":
            ask = self.channel.unary_stream(call.method)
            return grpc.unary_stream_rpc_method_handler(lambda request, _: ask(request))
        ask = self.channel.stream_stream(call.method)
        return grpc.stream_stream_rpc_method_handler(lambda requests, _: self.verify(ask, requests))

    def verify(self, ask, requests):
        for answer in ask(self.asked(request) for request in requests):
            read = self.pb.VerifyResponse.FromString(answer)
            if read.HasField("outcome"):
                self.outcomes.append(read.outcome)
            yield answer

    def asked(self, request):
        read = self.pb.VerifyRequest.FromString(request)
        if read.HasField("tree"):
            self.trees.append(read.tree)
        return request


def address(url):
    return url.removeprefix("http://")


def record(drafter, verifier, prompt, policy, tokens, thresholds):
    """The rounds of one sequence, each a tree and what came of it."""
    pb = protocol()
    proxy = Proxy(address(verifier), pb["verifier"])
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[proxy])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        ask(drafter, f"http://127.0.0.1:{port}", pb, prompt, policy, tokens, thresholds)
    finally:
        server.stop(None)
    return [rounds(tree, outcome) for tree, outcome in zip(proxy.trees, proxy.outcomes)]


def ask(drafter, verifier, pb, prompt, policy, tokens, thresholds):
    """Has the drafter run a sequence, as a gateway would."""
    spec = pb["common"].SequenceSpec(
        id="picture", committed=prompt, max_tokens=tokens, sampling=pb["common"].Sampling(seed=0)
    )
    start = pb["drafter"].Start(
        sequence=spec, target="medium", verifier=verifier, policy=policy, exit_thresholds=thresholds
    )
    messages = [
        pb["drafter"].SpeculateRequest(start=start),
        pb["drafter"].SpeculateRequest(grant=pb["drafter"].Grant(rounds=64)),
    ]
    with grpc.insecure_channel(address(drafter)) as channel:
        speculate = channel.stream_stream(
            f"/{PACKAGE}.Drafter/Speculate",
            request_serializer=pb["drafter"].SpeculateRequest.SerializeToString,
            response_deserializer=pb["drafter"].SpeculateResponse.FromString,
        )
        # A stream that its caller closes is given up: it is kept open until the last answer.
        open_end = queue.Queue()
        for answer in speculate(itertools.chain(messages, iter(open_end.get, None)), timeout=60):
            if answer.HasField("finished"):
                open_end.put(None)


def rounds(tree, outcome):
    return {
        "tokens": list(tree.tokens),
        "parents": list(tree.parents),
        "probs": list(tree.probs),
        "path": list(outcome.path),
        "committed": list(outcome.tokens),
    }


if __name__ == "__main__":
    drafter, verifier, policy, tokens = sys.argv[1:5]
    line = (ROOT / "models/medium/greedy.jsonl").read_text().splitlines()[0]
    prompt = json.loads(line)["prompt_ids"]
    print(json.dumps(record(drafter, verifier, prompt, policy, int(tokens), [0.0, 0.0])))
