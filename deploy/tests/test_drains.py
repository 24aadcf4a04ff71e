"""A Pod has the time that its drain may take, and is not told to go twice."""

import unittest

from chart import all_templates, defaults, env_of, matrix, of_kind, render, values_of, workload


class Drains(unittest.TestCase):
    def test_the_grace_period_is_longer_than_the_drain(self):
        for path in matrix():
            for name, template in all_templates(render(values_of(path))):
                variables = env_of(template["spec"]["containers"][0])
                if "ESPALIER_DRAIN_MAX" in variables:
                    drain = int(variables["ESPALIER_DRAIN_ANNOUNCE"]) + int(variables["ESPALIER_DRAIN_MAX"])
                    self.assertGreater(template["spec"]["terminationGracePeriodSeconds"], drain, f"{path.name} {name}")

    def test_it_is_their_sum_with_the_margin(self):
        values = defaults()
        values["targets"][0]["drain"] = {"announceSeconds": 7, "maxSeconds": 300, "marginSeconds": 11}
        spec = workload(render(values), "target-small")["spec"]["template"]["spec"]
        self.assertEqual(spec["terminationGracePeriodSeconds"], 318)

    def test_there_is_no_hook_before_the_signal(self):
        # It would use up the grace period; --drain-announce does what it would do.
        for path in matrix():
            for name, template in all_templates(render(values_of(path))):
                self.assertFalse([c for c in template["spec"]["containers"] if "lifecycle" in c], name)

    def test_a_rollout_may_take_as_long_as_a_start(self):
        for path in matrix():
            for document in render(values_of(path)):
                if document["kind"] == "Deployment":
                    probe = document["spec"]["template"]["spec"]["containers"][0]["startupProbe"]
                    start = probe["periodSeconds"] * probe["failureThreshold"]
                    self.assertGreater(document["spec"]["progressDeadlineSeconds"], start)

    def test_an_old_pod_goes_when_gateways_know_the_new_one(self):
        # A resolver's 30 seconds, and the gateway's five and a tenth more.
        documents = render(defaults())
        for part in ("pool-shared", "target-small", "target-large"):
            self.assertGreater(workload(documents, part)["spec"]["minReadySeconds"], 30 + 5.5)

    def test_gateways_know_pods_that_load_and_that_drain_and_clients_do_not(self):
        for path in matrix():
            for service in of_kind(render(values_of(path)), "Service"):
                for_gateways = service["metadata"]["name"].endswith(("-verifiers", "-drafters"))
                self.assertEqual(service["spec"].get("publishNotReadyAddresses", False), for_gateways)


if __name__ == "__main__":
    unittest.main()
