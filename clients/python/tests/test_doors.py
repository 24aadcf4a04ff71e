"""Locked doors: API keys with their limits, and TLS with and without a certificate to show."""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

import espalier
from conftest import BINARY, environment, free_port, gateway
from espalier import Client
from questions import TEXT

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from conftest import System


def entry(name: str, **limits: object) -> dict[str, object]:
    return {"name": name, "sha256": hashlib.sha256(f"esp_{name}".encode()).hexdigest(), **limits}


@pytest.fixture(scope="module")
def keyed(system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a gateway that asks for keys, each of which is `esp_` and a name."""
    file = tmp_path_factory.mktemp("keys") / "keys.json"
    # Five more requests a second, and 300 at once.
    keys = [entry("operator", status=True), entry("guest"), entry("busy", requests_per_minute=300)]
    file.write_text(json.dumps({"keys": keys}))
    port = free_port()
    with gateway(system, port, "--keys", str(file)):
        yield f"http://127.0.0.1:{port}"


@pytest.mark.parametrize("key", [None, "esp_nobody"])
def test_who_shows_no_key_that_is_known_does_not_come_in(keyed: str, key: str | None) -> None:
    with Client(keyed, key=key) as stranger, pytest.raises(espalier.UnauthenticatedError) as found:
        stranger.targets()
    assert found.value.message.startswith("no valid API key: ")
    assert "esp_" not in str(found.value)


def test_a_key_lets_in_and_its_rights_hold(keyed: str) -> None:
    with Client(keyed, key="esp_operator") as operator, Client(keyed, key="esp_guest", name="not looked at") as guest:
        assert len(guest.generate("small", TEXT, max_tokens=4).tokens) == 4
        assert operator.status().gateway.requests.max > 0
        with pytest.raises(espalier.PermissionDeniedError, match="this API key may not ask what the services do"):
            guest.status()


def test_who_has_asked_as_often_as_it_may_comes_again_when_it_is_told(keyed: str) -> None:
    with Client(keyed, key="esp_busy", retries=0) as hasty, Client(keyed, key="esp_busy", retries=5) as patient:
        with pytest.raises(espalier.OverloadedError, match="this client has asked as often as it may") as found:
            for _ in range(400):
                hasty.targets()
                hasty.generate("small", TEXT, max_tokens=1)
        assert found.value.retry_after is not None
        assert 0 < found.value.retry_after < 1
        started = time.monotonic()
        assert len(patient.generate("small", TEXT, max_tokens=1).tokens) == 1
        assert time.monotonic() - started > found.value.retry_after / 2


def test_places_go_by_the_name_of_a_client(system: System) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with gateway(system, port, "--client-requests-max", "1"):
        with Client(url, name="one", retries=0) as one, Client(url, name="two", retries=0) as two:
            with one.stream("medium", TEXT, speculation=False, logit_bias={2: -100.0}) as stream:
                next(stream)
                with pytest.raises(espalier.OverloadedError):
                    one.generate("small", TEXT, max_tokens=1)
                assert len(two.generate("small", TEXT, max_tokens=1).tokens) == 1


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls") / "certs"
    subprocess.run([BINARY, "certs", folder, "--host", "localhost"], env=environment(), check=True, capture_output=True)
    return folder


def test_a_door_under_tls(system: System, certificates: Path) -> None:
    port = free_port()
    cert, key, ca = (str(certificates / file) for file in ("gateway.pem", "gateway.key", "ca.pem"))
    with gateway(system, port, "--door-cert", cert, "--door-key", key, probe=["--tls-ca", ca]):
        with Client(f"https://localhost:{port}", tls_ca=ca) as locked:
            assert len(locked.generate("small", TEXT, max_tokens=4).tokens) == 4
        with Client(f"https://127.0.0.1:{port}", tls_ca=ca, tls_name="localhost") as named:
            assert named.targets()
        for stranger in (Client(f"https://localhost:{port}", retries=0), Client(f"http://localhost:{port}", retries=0)):
            with stranger, pytest.raises(espalier.UnavailableError):
                stranger.targets()


def test_a_door_that_asks_for_a_certificate(system: System, certificates: Path) -> None:
    port = free_port()
    cert, key, ca = (str(certificates / file) for file in ("gateway.pem", "gateway.key", "ca.pem"))
    own_cert, own_key = (str(certificates / file) for file in ("drafter.pem", "drafter.key"))
    shown = ["--tls-ca", ca, "--tls-cert", own_cert, "--tls-key", own_key]
    door = ["--door-cert", cert, "--door-key", key, "--door-ca", ca]
    with gateway(system, port, *door, probe=shown):
        with Client(f"https://localhost:{port}", tls_ca=ca, tls_cert=own_cert, tls_key=own_key) as known:
            assert known.targets()
        with Client(f"https://localhost:{port}", tls_ca=ca, retries=0) as stranger:
            with pytest.raises(espalier.UnavailableError):
                stranger.targets()
