"""A running system: `espalier serve`, and gateways of their own where doors are locked or a gateway is lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from espalier import Client

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parents[3]
BINARY = Path(os.environ["ESPALIER_BINARY"]).resolve()
GATEWAY_BINARY = Path(os.environ.get("ESPALIER_GATEWAY_BINARY", BINARY.with_name("espalier-gateway"))).resolve()

READY_MAX = 60.0
"""Seconds that a process may take to be ready: it reads models of 30 MB."""

END_MAX = 30.0
"""Seconds that a process may take to end: longer than it lets running requests finish."""


def environment() -> dict[str, str]:
    """Leave out settings of whoever runs the tests."""
    ours = ("ESPALIER_BINARY", "ESPALIER_GATEWAY_BINARY")
    return {name: value for name, value in os.environ.items() if not name.startswith("ESPALIER_") or name in ours}


def end(process: subprocess.Popen[str]) -> int:
    """Ask a process to end, and say with which code it did."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(END_MAX)
    finally:
        process.kill()
        process.wait()


@dataclass(frozen=True)
class System:
    """The addresses of a running system."""

    gateway: str
    verifiers: tuple[str, ...]
    drafters: tuple[str, ...]


@pytest.fixture(scope="session")
def system() -> Iterator[System]:
    """Two targets and the drafter `sorted`, on free ports, until all tests are over."""
    free = ["--port", "0", "--verifier-port", "0", "--drafter-port", "0"]
    arguments = [str(BINARY), "serve", "--targets", "small,medium", *free]
    process = subprocess.Popen(arguments, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        # One that is never ready would be waited for for ever.
        impatient = threading.Timer(READY_MAX, process.kill)
        impatient.start()
        said: list[list[str]] = []
        for line in process.stdout:
            if line.strip() == "ready":
                break
            said.append(line.split())
        urls = {role: tuple(words[-1] for words in said if words[0] == role) for role in ("verifier", "drafter")}
        impatient.cancel()
        gateways = [words[-1] for words in said if words[0] == "gateway"]
        assert gateways, f"`espalier serve` said {said}"
        yield System(gateways[0], urls["verifier"], urls["drafter"])
    finally:
        code = end(process)
        if process.stdout is not None:
            process.stdout.close()
    assert code == 0, "the exit code of `espalier serve`"


@pytest.fixture(scope="session")
def client(system: System) -> Iterator[Client]:
    """Ask the whole system."""
    with Client(system.gateway, timeout=60) as client:
        yield client


def free_port() -> int:
    """Find a port on which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


@contextmanager
def gateway(system: System, port: int, *arguments: str, probe: Sequence[str] = ()) -> Iterator[subprocess.Popen[str]]:
    """Run one more gateway to the services of a system, at a port of this machine, and wait until it answers."""
    peers = [f"--verifier={url}" for url in system.verifiers] + [f"--drafter={url}" for url in system.drafters]
    command = [str(GATEWAY_BINARY), "--listen", f"127.0.0.1:{port}", *peers, *arguments]
    process = subprocess.Popen(command, cwd=ROOT, env=environment(), text=True)
    scheme = "https" if "--door-cert" in arguments else "http"
    asking = [str(BINARY), "probe", f"{scheme}://localhost:{port}", *probe]
    try:
        deadline = time.monotonic() + READY_MAX
        while subprocess.run(asking, env=environment(), capture_output=True, check=False).returncode != 0:
            assert process.poll() is None, "the gateway ended"
            assert time.monotonic() < deadline, "the gateway does not answer"
            time.sleep(0.05)
        yield process
    finally:
        # It need not wait for those who choose among gateways.
        process.kill()
        process.wait()
