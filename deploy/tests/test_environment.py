"""Every variable that the chart sets is one that the program reads, and flags that matter arrive."""

import re
import unittest

from chart import CHART, ROOT, all_templates, defaults, env_of, matrix, render, values_of, workload

# Where each program's arguments are.
SOURCES = {
    "gateway": ["gateway/src", "crates/service-kit/src"],
    "drafter": ["drafter-svc/src", "crates/service-kit/src"],
    "verifier": ["verifier-svc/src", "crates/service-kit/src"],
}


def read_by(program: str) -> set[str]:
    """The variables in a program's sources."""
    found = set()
    for folder in SOURCES[program]:
        for file in (ROOT / folder).rglob("*.rs"):
            found |= set(re.findall(r'"(ESPALIER_[A-Z_]+)"', file.read_text(encoding="utf-8")))
    return found


def variables(values, part):
    """What a workload's service is told."""
    return env_of(workload(render(values), part)["spec"]["template"]["spec"]["containers"][0])


class Environment(unittest.TestCase):
    def test_programs_read_what_they_are_told(self):
        known = {program: read_by(program) for program in SOURCES}
        for path in matrix():
            for name, template in all_templates(render(values_of(path))):
                container = template["spec"]["containers"][0]
                if container["name"] in SOURCES:
                    told = {variable for variable in env_of(container) if variable.startswith("ESPALIER_")}
                    self.assertEqual(told - known[container["name"]], set(), f"{path.name} {name}")

    def test_numbers_are_written_out(self):
        values = defaults()
        values["gateway"] = {"requestsMax": 65536, "queuedMax": 0, "clientRequestsMax": 10000000, "clientWeights": {"b": 1, "a": 100}}
        values["telemetry"] = {"traceRatio": 0.05}
        told = variables(values, "gateway")
        self.assertEqual(told["ESPALIER_GATEWAY_REQUESTS_MAX"], "65536")
        self.assertEqual(told["ESPALIER_GATEWAY_QUEUED_MAX"], "0")
        self.assertEqual(told["ESPALIER_GATEWAY_CLIENT_REQUESTS_MAX"], "10000000")
        self.assertEqual(told["ESPALIER_GATEWAY_CLIENT_WEIGHTS"], "a=100,b=1")
        self.assertEqual(told["ESPALIER_TRACE_RATIO"], "0.05")

    def test_the_port_of_probes_is_there_for_the_pod_alone_where_nobody_may_scrape(self):
        values = {**defaults(), "defaults": {"probes": {"kind": "exec"}}}
        self.assertEqual(variables(values, "gateway")["ESPALIER_METRICS_LISTEN"], "0.0.0.0:9464")
        values["metrics"] = {"enabled": False}
        self.assertEqual(variables(values, "gateway")["ESPALIER_METRICS_LISTEN"], "127.0.0.1:9464")

    def test_the_command_of_probes_is_one(self):
        kit = (ROOT / "crates/service-kit/src/probe.rs").read_text(encoding="utf-8")
        for word in ('"probe"', "Startup", "Ready", "Live", "ESPALIER_METRICS_LISTEN"):
            self.assertIn(word, kit)

    def test_an_empty_value_is_left_to_the_program(self):
        told = variables(defaults(), "gateway")
        self.assertNotIn("ESPALIER_GATEWAY_POLICY", told)
        self.assertNotIn("ESPALIER_GATEWAY_REQUESTS_MAX", told)
        self.assertNotIn("ESPALIER_TLS_CERT", told)
        self.assertNotIn("", told.values())

    def test_drafters(self):
        documents = values_of(CHART / "ci/values-models.yaml")
        self.assertEqual(variables(documents, "pool-sorted")["ESPALIER_DRAFTER_THRESHOLDS"], "0.3,0.9")
        self.assertEqual(variables(documents, "pool-first-layers")["ESPALIER_DRAFTER_LAYERS"], "1")
        self.assertEqual(variables(documents, "pool-edd")["ESPALIER_DRAFTER_PREDICTORS"], "/models/medium-edd-cali-ts")
        self.assertEqual(variables(documents, "pool-edd")["ESPALIER_DRAFTER_ALLOW_VERIFIERS"], "10.0.0.0/8")
        self.assertEqual(variables(documents, "pool-early-exit")["ESPALIER_DRAFTER_TARGET_MODEL"], "/var/lib/espalier/target-model")

    def test_targets(self):
        values = values_of(CHART / "ci/values-gpu.yaml")
        told = variables(values, "target-llama-70b")
        self.assertEqual(told["ESPALIER_VERIFIER_TENSOR_PARALLEL"], "4")
        self.assertEqual(told["ESPALIER_VERIFIER_DEVICE"], "cuda")
        self.assertEqual(told["ESPALIER_VERIFIER_KV_MEMORY"], "80%")
        self.assertNotIn("ESPALIER_VERIFIER_TENSOR_PARALLEL", variables(values, "target-llama-8b"))
        self.assertNotIn("ESPALIER_VERIFIER_PIPELINE_PARALLEL", told)
        values["targets"][1] |= {"tensorParallel": 2, "pipelineParallel": 3}
        self.assertEqual(variables(values, "target-llama-70b")["ESPALIER_VERIFIER_PIPELINE_PARALLEL"], "3")
        limits = [
            template["spec"]["containers"][0]["resources"]["limits"]
            for name, template in all_templates(render(values))
            if name.endswith("target-llama-70b")
        ]
        self.assertEqual([limit["nvidia.com/gpu"] for limit in limits], [6])

    def test_under_tls_nothing_is_spoken_to_in_the_clear(self):
        for path in ["ci/values-tls.yaml", "ci/values-tls-secrets.yaml", "ci/values-ingress.yaml"]:
            for name, template in all_templates(render(values_of(CHART / path))):
                told = env_of(template["spec"]["containers"][0])
                peers = [value for key, value in told.items() if key.endswith(("_VERIFIERS", "_DRAFTERS")) and "//" in value]
                self.assertFalse([peer for peer in peers if not peer.startswith("dns+https://")], name)
                if name.startswith("Deployment"):
                    self.assertLessEqual({"ESPALIER_TLS_CERT", "ESPALIER_TLS_KEY", "ESPALIER_TLS_CA"}, set(told))


if __name__ == "__main__":
    unittest.main()
