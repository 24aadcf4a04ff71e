"""Traffic goes client -> gateway -> drafter -> verifier, gateway -> verifier, and nowhere else."""

import itertools
import unittest

from chart import CHART, all_templates, defaults, matches, of_kind, render, templates, values_of

PORTS = {"gateway": 50051, "drafter": 50061, "verifier": 50052}
# Who may call whom.
ALLOWED = {("gateway", "drafter"), ("gateway", "verifier"), ("drafter", "verifier"), ("test", "gateway")}


def peers_match(rules, side, labels, port) -> bool:
    """Whether one of the rules lets a Pod with these labels through on a port. No peers means anybody."""
    for rule in rules:
        numbers = [p["port"] for p in rule.get("ports", []) if p.get("protocol", "TCP") == "TCP"]
        if rule.get("ports") and port not in numbers:
            continue
        peers = rule.get(side)
        if peers is None:
            return True
        if any("podSelector" in p and matches(p["podSelector"]["matchLabels"], labels) for p in peers):
            return True
    return False


def of(policies, labels, kind):
    """The policies of a kind that hold for a Pod."""
    chosen = [p for p in policies if matches(p["spec"]["podSelector"]["matchLabels"], labels)]
    return [p for p in chosen if kind in p["spec"]["policyTypes"]]


def may_leave(policies, caller, callee, port) -> bool:
    """Whether the caller's own policies let a call out."""
    own = of(policies, caller, "Egress")
    return not own or any(peers_match(p["spec"].get("egress", []), "to", callee, port) for p in own)


def may_arrive(policies, caller, callee, port) -> bool:
    """Whether the policies of who is called let a call in."""
    own = of(policies, callee, "Ingress")
    return not own or any(peers_match(p["spec"].get("ingress", []), "from", caller, port) for p in own)


def may(policies, caller, callee, port) -> bool:
    """Whether Kubernetes lets one Pod call another: both are asked."""
    return may_leave(policies, caller, callee, port) and may_arrive(policies, caller, callee, port)


def pods(documents):
    """The labels of one Pod of each workload, and of the test, by component."""
    found = {}
    for document in documents:
        for template in list(templates(document))[:1]:
            labels = template["metadata"]["labels"]
            found.setdefault(labels["app.kubernetes.io/component"], labels)
    return found


class NetworkPolicies(unittest.TestCase):
    def test_who_may_call_whom(self):
        values = defaults()
        values["networkPolicy"] = {"clients": [{"podSelector": {"matchLabels": {"client": "yes"}}}]}
        documents = render(values)
        policies, labels = of_kind(documents, "NetworkPolicy"), pods(documents)
        self.assertEqual(set(labels), {"gateway", "drafter", "verifier", "test"})
        for caller, callee in itertools.product(labels, PORTS):
            if caller != callee:
                # Each end by itself, so that one that is wrong is not hidden by the other.
                for allows in (may_leave, may_arrive):
                    with self.subTest(f"{caller} -> {callee}", by=allows.__name__):
                        allowed = allows(policies, labels[caller], labels[callee], PORTS[callee])
                        self.assertEqual(allowed, (caller, callee) in ALLOWED)

    def test_strangers_and_clients(self):
        values = defaults()
        values["networkPolicy"] = {"clients": [{"podSelector": {"matchLabels": {"client": "yes"}}}]}
        for wanted in (values, defaults()):
            documents = render(wanted)
            policies, labels = of_kind(documents, "NetworkPolicy"), pods(documents)
            self.assertTrue(may(policies, {"client": "yes"}, labels["gateway"], 50051))
            self.assertEqual(may(policies, {"app": "other"}, labels["gateway"], 50051), wanted is not values)
            for role in ("drafter", "verifier"):
                self.assertFalse(may(policies, {"client": "yes"}, labels[role], PORTS[role]), role)

    def test_another_release_is_a_stranger(self):
        documents = render(defaults())
        policies, labels = of_kind(documents, "NetworkPolicy"), pods(documents)
        other = {**labels["drafter"], "app.kubernetes.io/instance": "other"}
        self.assertFalse(may(policies, other, labels["verifier"], PORTS["verifier"]))

    def test_scrapers(self):
        values = defaults()
        self.assertTrue(may(of_kind(render(values), "NetworkPolicy"), {"app": "prometheus"}, pods(render(values))["verifier"], 9464))
        values["networkPolicy"] = {"scrapers": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]}
        documents = render(values)
        policies, labels = of_kind(documents, "NetworkPolicy"), pods(documents)
        self.assertTrue(may(policies, {"app": "prometheus"}, labels["verifier"], 9464))
        self.assertFalse(may(policies, {"app": "other"}, labels["verifier"], 9464))

    def test_every_pod_is_under_both_kinds(self):
        documents = render(defaults())
        for name, template in all_templates(documents):
            kinds = set()
            for policy in of_kind(documents, "NetworkPolicy"):
                if matches(policy["spec"]["podSelector"]["matchLabels"], template["metadata"]["labels"]):
                    kinds |= set(policy["spec"]["policyTypes"])
            self.assertEqual(kinds, {"Ingress", "Egress"}, name)

    def test_only_who_downloads_reaches_the_outside(self):
        documents = render(values_of(CHART / "ci/values-models.yaml"))
        outside = {"outside": "yes"}
        for name, template in all_templates(documents):
            downloads = any(c["name"].startswith("download-") for c in template["spec"].get("initContainers", []))
            policies = of_kind(documents, "NetworkPolicy")
            self.assertEqual(may(policies, template["metadata"]["labels"], outside, 443), downloads, name)

    def test_telemetry_may_leave_by_the_port_of_its_address(self):
        for address, port in [("http://collector.m.svc:4318", 4318), ("http://collector", 4317)]:
            values = {**defaults(), "telemetry": {"otlpEndpoint": address}}
            documents = render(values)
            policies, labels = of_kind(documents, "NetworkPolicy"), pods(documents)
            for role in PORTS:
                self.assertTrue(may(policies, labels[role], {"any": "body"}, port))

    def test_a_group_speaks_with_itself_alone(self):
        documents = render(values_of(CHART / "ci/values-lws.yaml"))
        policies = of_kind(documents, "NetworkPolicy")
        huge, small = ({"app.kubernetes.io/name": "espalier", "app.kubernetes.io/instance": "rel", "app.kubernetes.io/component": "verifier",
                        "espalier/target": name} for name in ("huge", "small"))
        self.assertTrue(may(policies, huge, huge, 29500))
        self.assertFalse(may(policies, small, huge, 29500))
        self.assertFalse(may(policies, huge, {"outside": "yes"}, 443))


if __name__ == "__main__":
    unittest.main()
