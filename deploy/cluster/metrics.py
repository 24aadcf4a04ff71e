"""The API that autoscalers ask for metrics of Pods (custom.metrics.k8s.io): each question is answered by asking the Pods.

    metrics.py RUN ADDRESS

A metric has the name that it has at a Pod's /metrics; its value is the sum of its samples there.
"""
import datetime
import http.server
import json
import pathlib
import re
import ssl
import subprocess
import sys
import time
import urllib.parse
import urllib.request

run, address = pathlib.Path(sys.argv[1]), sys.argv[2]
GROUP = "custom.metrics.k8s.io/v1beta1"
PORT = 6444
# A Service without a selector, which stands for this process, and the part of the API that it answers for.
REGISTRATION = f"""
apiVersion: v1
kind: Service
metadata: {{name: custom-metrics, namespace: kube-system}}
spec: {{ports: [{{port: 443, targetPort: {PORT}}}]}}
---
apiVersion: v1
kind: Endpoints
metadata: {{name: custom-metrics, namespace: kube-system}}
subsets: [{{addresses: [{{ip: {address}}}], ports: [{{port: {PORT}}}]}}]
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {{name: v1beta1.custom.metrics.k8s.io}}
spec:
  group: custom.metrics.k8s.io
  version: v1beta1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {{name: custom-metrics, namespace: kube-system}}
"""


def kubectl(*arguments, given=None):
    done = subprocess.run(["kubectl", *arguments], input=given, check=True, capture_output=True, text=True)
    return done.stdout


def value(pod, metric):
    """The sum of a metric's samples at a Pod."""
    port = pod["metadata"].get("annotations", {}).get("prometheus.io/port", "9464")
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:{port}/metrics", timeout=2) as answer:
        text = answer.read().decode()
    samples = re.findall(rf"^{re.escape(metric)}(?:\{{[^}}]*\}})? (\S+)", text, re.MULTILINE)
    return sum(map(float, samples)) if samples else None


def metrics(namespace, metric, selector):
    """What each running Pod says; Pods that do not answer are left out, as autoscalers expect it."""
    pods = json.loads(kubectl("get", "pods", "--namespace", namespace, "--selector", selector, "--output", "json"))
    for pod in pods["items"]:
        try:
            found = value(pod, metric)
        except (KeyError, OSError):
            continue
        if found is not None:
            yield {
                "describedObject": {
                    "kind": "Pod", "namespace": namespace, "name": pod["metadata"]["name"], "apiVersion": "/v1",
                },
                "metricName": metric,
                "timestamp": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
                # In thousandths, as quantities have no exponent that all versions read.
                "value": f"{round(found * 1000)}m",
                "selector": None,
            }


class Answer(http.server.BaseHTTPRequestHandler):
    """GET alone."""

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        question = re.fullmatch(rf"/apis/{GROUP}/namespaces/([^/]+)/pods/\*/([^/]+)", urllib.parse.unquote(url.path))
        if question:
            selector = urllib.parse.parse_qs(url.query).get("labelSelector", [""])[0]
            items = list(metrics(*question.groups(), selector))
            self.answer({"kind": "MetricValueList", "apiVersion": GROUP, "metadata": {}, "items": items})
        elif url.path == f"/apis/{GROUP}":
            # Autoscalers ask for what they are told; none looks here first.
            self.answer({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": GROUP, "resources": []})
        else:
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404}, 404)

    def answer(self, body, code=200):
        encoded = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(encoded)))
        self.end_headers()
        self.wfile.write(encoded)


server = http.server.ThreadingHTTPServer((address, PORT), Answer)
trust = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
# The API server does not look at the certificate.
trust.load_cert_chain(run / "certificates/apiserver.crt", run / "certificates/apiserver.key")
server.socket = trust.wrap_socket(server.socket, server_side=True)
while True:
    try:
        kubectl("apply", "--filename", "-", given=REGISTRATION)
        break
    except subprocess.CalledProcessError as error:
        print(error.stderr, file=sys.stderr, flush=True)
        time.sleep(0.5)
server.serve_forever()
