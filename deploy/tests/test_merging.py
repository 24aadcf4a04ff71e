"""An entry wins over the defaults of its kind, and those over the defaults of all; false, 0 and null win too."""

import unittest

from chart import defaults, render, workload


def pod(values, part):
    """The Pod's spec of a workload."""
    return workload(render(values), part)["spec"]["template"]["spec"]


class Merging(unittest.TestCase):
    def test_three_floors(self):
        values = defaults()
        values["defaults"] = {"nodeSelector": {"floor": "one", "all": "yes"}, "priorityClassName": "low"}
        values["targetDefaults"] = {"nodeSelector": {"floor": "two"}, "priorityClassName": "middle"}
        values["targets"][0]["nodeSelector"] = {"floor": "three"}
        documents = values
        self.assertEqual(pod(documents, "target-small")["nodeSelector"], {"floor": "three", "all": "yes"})
        self.assertEqual(pod(documents, "target-large")["nodeSelector"], {"floor": "two", "all": "yes"})
        self.assertEqual(pod(documents, "pool-shared")["nodeSelector"], {"floor": "one", "all": "yes"})
        self.assertEqual(pod(documents, "target-small")["priorityClassName"], "middle")
        self.assertEqual(pod(documents, "gateway")["priorityClassName"], "low")

    def test_false_zero_and_null_win(self):
        values = defaults()
        values["defaults"] = {"autoscaling": {"hpa": {"enabled": True}}}
        values["targets"][0].update(
            autoscaling={"hpa": {"enabled": False}, "metrics": {"kvUsePercent": None}},
            replicas=0,
            podSecurityContext={"runAsUser": None},
        )
        documents = render(values)
        self.assertEqual(workload(documents, "target-small")["spec"]["replicas"], 0)
        self.assertNotIn("replicas", workload(documents, "target-large")["spec"])
        self.assertIsNone(pod(values, "target-small")["securityContext"]["runAsUser"])

    def test_entries_do_not_leak_into_each_other(self):
        values = defaults()
        values["targets"][0]["podLabels"] = {"only": "small"}
        values["targets"][0]["resources"] = {"limits": {"memory": "1Gi"}}
        template = workload(render(values), "target-large")["spec"]["template"]
        self.assertNotIn("only", template["metadata"]["labels"])
        self.assertEqual(template["spec"]["containers"][0]["resources"]["limits"]["memory"], "16Gi")

    def test_lists_are_replaced(self):
        values = defaults()
        values["defaults"] = {"extraArgs": ["--a"]}
        values["targets"][0]["extraArgs"] = ["--b"]
        self.assertEqual(pod(values, "target-small")["containers"][0]["args"], ["--b"])
        self.assertEqual(pod(values, "target-large")["containers"][0]["args"], ["--a"])


if __name__ == "__main__":
    unittest.main()
