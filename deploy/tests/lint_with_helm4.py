"""Lints the chart strictly with Helm 4, once with each values file that standard input names."""

import sys

import helm_python as helm
import yaml

HELM4_DEFAULT = "v1.36.0"


def main(chart: str) -> int:
    """Prints what is wrong; the exit code."""
    faults = 0
    for path in sys.stdin.read().split():
        with open(path, encoding="utf-8") as file:
            values = yaml.safe_load(file)
        report = helm.lint(chart, values, strict=True, kube_version=HELM4_DEFAULT)
        told = report["errors"] + [message["error"] for message in report["messages"] if message["severity"] >= 2]
        faults += len(told)
        for fault in told:
            print(f"{path}: {fault}")
    return min(faults, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
