"""Each kind of probe asks what it should: the metrics port, the program itself, or the service by gRPC."""

import unittest

from chart import NEWEST, defaults, render, workload

PROGRAMS = {"gateway": ("espalier-gateway", 50051), "pool-shared": ("espalier-drafter", 50061), "target-small": ("espalier-verifier", 50052)}


def probes(kind: str, part: str, kube: str = NEWEST):
    """Startup, readiness and liveness of a workload."""
    values = {**defaults(), "defaults": {"probes": {"kind": kind}}}
    container = workload(render(values, kube), part)["spec"]["template"]["spec"]["containers"][0]
    return [container[f"{what}Probe"] for what in ("startup", "readiness", "liveness")]


class Probes(unittest.TestCase):
    def test_http(self):
        for part in PROGRAMS:
            asked = [probe["httpGet"] for probe in probes("http", part)]
            self.assertEqual([ask["path"] for ask in asked], ["/startupz", "/readyz", "/livez"])
            self.assertEqual({ask["port"] for ask in asked}, {"metrics"})

    def test_exec(self):
        for part, (program, _) in PROGRAMS.items():
            asked = [probe["exec"]["command"] for probe in probes("exec", part, "1.20.2")]
            self.assertEqual(asked, [[program, "probe", what] for what in ("startup", "ready", "live")])

    def test_grpc(self):
        for part, (_, port) in PROGRAMS.items():
            startup, readiness, liveness = probes("grpc", part)
            self.assertEqual(startup["grpc"], {"port": port})
            self.assertEqual(readiness["grpc"], {"port": port})
            # Health is not serving while a service drains, which must not end it.
            self.assertEqual(liveness["tcpSocket"], {"port": "grpc"})


if __name__ == "__main__":
    unittest.main()
