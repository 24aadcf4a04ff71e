"""The script of `helm test` fails where it should: run here with a program in place of `espalier`."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from chart import CHART, defaults, env_of, of_kind, render, values_of

FAKE = """#!/bin/sh
echo "$@" >> "$CALLS"
case " $* " in *" --target $BROKEN "*) exit 1 ;; esac
tokens=1,2,3
case " $* " in *" --no-speculation "*) tokens=$PLAIN ;; esac
printf '{"target":"t","token_ids":[%s],"text":"a [b]"}\\n' "$tokens"
"""


def run(values, plain="1,2,3", broken="none"):
    """Runs the Pod's command with what plain decoding says; the process, and how the program was called."""
    container = of_kind(render(values), "Pod")[0]["spec"]["containers"][0]
    with tempfile.TemporaryDirectory() as folder:
        fake = Path(folder) / "espalier"
        fake.write_text(FAKE, encoding="utf-8")
        fake.chmod(0o755)
        calls = Path(folder) / "calls"
        environment = {**env_of(container), "PLAIN": plain, "BROKEN": broken, "CALLS": str(calls), "PATH": f"{folder}:{os.environ['PATH']}"}
        done = subprocess.run([*container["command"], *container["args"]], env=environment, capture_output=True, text=True, check=False)
        return done, calls.read_text(encoding="utf-8").splitlines()


class HelmTest(unittest.TestCase):
    def test_the_same_tokens_are_well(self):
        done, calls = run(defaults())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(calls), 4)
        self.assertEqual(sum("--no-speculation" in call for call in calls), 2)
        self.assertTrue(all("--json" in call and "--max-tokens 32" in call for call in calls))
        for target in ("small", "large"):
            self.assertIn(f"{target}: ", done.stdout)

    def test_other_tokens_are_not(self):
        done, _ = run(defaults(), plain="1,2,4")
        self.assertEqual(done.returncode, 1)
        self.assertIn("small: not the tokens of plain decoding: [1,2,3], but [1,2,4]", done.stderr)

    def test_no_tokens_are_not(self):
        done, _ = run(defaults(), plain="")
        self.assertEqual(done.returncode, 1)
        self.assertIn("small: no tokens", done.stderr)

    def test_a_target_that_does_not_answer_is_not(self):
        for target, asked in (("small", 1), ("large", 3)):
            done, calls = run(defaults(), broken=target)
            self.assertNotEqual(done.returncode, 0)
            self.assertEqual(len(calls), asked)

    def test_it_asks_by_the_name_that_is_served(self):
        _, calls = run(values_of(CHART / "ci/values-models.yaml"))
        self.assertTrue(any("--target Qwen2.5-3B " in call for call in calls))

    def test_it_has_a_key_where_one_is_asked_for(self):
        _, calls = run(values_of(CHART / "ci/values-tls.yaml"))
        self.assertTrue(all("--key-file /etc/espalier/key/key" in call for call in calls))
        values = values_of(CHART / "ci/values-tls.yaml")
        del values["test"]
        self.assertEqual(of_kind(render(values), "Pod"), [])

    def test_the_flags_are_those_of_the_command_line(self):
        sources = "".join(f.read_text(encoding="utf-8") for f in (CHART.parents[2] / "crates").rglob("*.rs"))
        for flag in ("no_speculation: bool", "pub max_tokens", "key_file: Option<PathBuf>", "pub(crate) json: bool", "token_ids: Vec<u32>"):
            self.assertIn(flag, sources)
        container = of_kind(render(values_of(CHART / "ci/values-tls-secrets.yaml")), "Pod")[0]["spec"]["containers"][0]
        for variable in env_of(container):
            if variable.startswith("ESPALIER_"):
                self.assertIn(f'"{variable}"', sources)


if __name__ == "__main__":
    unittest.main()
