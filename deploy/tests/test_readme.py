"""The chart's README has every key that the schema knows, and no other."""

import json
import re
import unittest

from chart import CHART, Object

SCHEMA: Object = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
# Maps whose keys are not in the table one by one, or that are Helm's own.
WHOLE = {"global", "draftPools", "targets", "draftPoolDefaults", "targetDefaults"}


def properties(schema: Object) -> Object:
    """The keys of a map."""
    if "$ref" in schema:
        return properties(SCHEMA["definitions"][schema["$ref"].rsplit("/", 1)[1]])
    return schema.get("properties", {})


def known() -> set[str]:
    """All keys that the table has to have."""
    workload = set(SCHEMA["definitions"]["workload"]["properties"])
    keys = set()
    for key, schema in SCHEMA["properties"].items():
        below = {name for name in properties(schema) if not (key == "gateway" and name in workload)}
        keys |= {key} if key in WHOLE or not below else {f"{key}.{name}" for name in below}
    for kind in ("draftPool", "target"):
        keys |= set(SCHEMA["definitions"][kind]["properties"]) - workload
    return keys - {"global"}


def told() -> set[str]:
    """All keys in the first column of the table of values."""
    table = (CHART / "README.md").read_text(encoding="utf-8").split("## Values")[1].split("\n[ci](ci)")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return {key for row in rows for key in re.findall(r"`([^`]+)`", row)}


class Readme(unittest.TestCase):
    def test_every_key_is_told_and_no_other(self):
        self.assertEqual(told() - known(), set())
        self.assertEqual(known() - told(), set())

    def test_the_defaults_have_no_key_that_the_schema_does_not_know(self):
        # The other way round is what the schema is for; here nothing of it is unused.
        for name, definition in SCHEMA["definitions"].items():
            self.assertIn(f'"#/definitions/{name}', json.dumps(SCHEMA), definition)

    def test_every_map_of_the_schema_is_closed_or_open_on_purpose(self):
        def maps(schema, path):
            if isinstance(schema, dict):
                if "properties" in schema and schema.get("type") == "object":
                    yield path, schema
                for key, below in schema.items():
                    yield from maps(below, f"{path}.{key}")

        for path, schema in maps(SCHEMA, ""):
            self.assertIs(schema.get("additionalProperties"), False, path)


if __name__ == "__main__":
    unittest.main()
