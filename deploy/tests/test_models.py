"""Models come from where they are said to, by containers that do what they say."""

import http.server
import os
import shutil
import subprocess
import tarfile
import tempfile
import threading
import unittest
from pathlib import Path

from chart import CHART, all_templates, containers, env_of, render, values_of

MODELS = {name.split("/")[1].removeprefix("rel-espalier-"): t for name, t in all_templates(render(values_of(CHART / "ci/values-models.yaml")))}


def init_of(part: str):
    """The first init container of a workload."""
    return MODELS[part]["spec"]["initContainers"][0]


def run_download(part: str, uri: str, folder: Path) -> None:
    """Runs the script of a download here, with the address and the folder in place of those of the Pod."""
    container = init_of(part)
    script = container["args"][0].replace("/tmp/model", str(folder / "archive"))
    target = folder / "model"
    target.mkdir(exist_ok=True)
    environment = {**os.environ, "MODEL_URI": uri, "MODEL_DIR": str(target), "MODEL_REVISION": "", "no_proxy": "*"}
    subprocess.run([*container["command"], script], env=environment, check=True, capture_output=True)


class Models(unittest.TestCase):
    def test_copies_are_of_folders_to_where_the_service_reads(self):
        copies = MODELS["pool-early-exit"]["spec"]["initContainers"]
        self.assertEqual(copies[0]["command"], ["cp", "-R", "/models/medium-early-exit/.", "/var/lib/espalier/model"])
        self.assertEqual(copies[1]["command"], ["cp", "-R", "/models/medium/.", "/var/lib/espalier/target-model"])

    def test_tools_by_scheme(self):
        self.assertIn("hf download", init_of("target-hub")["args"][0])
        self.assertIn("aws s3 sync", init_of("target-bucket")["args"][0])
        self.assertIn("tar -x", init_of("pool-sorted")["args"][0])
        self.assertIn("curl", init_of("target-gguf")["args"][0])
        self.assertEqual(init_of("target-own-tool")["command"], ["rclone"])

    def test_hubs_and_buckets_are_told_address_and_folder(self):
        for part, program in (("target-hub", "hf"), ("target-bucket", "aws")):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                tool = folder / program
                tool.write_text('#!/bin/sh\nprintf "%s " "$@" > "$MODEL_DIR/told"\n', encoding="utf-8")
                tool.chmod(0o755)
                container = init_of(part)
                told = env_of(container)
                environment = {**os.environ, **told, "MODEL_DIR": name, "PATH": f"{name}:{os.environ['PATH']}"}
                subprocess.run([*container["command"], *container["args"]], env=environment, check=True)
                arguments = (folder / "told").read_text(encoding="utf-8").split()
                self.assertEqual(arguments[-1], name)
                self.assertIn({"hf": "Qwen/Qwen2.5-7B-Instruct", "aws": "s3://models/qwen2.5-3b-instruct"}[program], arguments)

    @unittest.skipUnless(shutil.which("curl"), "there is no curl")
    def test_files_and_archives_arrive(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "qwen-q4.gguf").write_text("weights", encoding="utf-8")
            with tarfile.open(folder / "sorted.tar.gz", "w:gz") as archive:
                archive.add(folder / "qwen-q4.gguf", "config.json")

            class Quiet(http.server.SimpleHTTPRequestHandler):
                def __init__(self, *args):
                    super().__init__(*args, directory=name)

                def log_message(self, *args):
                    pass

            with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                address = f"http://127.0.0.1:{server.server_port}"
                run_download("target-gguf", f"{address}/qwen-q4.gguf", folder)
                self.assertEqual((folder / "model/qwen-q4.gguf").read_text(encoding="utf-8"), "weights")
                run_download("pool-sorted", f"{address}/sorted.tar.gz", folder)
                self.assertEqual((folder / "model/config.json").read_text(encoding="utf-8"), "weights")
                with self.assertRaises(subprocess.CalledProcessError):
                    run_download("target-gguf", f"{address}/missing.gguf", folder)
                server.shutdown()

    def test_what_is_downloaded_is_where_the_service_reads(self):
        variables = env_of(MODELS["target-gguf"]["spec"]["containers"][0])
        self.assertEqual(variables["ESPALIER_VERIFIER_MODEL"], "/var/lib/espalier/model/qwen-q4.gguf")
        self.assertEqual(env_of(init_of("target-gguf"))["MODEL_DIR"], "/var/lib/espalier/model")

    def test_names_that_no_object_could_have(self):
        self.assertEqual(env_of(MODELS["target-bucket"]["spec"]["containers"][0])["ESPALIER_VERIFIER_NAME"], "Qwen2.5-3B")

    def test_services_cannot_change_their_models(self):
        for path in ["values.yaml", "values-demo.yaml", "ci/values-models.yaml", "ci/values-image-volume.yaml"]:
            for name, template in all_templates(render(values_of(CHART / path))):
                for mount in containers(template)[-1].get("volumeMounts", []):
                    if mount["mountPath"].startswith("/var/lib/espalier"):
                        self.assertTrue(mount["readOnly"], name)

    def test_gpus_are_as_many_as_share_the_model(self):
        found = {}
        for name, template in all_templates(render(values_of(CHART / "ci/values-gpu.yaml"))):
            container = template["spec"]["containers"][0]
            found[name.split("/")[1].removeprefix("rel-espalier-")] = (
                container["resources"].get("limits", {}).get("nvidia.com/gpu"),
                container["image"].endswith("-cuda"),
            )
        self.assertEqual(found["target-llama-70b"], (4, True))
        self.assertEqual(found["target-llama-8b"], (1, True))
        self.assertEqual(found["pool-gpu"], (1, True))
        self.assertEqual(found["pool-processors"], (None, False))


if __name__ == "__main__":
    unittest.main()
