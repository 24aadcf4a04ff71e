"""Has checkov look at what every values file makes. Each finding is an error unless policies.yaml says why it stays."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

from chart import TOOLS, helm3, matrix, values_of

REASONS = yaml.safe_load((Path(__file__).parent / "policies.yaml").read_text(encoding="utf-8"))


def report(folder: str) -> dict:
    """What checkov says of the manifests in a folder."""
    command = [str(TOOLS / "venv/bin/checkov"), "--directory", folder, "--framework", "kubernetes"]
    command += ["--output", "json", "--quiet", "--compact", "--skip-download"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return json.loads(done.stdout)


def main() -> int:
    """Prints findings without a reason, and reasons without a finding; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        for path in matrix():
            (Path(folder) / path.name).write_text(helm3(values_of(path)).stdout, encoding="utf-8")
        found = report(folder)
    summary = found["summary"]
    print(f"{summary['resource_count']} objects, {summary['passed']} checks passed, {summary['failed']} findings")
    used, faults = set(), summary["parsing_errors"]
    for finding in found["results"]["failed_checks"]:
        for index, reason in enumerate(REASONS):
            if reason["check"] == finding["check_id"] and re.match(f"({reason['of']})", finding["resource"]):
                used.add(index)
                break
        else:
            faults += 1
            print(f"{finding['check_id']} {finding['check_name']}: {finding['file_path']} {finding['resource']}")
    for index, reason in enumerate(REASONS):
        if index not in used:
            faults += 1
            print(f"policies.yaml: nothing has {reason['check']} any more")
    return 1 if faults or summary["passed"] < 1000 else 0


if __name__ == "__main__":
    sys.exit(main())
