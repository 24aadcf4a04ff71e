"""Both Helms refuse wrong values with an error that names the key."""

import re
import unittest
from pathlib import Path

import yaml

from chart import HELM4_KUBE, error_of_helm3, error_of_helm4

CASES = yaml.safe_load((Path(__file__).parent / "wrong_values.yaml").read_text(encoding="utf-8"))


def named(key: str, error: str) -> bool:
    """Whether a line of an error has the key: all of it, or its end and where that stands, as each Helm writes paths."""
    parts = re.findall(r"[^.\[\]]+", key)
    above = parts[:-1]
    dotted = ".".join(above) or "(root)"
    pointer = "/" + "/".join(above) if above else "''"
    last = re.compile(rf"(?<![\w-]){re.escape(parts[-1])}(?![\w-])")
    whole = (f"{key}:", ".".join(parts) + ":", "'/" + "/".join(parts) + "'")
    for line in error.splitlines():
        if any(path in line for path in whole):
            return True
        around = next((path for path in (f"{dotted}:", f"'{pointer}':", f"{pointer}:") if path in line), None)
        if around and last.search(line.split(around, 1)[1]):
            return True
    return False


class WrongValues(unittest.TestCase):
    def test_there_are_enough(self):
        self.assertGreaterEqual(len(CASES), 30)

    def test_each_is_refused_by_its_key(self):
        for case in CASES:
            errors = {"Helm 3": error_of_helm3(case["values"], str(case.get("kube", HELM4_KUBE)))}
            if "kube" not in case:
                errors["Helm 4"] = error_of_helm4(case["values"])
            for helm, error in errors.items():
                with self.subTest(helm, key=case["key"], values=case["values"]):
                    self.assertTrue(named(case["key"], error), error or "it was not refused")

    def test_a_key_is_not_found_where_it_is_not_named(self):
        self.assertFalse(named("targets[0].name", "- targets.0: Additional property names is not allowed"))
        self.assertFalse(named("targets[0].name", "- targets.1.name: Does not match"))
        self.assertTrue(named("targets[0].name", "- at '/targets/0': missing property 'name'"))


if __name__ == "__main__":
    unittest.main()
