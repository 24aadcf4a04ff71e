"""Custom resources are what the schemas of their projects ask for. LeaderWorkerSet has no package: its fields are checked here."""

import json
import shutil
import subprocess
import unittest
from collections import Counter
from pathlib import Path

import yaml
from chart import CHART, TOOLS, Object, matrix, of_kind, render, values_of

CHECKED = {"GRPCRoute": 1, "ServiceMonitor": 2, "PrometheusRule": 1, "ScaledObject": 4, "Certificate": 6}
# The package knows GRPCRoute as v1alpha2 alone; its fields are those of v1.
OLD_GATEWAY = ("gateway.networking.k8s.io/v1alpha2/GRPCRoute",)


def faults(objects: list[Object]) -> str:
    """What node's packages say of custom resources."""
    script = TOOLS / "node/custom_resources.mjs"
    shutil.copy(Path(__file__).parent / script.name, script)
    done = subprocess.run(["node", script], input=json.dumps(objects), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


class CustomResources(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        documents = [d for path in matrix() for d in render(values_of(path), apis=OLD_GATEWAY)]
        cls.objects = [d for d in documents if d["kind"] in CHECKED]

    def test_all_of_them(self):
        self.assertEqual(Counter(d["kind"] for d in self.objects), CHECKED)
        self.assertEqual(faults(self.objects), "")

    def test_the_schemas_find_what_is_wrong(self):
        wrong = {"GRPCRoute": "parentRefs", "ServiceMonitor": "endpoints", "PrometheusRule": "groups", "ScaledObject": "triggers", "Certificate": "dnsNames"}
        for kind, field in wrong.items():
            with self.subTest(kind):
                broken = json.loads(json.dumps(of_kind(self.objects, kind)[0]))
                broken["spec"][field] = 3
                self.assertIn(f"spec/{field}", faults([broken]))

    def test_a_cluster_with_the_new_gateway_gets_the_new_version(self):
        values = values_of(CHART / "ci/values-ingress.yaml")
        for apis, version in [((), "v1"), (OLD_GATEWAY, "v1alpha2"), ((*OLD_GATEWAY, "gateway.networking.k8s.io/v1/GRPCRoute"), "v1")]:
            route = of_kind(render(values, apis=apis), "GRPCRoute")[0]
            self.assertEqual(route["apiVersion"], f"gateway.networking.k8s.io/{version}")

    def test_rules_and_dashboards_are_those_that_are_tested(self):
        documents = render(values_of(CHART / "ci/values-hpa.yaml"))
        rules = (CHART / "../../alerts/espalier.yaml").read_text().replace("https://example.org", "https://wiki.example.org")
        self.assertEqual(of_kind(documents, "PrometheusRule")[0]["spec"], yaml.safe_load(rules))
        dashboards = next(d for d in of_kind(documents, "ConfigMap") if d["metadata"]["name"].endswith("-dashboards"))
        files = {path.name: json.loads(path.read_text()) for path in (CHART / "../../dashboards").glob("*.json")}
        self.assertEqual({name: json.loads(text) for name, text in dashboards["data"].items()}, files)
        self.assertEqual(dashboards["metadata"]["labels"]["grafana_dashboard"], "1")

    def test_leader_worker_set(self):
        documents = render(values_of(CHART / "ci/values-lws.yaml"))
        spec = of_kind(documents, "LeaderWorkerSet")[0]["spec"]
        self.assertLessEqual(set(spec), {"replicas", "startupPolicy", "rolloutStrategy", "leaderWorkerTemplate"})
        group = spec["leaderWorkerTemplate"]
        self.assertEqual(set(group), {"size", "restartPolicy", "leaderTemplate", "workerTemplate"})
        worker = group["workerTemplate"]["spec"]["containers"][0]
        self.assertEqual(worker["command"], ["wide-verifier", "follow"])
        self.assertFalse({"ports", "readinessProbe", "livenessProbe", "startupProbe"} & set(worker))
        self.assertEqual(worker["resources"]["limits"]["nvidia.com/gpu"], 8)
        service = next(d for d in of_kind(documents, "Service") if d["metadata"]["name"].endswith("target-huge"))
        self.assertEqual(service["spec"]["selector"]["leaderworkerset.sigs.k8s.io/worker-index"], "0")


if __name__ == "__main__":
    unittest.main()
