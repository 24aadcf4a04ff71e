"""Selectors choose the Pods that they are meant for, and no others; names are unique and short enough."""

import re
import unittest

from chart import CHART, all_templates, by_identity, defaults, identity, matches, matrix, of_kind, render, templates, values_of

LABEL = re.compile(r"^[a-z]([-a-z0-9]*[a-z0-9])?$")


def chosen(documents, selector):
    """The names of objects whose Pods a selector chooses."""
    def leader(template):
        return {**template["metadata"].get("labels", {}), "leaderworkerset.sigs.k8s.io/worker-index": "0"}

    return [d["metadata"]["name"] for d in documents for template in list(templates(d))[:1] if matches(selector, leader(template))]


class Selectors(unittest.TestCase):
    def test_every_workload_chooses_its_own_pods_alone(self):
        for path in matrix():
            documents = render(values_of(path))
            for deployment in of_kind(documents, "Deployment"):
                with self.subTest(path.name, deployment=deployment["metadata"]["name"]):
                    selector = deployment["spec"]["selector"]["matchLabels"]
                    self.assertEqual(chosen(documents, selector), [deployment["metadata"]["name"]])

    def test_services_choose_what_their_names_say(self):
        for path in matrix():
            documents = render(values_of(path))
            for service in of_kind(documents, "Service"):
                name = service["metadata"]["name"]
                with self.subTest(path.name, service=name):
                    found = chosen(documents, service["spec"]["selector"])
                    if name.endswith("-verifiers"):
                        self.assertTrue(found and all("-target-" in other for other in found), found)
                    elif name.endswith("-drafters"):
                        self.assertTrue(all("-pool-" in other for other in found), found)
                    else:
                        self.assertEqual(found, [name.removesuffix("-headless")])

    def test_budgets_and_spreads_choose_their_own_workload(self):
        for path in matrix():
            documents = render(values_of(path))
            for budget in of_kind(documents, "PodDisruptionBudget"):
                found = chosen(documents, budget["spec"]["selector"]["matchLabels"])
                self.assertEqual(found, [budget["metadata"]["name"]])
            for name, template in all_templates(documents):
                for constraint in template["spec"].get("topologySpreadConstraints", []):
                    self.assertEqual(chosen(documents, constraint["labelSelector"]["matchLabels"]), [name.split("/")[1]])

    def test_scalers_name_a_workload_that_has_no_replicas_of_its_own(self):
        for path in matrix():
            documents = by_identity(render(values_of(path)))
            for (kind, _), document in documents.items():
                if kind in ("HorizontalPodAutoscaler", "ScaledObject"):
                    target = document["spec"]["scaleTargetRef"]
                    self.assertNotIn("replicas", documents[target["kind"], target["name"]]["spec"])

    def test_names_of_any_length_are_labels_and_differ(self):
        values = defaults()
        names = ["a" * 40, "a" * 39 + "b", "a" * 38 + "-b"]
        values["targets"] = [{"name": name, "model": {"path": "/m"}} for name in names]
        values["fullnameOverride"] = "f" * 53
        documents = render(values)
        by_identity(documents)
        for document in documents:
            name = identity(document)[1]
            self.assertLessEqual(len(name), 63)
            self.assertRegex(name, LABEL)
            for value in document["metadata"]["labels"].values():
                self.assertLessEqual(len(value), 63)

    def test_two_releases_have_nothing_in_common(self):
        values = values_of(CHART / "values.yaml")
        for document in of_kind(render(values), "Deployment"):
            self.assertEqual(document["spec"]["selector"]["matchLabels"]["app.kubernetes.io/instance"], "rel")

    def test_every_label_is_a_string(self):
        for path in matrix():
            for document in render(values_of(path)):
                metadata = [document["metadata"], *(template.get("metadata", {}) for template in templates(document))]
                for part in metadata:
                    for field in ("labels", "annotations"):
                        for key, value in part.get(field, {}).items():
                            self.assertIsInstance(value, str, f"{identity(document)} {key}")


if __name__ == "__main__":
    unittest.main()
