"""Asks a gateway again and again and counts what went wrong, as a client of gRPC that follows docs/clients.md.

    load.py --gateway HOST:PORT --expected FILE --protocol FOLDER --stop FILE [--clients N]

Each line of the file of expected answers is {"target", "prompt", "max_tokens", "text"}. It ends when the file `--stop` is
there, or after 10 minutes, and prints what came of it as JSON. A request fails that has no answer after 30 seconds; one
that nobody has begun is asked again, and one whose stream broke is gone on with, each of which is counted.
"""
import argparse
import json
import pathlib
import random
import sys
import threading
import time

import grpc

arguments = argparse.ArgumentParser()
arguments.add_argument("--gateway", required=True)
arguments.add_argument("--expected", required=True)
arguments.add_argument("--protocol", required=True)
arguments.add_argument("--stop", required=True)
arguments.add_argument("--clients", type=int, default=3)
arguments = arguments.parse_args()
sys.path.insert(0, arguments.protocol)
from espalier.v1 import common_pb2, generation_pb2, generation_pb2_grpc  # noqa: E402

PATIENCE_S = 30
LOAD_MAX_S = 600
# A new connection now and then, as clients come and go; it may lead to another gateway.
REQUESTS_PER_CONNECTION = 20
# Two processors serve all of it: there must be room for Pods to start.
PAUSE_S = 0.1
MAY_PASS = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)

questions = [json.loads(line) for line in open(arguments.expected)]
stop = pathlib.Path(arguments.stop)
lock = threading.Lock()
counts = {"requests": 0, "failed": 0, "wrong": 0, "asked_again": 0, "resumed": 0, "failovers": 0, "tokens": 0}
latencies, errors, targets = [], {}, {}


def count(**more):
    with lock:
        for name, number in more.items():
            counts[name] += number


def answer(stub, question):
    """The text of an answer, however often its stream breaks."""
    request = generation_pb2.GenerateRequest(
        target=question["target"], text=question["prompt"], max_tokens=question["max_tokens"]
    )
    text, begun, deadline = "", False, time.monotonic() + PATIENCE_S
    while True:
        try:
            for event in stub.Generate(request, timeout=max(deadline - time.monotonic(), 0.001)):
                if event.HasField("begun"):
                    begun = True
                    request.sampling.seed = event.begun.seed
                for token in event.chunk.tokens:
                    text += token.text
                    request.generated.append(token.id)
                if event.HasField("finished"):
                    count(failovers=event.finished.statistics.failovers, tokens=event.finished.usage.completion_tokens)
                    return text + event.finished.text
            raise RuntimeError("the stream ended without an end")
        except grpc.RpcError as error:
            with lock:
                said = f"{error.code().name}: {error.details()}"[:200]
                errors[said] = errors.get(said, 0) + 1
            if error.code() not in MAY_PASS or time.monotonic() > deadline:
                raise
            count(**{"resumed" if begun else "asked_again": 1})
            time.sleep(0.1)


def client(seed):
    chance = random.Random(seed)
    deadline = time.monotonic() + LOAD_MAX_S
    while not stop.exists() and time.monotonic() < deadline:
        # A pool of its own: otherwise channels to one address share a connection.
        with grpc.insecure_channel(arguments.gateway, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = generation_pb2_grpc.GenerationStub(channel)
            for _ in range(REQUESTS_PER_CONNECTION):
                if stop.exists():
                    break
                question = chance.choice(questions)
                asked = time.monotonic()
                try:
                    right = answer(stub, question) == question["text"]
                    count(requests=1, wrong=not right)
                except (grpc.RpcError, RuntimeError) as error:
                    print(f"failed: {error}", file=sys.stderr)
                    count(requests=1, failed=1)
                with lock:
                    latencies.append(time.monotonic() - asked)
                    targets[question["target"]] = targets.get(question["target"], 0) + 1
                time.sleep(PAUSE_S)


clients = [threading.Thread(target=client, args=[seed]) for seed in range(arguments.clients)]
begun = time.monotonic()
for thread in clients:
    thread.start()
for thread in clients:
    thread.join()
latencies.sort()
at = lambda share: round(latencies[min(int(share * len(latencies)), len(latencies) - 1)], 3) if latencies else None  # noqa: E731
print(json.dumps({
    **counts,
    "seconds": round(time.monotonic() - begun, 1),
    "p50_s": at(0.5), "p99_s": at(0.99), "max_s": at(1),
    "by_target": targets,
    "errors": errors,
}))
