"""A change to one target changes that target's objects and no others; one that joins or leaves touches nobody."""

import copy
import unittest

from chart import CHART, Object, by_identity, defaults, render, values_of

CHANGES = {
    "model": {"model": {"path": "/models/other"}},
    "arithmetic": {"compute": "bf16"},
    "quantization": {"quantize": "q8", "compute": None},
    "replicas": {"replicas": 3},
    "device": {"device": "cuda", "tensorParallel": 2, "pipelineParallel": 2},
    "image": {"image": {"tag": "next"}},
    "resources": {"resources": {"limits": {"memory": "64Gi"}}},
    "sequences": {"sequencesMax": 8},
    "probes": {"probes": {"startup": {"failureThreshold": 7}}},
    "drain": {"drain": {"maxSeconds": 90}},
    "environment": {"extraEnv": [{"name": "A", "value": "b"}]},
    "labels of Pods": {"podLabels": {"a": "b"}},
    "scaling": {"autoscaling": {"hpa": {"enabled": True}}},
}


def difference(before: list[Object], after: list[Object]) -> set[tuple[str, str]]:
    """What was changed, joined or left."""
    old, new = by_identity(before), by_identity(after)
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


def of_target(key: tuple[str, str], name: str) -> bool:
    """Whether an object belongs to a target alone."""
    return key[1] == f"rel-espalier-target-{name}"


class OneTargetAlone(unittest.TestCase):
    def test_a_change_is_that_targets_alone(self):
        for what, change in CHANGES.items():
            for index, name in enumerate(["small", "large"]):
                with self.subTest(what, target=name):
                    values = defaults()
                    target = values["targets"][index]
                    target.update({key: value for key, value in change.items() if value is not None})
                    for key in [key for key, value in change.items() if value is None]:
                        target.pop(key, None)
                    changed = difference(render(defaults()), render(values))
                    self.assertTrue(changed)
                    self.assertEqual({key for key in changed if not of_target(key, name)}, set())

    def test_a_policy_or_thresholds_roll_the_gateway_and_nothing_else(self):
        for change in [{"policy": "svip"}, {"profiles": {"shared": {"policy": "svip"}}}]:
            values = defaults()
            values["targets"][0].update(change)
            changed = difference(render(defaults()), render(values))
            self.assertEqual(changed, {("ConfigMap", "rel-espalier-profiles"), ("Deployment", "rel-espalier-gateway")})

    def test_one_that_joins_touches_neither_gateway_nor_pool(self):
        for path in ["values.yaml", "values-demo.yaml", "ci/values-tls.yaml", "ci/values-hpa.yaml"]:
            with self.subTest(path):
                values = {**defaults(), **values_of(CHART / path)} if path != "values-demo.yaml" else values_of(CHART / path)
                more = copy.deepcopy(values)
                more["targets"].append({"name": "joins", "model": {"path": "/models/joins"}})
                changed = difference(render(values), render(more))
                changed.remove(("Pod", "rel-espalier-test"))
                self.assertIn(("Deployment", "rel-espalier-target-joins"), changed)
                self.assertEqual({key for key in changed if not of_target(key, "joins")}, set())

    def test_a_pool_that_joins_touches_nobody(self):
        values = defaults()
        values["draftPools"].append({"name": "joins", "model": {"path": "/models/joins"}})
        changed = difference(render(defaults()), render(values))
        self.assertEqual({name for _, name in changed}, {"rel-espalier-pool-joins"})

    def test_the_order_of_lists_means_nothing(self):
        values = defaults()
        values["targets"].reverse()
        changed = difference(render(defaults()), render(values))
        self.assertEqual(changed, {("Pod", "rel-espalier-test")})

    def test_another_version_of_the_chart_changes_no_pod(self):
        for document in render({**defaults(), "images": {"tag": "1"}}):
            if document["kind"] == "Deployment":
                text = str(document["spec"]["template"])
                self.assertNotIn("helm.sh/chart", text)
                self.assertNotIn("app.kubernetes.io/version", text)


if __name__ == "__main__":
    unittest.main()
