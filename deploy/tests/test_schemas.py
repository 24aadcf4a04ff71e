"""Every object is what the schemas of Kubernetes 1.27 to 1.37 ask for, and there are as many of each kind as there should be."""

import functools
import json
import unittest
from collections import Counter
from pathlib import Path

import jsonschema
import kubernetes_validate
import yaml
from referencing import Registry, Resource

from chart import Object, matrix, render, values_of

SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
VERSIONS = [f"1.{minor}" for minor in range(27, 38)]
CUSTOM = {"Certificate", "GRPCRoute", "LeaderWorkerSet", "PrometheusRule", "ScaledObject", "ServiceMonitor"}
EXPECTED: Object = yaml.safe_load((Path(__file__).parent / "expected_kinds.yaml").read_text(encoding="utf-8"))


@functools.cache
def registry(version: str) -> Registry:
    """The definitions of a version, in which unknown fields are errors."""
    definitions = json.loads((SCHEMAS / f"v{version}.0-local-strict/_definitions.json").read_text(encoding="utf-8"))
    return Resource.from_contents(definitions) @ Registry()


@functools.cache
def validator(version: str, kind: str, api: str) -> jsonschema.Draft202012Validator:
    """The schema of a kind; a kind that is unknown is an error here."""
    group, _, of_group = api.rpartition("/")
    name = "-".join([kind.lower(), *([group.split(".")[0]] if group else []), of_group])
    schema = json.loads((SCHEMAS / f"v{version}.0-local-strict/{name}.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema, registry=Resource.from_contents(schema) @ registry(version))


@functools.cache
def faults(version: str, document: str) -> list[str]:
    """What is wrong with an object."""
    found = json.loads(document)
    checked = validator(version, found["kind"], found["apiVersion"])
    return [f"{error.json_path}: {error.message[:300]}" for error in checked.iter_errors(found)]


class Schemas(unittest.TestCase):
    def test_every_values_file_for_every_version(self):
        for path in matrix():
            counts = EXPECTED[path.name]
            for version in VERSIONS:
                if version < counts.get("from", "1.27"):
                    continue
                with self.subTest(path.name, version=version):
                    documents = render(values_of(path), f"{version}.0")
                    self.assertEqual(Counter(d["kind"] for d in documents), counts["kinds"])
                    for document in documents:
                        if document["kind"] not in CUSTOM:
                            self.assertEqual(faults(version, json.dumps(document, sort_keys=True)), [])

    def test_no_expectation_is_left_over(self):
        self.assertEqual(set(EXPECTED), {path.name for path in matrix()})

    def test_the_schemas_find_what_is_wrong(self):
        documents = render(values_of(matrix()[0]))
        deployment = next(d for d in documents if d["kind"] == "Deployment")
        deployment["spec"]["template"]["spec"]["containers"][0]["prots"] = []
        self.assertIn("prots", " ".join(faults("1.30", json.dumps(deployment))))


if __name__ == "__main__":
    unittest.main()
