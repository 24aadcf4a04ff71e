"""Dashboards and alerts ask for what services tell, lead where they say, and are as they were made."""

import importlib.util
import json
import re
import subprocess
import unittest
from typing import Iterator

import yaml
from queries import METRICS, ROOT, Fault, Object, check, selectors

DASHBOARDS = ROOT / "deploy/dashboards"
ALERTS = ROOT / "deploy/alerts"
RUNBOOK = "https://example.org/espalier/docs/operations.md#"
UNITS = {"short", "none", "s", "bytes", "percentunit", "reqps", "suffix: ×"}
COLUMNS = 24


def rules() -> list[Object]:
    """All alerts."""
    return [rule for group in yaml.safe_load((ALERTS / "espalier.yaml").read_text())["groups"] for rule in group["rules"]]


def unit_tests() -> Iterator[Object]:
    """All that is expected of alerts at some time."""
    for path in sorted((ALERTS / "tests").glob("*.yaml")):
        for test in yaml.safe_load(path.read_text())["tests"]:
            yield from test["alert_rule_test"]


def dashboards() -> dict[str, Object]:
    """All dashboards, by their files' names."""
    return {path.name: json.loads(path.read_text()) for path in sorted(DASHBOARDS.glob("*.json"))}


def panels() -> Iterator[tuple[str, Object]]:
    """All panels that show something, each with a name for messages."""
    for file, dashboard in dashboards().items():
        for panel in dashboard["panels"]:
            if panel["type"] != "row":
                yield f"{file}: {panel['title']}", panel


def sources() -> str:
    """All sources of services and crates."""
    listed = ["git", "ls-files", "-z", "crates/*.rs", "gateway/*.rs", "drafter-svc/*.rs", "verifier-svc/*.rs", "proto/*.rs"]
    paths = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return "".join((ROOT / path).read_text() for path in paths if path)


class Checker(unittest.TestCase):
    """That the checks find what they are for."""

    def test_the_tables_are_read(self):
        self.assertGreater(len(METRICS), 40)
        self.assertEqual(METRICS["espalier_refusals_total"].labels, {"reason"})
        self.assertEqual(METRICS["espalier_requests_limit"].labels, set())

    def test_faults_are_found(self):
        for query, words in {
            "espalier_request_running": "no series espalier_request_running",
            "espalier_pass_rows": "no series espalier_pass_rows",
            "espalier_requests_running_count": "no series",
            "rate(espalier_requests_running[5m])": "is a gauge",
            "espalier_requests_total": "only its rate",
            "espalier_pass_rows_sum": "only its rate",
            "max_over_time(espalier_requests_total[5m])": "only its rate",
            'espalier_service_up{model="a"}': "no label model",
            "sum by (drafter) (rate(espalier_requests_total[5m]))": "no label drafter to group by",
            "sum by (le) (rate(espalier_pass_rows_sum[5m]))": "no label le",
            "histogram_quantile(0.5, sum by (model) (rate(espalier_pass_rows_bucket[5m])))": "needs the label le",
            "sum by (role) (espalier_kv_blocks) / sum by (model) (espalier_kv_blocks)": "other labels",
            "sum by (role) (espalier_kv_blocks) / on (model) sum by (role) (espalier_kv_blocks)": "has no label model",
            "espalier_kv_blocks / on (model) group_left () espalier_sequences_open": "may have several series",
            "espalier_kv_blocks / ignoring (state) group_left () espalier_sequences_open": "say `on`",
            "sum without (state) (espalier_kv_blocks)": "say `by`",
            "sum(espalier_kv_blocks": "",
        }.items():
            with self.assertRaises(Fault, msg=query) as found:
                check(query)
            self.assertIn(words, str(found.exception), query)

    def test_labels_are_followed(self):
        for query, labels in {
            "sum(espalier_kv_blocks)": set(),
            "count by (pod, model) (espalier_kv_blocks) > 3": {"pod", "model"},
            "histogram_quantile(0.5, sum by (le, role) (rate(espalier_pass_rows_bucket[5m])))": {"role"},
            "sum by (role, state) (espalier_kv_blocks) / on (role) group_left () sum by (role) (espalier_kv_blocks)": {
                "role",
                "state",
            },
            'absent(espalier_ready{component="gateway"})': {"component"},
            "sum(espalier_kv_blocks) or vector(0)": set(),
        }.items():
            self.assertEqual(check(query), labels, query)


