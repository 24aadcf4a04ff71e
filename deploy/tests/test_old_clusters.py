"""On Kubernetes 1.20 nothing is asked for that it has not, and newer versions are not asked for what is gone."""

import unittest

from chart import defaults, matrix, of_kind, render, values_of, workload

# API versions of Kubernetes' own that 1.20 has.
IN_1_20 = {"v1", "apps/v1", "autoscaling/v2beta2", "networking.k8s.io/v1", "policy/v1beta1"}
# Those that later versions have taken away.
GONE = {"autoscaling/v2beta2": "1.26", "policy/v1beta1": "1.25"}
OTHERS = ("cert-manager.io/", "gateway.networking.k8s.io/", "keda.sh/", "leaderworkerset.x-k8s.io/", "monitoring.coreos.com/")


def scaled(kube: str):
    """The defaults with HPAs."""
    return render({**defaults(), "defaults": {"autoscaling": {"hpa": {"enabled": True}}}}, kube)


class OldClusters(unittest.TestCase):
    def test_every_values_file_on_1_20(self):
        tried = 0
        for path in matrix():
            text = path.read_text(encoding="utf-8")
            if "kind: grpc" in text or "imageVolume" in text and path.name != "values.yaml":
                continue
            documents = render(values_of(path), "1.20.2")
            for document in documents:
                version = document["apiVersion"]
                self.assertTrue(version in IN_1_20 or version.startswith(OTHERS), f"{path.name} {version}")
            self.assertNotIn("'grpc': {", str(documents))
            tried += 1
        self.assertGreaterEqual(tried, 10)

    def test_versions_change_where_kubernetes_does(self):
        for kube, policy, autoscaling in [
            ("1.20.2", "policy/v1beta1", "autoscaling/v2beta2"),
            ("1.21.0", "policy/v1", "autoscaling/v2beta2"),
            ("v1.23.5-gke.100", "policy/v1", "autoscaling/v2"),
            ("1.37.0", "policy/v1", "autoscaling/v2"),
        ]:
            documents = scaled(kube)
            self.assertEqual({d["apiVersion"] for d in of_kind(documents, "PodDisruptionBudget")}, {policy})
            self.assertEqual({d["apiVersion"] for d in of_kind(documents, "HorizontalPodAutoscaler")}, {autoscaling})

    def test_an_older_one_than_1_20_is_refused(self):
        with self.assertRaisesRegex(AssertionError, "1.20"):
            render(defaults(), "1.19.0")

    def test_the_services_are_the_same_on_all(self):
        for part in ("gateway", "pool-shared", "target-small"):
            old, new = (workload(render(defaults(), kube), part) for kube in ("1.20.2", "1.37.0"))
            self.assertEqual(old, new)


if __name__ == "__main__":
    unittest.main()
