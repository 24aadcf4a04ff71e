"""What workloads scale on exists: every metric of an HPA has a rule in prometheus-adapter.yaml, every query is PromQL."""

import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from chart import CHART, ROOT, defaults, of_kind, render, values_of

ADAPTER = values_of(CHART / "prometheus-adapter.yaml")["rules"]["custom"]
# The series that services have, which a test of theirs holds against what they send.
CATALOGUE = re.findall(r"^\| `(espalier_\w+)` \|[^|]*\| (\w+)", (ROOT / "docs/telemetry.md").read_text(encoding="utf-8"), re.MULTILINE)
SERIES = {name for name, _ in CATALOGUE} | {f"{name}_{end}" for name, kind in CATALOGUE if kind == "histogram" for end in ("sum", "count")}
ALL = {
    "gateway": {"requestsQueued": 8, "requestsRunning": 64, "cpuPercent": 70},
    "draftPoolDefaults": {"passRows": 32, "sequencesOpen": 48, "treesWaiting": 4, "kvUsePercent": 75, "cpuPercent": 80},
    "targetDefaults": {"passRows": 32, "sequencesOpen": 48, "treesWaiting": 4, "kvUsePercent": 75, "cpuPercent": 80},
}


def scaled(kind: str):
    """Everything scaled on every metric that there is."""
    values = defaults()
    values["metrics"] = {"prometheusAddress": "http://prometheus:9090"}
    values["defaults"] = {"autoscaling": {kind: {"enabled": True}}}
    for key, metrics in ALL.items():
        values[key] = {"autoscaling": {"metrics": metrics}}
    return render(values)


def checks_as_promql(queries) -> str:
    """What promtool says of queries; empty if they are sound."""
    rules = [{"record": f"q:{i}", "expr": query} for i, query in enumerate(queries)]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump({"groups": [{"name": "queries", "rules": rules}]}, file)
        file.flush()
        done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True, check=False)
        return done.stderr if done.returncode else ""


class Scaling(unittest.TestCase):
    def test_every_metric_of_an_hpa_has_a_rule(self):
        made = set()
        for rule in ADAPTER:
            if "name" in rule:
                made.add(rule["name"]["as"])
            else:
                names = re.search(r'=~"espalier_\((.*)\)"', rule["seriesQuery"])
                made |= {f"espalier_{name}" for name in names[1].split("|")}
        asked = {m["pods"]["metric"]["name"] for d in of_kind(scaled("hpa"), "HorizontalPodAutoscaler") for m in d["spec"]["metrics"] if m["type"] == "Pods"}
        self.assertEqual(len(asked), 6)
        self.assertEqual(asked - made, set())

    def test_rules_are_of_series_that_there_are(self):
        for rule in ADAPTER:
            for name in re.findall(r"espalier_(?!\()\w+", rule["seriesQuery"] + rule["metricsQuery"]):
                self.assertIn(name, SERIES)
        names = re.search(r"espalier_\((.*?)\)", ADAPTER[0]["seriesQuery"])[1]
        self.assertLessEqual({f"espalier_{name}" for name in names.split("|")}, SERIES)

    def test_queries_are_of_series_that_there_are(self):
        for document in of_kind(scaled("keda"), "ScaledObject"):
            for trigger in document["spec"]["triggers"]:
                if trigger["type"] == "prometheus":
                    query = trigger["metadata"]["query"]
                    names = re.findall(r"espalier_\w+", query)
                    self.assertTrue(names and set(names) <= SERIES, query)
                    self.assertIn('namespace="serving"', query)

    def test_queries_ask_for_the_service_that_is_scraped(self):
        documents = scaled("keda")
        scraped = {d["metadata"]["name"] for d in of_kind(documents, "Service") if d["metadata"]["labels"].get("espalier/scrape") == "true"}
        for document in of_kind(documents, "ScaledObject"):
            for trigger in document["spec"]["triggers"]:
                for service in re.findall(r'service="([^"]*)"', trigger["metadata"].get("query", "")):
                    self.assertIn(service, scraped)
                    self.assertEqual(service.removesuffix("-headless"), document["metadata"]["name"])

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool (apt-get install prometheus)")
    def test_queries_are_promql(self):
        queries = [t["metadata"]["query"] for d in of_kind(scaled("keda"), "ScaledObject") for t in d["spec"]["triggers"] if "query" in t["metadata"]]
        self.assertEqual(len(queries), 2 + 3 * 4)
        fill = {"<<.GroupBy>>": "pod", "<<.Series>>": "espalier_kv_blocks", "<<.LabelMatchers>>": 'namespace="n"'}
        for rule in ADAPTER:
            query = rule["metricsQuery"]
            for mark, text in fill.items():
                query = query.replace(mark, text)
            queries.append(query)
        self.assertEqual(checks_as_promql(queries), "")
        self.assertNotEqual(checks_as_promql(["sum(("]), "")

    def test_one_scrape_for_each_pod(self):
        documents = render(values_of(CHART / "ci/values-hpa.yaml"))
        monitor = of_kind(documents, "ServiceMonitor")[0]["spec"]
        wanted = monitor["selector"]["matchLabels"].items()
        chosen = [d for d in of_kind(documents, "Service") if wanted <= d["metadata"]["labels"].items()]
        self.assertEqual(len(chosen), len(of_kind(documents, "Deployment")))
        for service in chosen:
            self.assertIn(monitor["endpoints"][0]["port"], [port["name"] for port in service["spec"]["ports"]])


if __name__ == "__main__":
    unittest.main()