class Alerts(unittest.TestCase):
    def test_queries_ask_for_what_there_is(self):
        for rule in rules():
            labels = check(rule["expr"])
            for text in rule["annotations"].values():
                self.assertLessEqual(set(re.findall(r"\$labels\.(\w+)", text)), labels, rule["alert"])

    def test_each_has_a_severity_and_sentences(self):
        for rule in rules():
            self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))
            self.assertEqual(rule["annotations"].keys(), {"summary", "description", "runbook_url"}, rule["alert"])
            self.assertTrue(rule["annotations"]["description"].endswith("."), rule["alert"])

    def test_runbooks_lead_to_a_heading_each_and_back(self):
        page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
        headings = re.findall(r"^### (.*)$", page.split("\n## What alerts mean\n")[1].split("\n## ")[0], re.MULTILINE)
        self.assertEqual(sorted(headings), sorted(rule["alert"] for rule in rules()))
        for rule in rules():
            self.assertEqual(rule["annotations"]["runbook_url"], RUNBOOK + rule["alert"].lower())

    def test_each_is_tested_to_fire_and_not_to(self):
        tested = {(test["alertname"], bool(test["exp_alerts"])) for test in unit_tests()}
        self.assertEqual(tested, {(rule["alert"], fires) for rule in rules() for fires in (True, False)})


class Dashboards(unittest.TestCase):
    def test_files_are_current(self):
        spec = importlib.util.spec_from_file_location("make", DASHBOARDS / "make.py")
        make = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(make)
        for file, content in make.files().items():
            self.assertTrue((DASHBOARDS / file).read_text() == content, f"deploy/dashboards/make.py makes another {file}")
        self.assertEqual(make.files().keys(), dashboards().keys())

    def test_queries_ask_for_what_there_is(self):
        for name, panel in panels():
            for target in panel["targets"]:
                labels = check(target["expr"])
                self.assertLessEqual(set(re.findall(r"{{(\w+)}}", target["legendFormat"])), labels, name)
                for link in panel["fieldConfig"]["defaults"].get("links", []):
                    self.assertLessEqual(set(re.findall(r"__field\.labels\.(\w+)", link["url"])), labels, name)

    def test_queries_heed_the_choices_at_the_top(self):
        for file, dashboard in dashboards().items():
            chosen = {variable["name"] for variable in dashboard["templating"]["list"]}
            for panel in dashboard["panels"]:
                for target in panel.get("targets", []):
                    self.assertLessEqual(set(re.findall(r"\$(?!__)(\w+)", target["expr"])), chosen, file)
                    for selector in selectors(target["expr"]):
                        matchers = {str(matcher.value): matcher.name for matcher in selector.matchers.matchers}
                        self.assertEqual(matchers.get("$namespace"), "namespace", target["expr"])
                        for one in chosen & {"target", "drafter"}:
                            self.assertIn(f"${one}", matchers, target["expr"])

    def test_choices_are_of_labels_that_there_are(self):
        for file, dashboard in dashboards().items():
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    query, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
                    self.assertIn(label, check(query), file)

    def test_links_lead_to_dashboards_and_their_choices(self):
        by_uid = {dashboard["uid"]: dashboard for dashboard in dashboards().values()}
        self.assertEqual(len(by_uid), len(dashboards()))
        opened = set()
        for name, panel in panels():
            for link in panel["fieldConfig"]["defaults"].get("links", []):
                uid, chosen = re.match(r"/d/([\w-]+)\?.*&var-(\w+)=", link["url"]).groups()
                self.assertIn(chosen, [variable["name"] for variable in by_uid[uid]["templating"]["list"]], name)
                opened.add(uid)
        self.assertEqual(opened, by_uid.keys() - {"espalier-system"})
        for dashboard in by_uid.values():
            for link in dashboard["links"]:
                self.assertLessEqual(set(link["tags"]), set(dashboard["tags"]))

    def test_panels_are_whole(self):
        for name, panel in panels():
            self.assertRegex(panel["description"], r"^[^\n]{10,119}\.$", name)
            self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS, name)
            self.assertTrue(panel["targets"], name)
            for asked in [panel, *panel["targets"]]:
                self.assertEqual(asked["datasource"], {"type": "prometheus", "uid": "${datasource}"}, name)
            names = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(set(names)), len(names), name)

    def test_panels_have_numbers_and_places_of_their_own(self):
        for file, dashboard in dashboards().items():
            numbers = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(set(numbers)), len(numbers), file)
            taken = set()
            for panel in dashboard["panels"]:
                at = panel["gridPos"]
                self.assertLessEqual(at["x"] + at["w"], COLUMNS, panel["title"])
                cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
                self.assertFalse(cells & taken, f"{file}: {panel['title']}")
                taken |= cells


class Values(unittest.TestCase):
    def test_selectors_ask_for_values_that_services_give(self):
        text = sources()
        asked = 0
        for query in [rule["expr"] for rule in rules()] + [
            target["expr"] for _, panel in panels() for target in panel["targets"]
        ]:
            for selector in selectors(query):
                for matcher in selector.matchers.matchers:
                    for value in str(matcher.value).split("|"):
                        if value and not value.startswith("$"):
                            self.assertIn(f'"{value}"', text, f"{matcher.name} in {query}")
                            asked += 1
        self.assertGreater(asked, 20)


if __name__ == "__main__":
    unittest.main()
