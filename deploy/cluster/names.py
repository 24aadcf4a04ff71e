"""The cluster's names: watches Services and their endpoints, and has dnsmasq answer for them.

    names.py RUN ADDRESS

A Service with an address of its own is that address; a headless one is the addresses of all Pods that are ready, and a
Pod with a host name has a name below it.
"""
import json
import pathlib
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.request

run, address = pathlib.Path(sys.argv[1]), sys.argv[2]
hosts = run / "hosts"
known = {"services": {}, "endpoints": {}}
changed = threading.Event()


def call(path):
    """An answer of the API server, as it comes."""
    token = (run / "tokens.csv").read_text().split(",")[0]
    trust = ssl.create_default_context(cafile=run / "certificates/apiserver.crt")
    request = urllib.request.Request(f"https://{address}:6443{path}", headers={"Authorization": f"Bearer {token}"})
    return urllib.request.urlopen(request, context=trust, timeout=3600)


def key(thing):
    return thing["metadata"]["namespace"], thing["metadata"]["name"]


def follow(kind):
    """Keeps `known` of a kind, whatever breaks."""
    while True:
        try:
            listed = json.load(call(f"/api/v1/{kind}"))
            known[kind] = {key(thing): thing for thing in listed["items"]}
            changed.set()
            version = listed["metadata"]["resourceVersion"]
            for line in call(f"/api/v1/{kind}?watch=true&resourceVersion={version}"):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    break
                if event["type"] == "DELETED":
                    known[kind].pop(key(event["object"]), None)
                else:
                    known[kind][key(event["object"])] = event["object"]
                changed.set()
        except (OSError, ValueError) as error:
            print(f"{kind} are listed again: {error}", file=sys.stderr, flush=True)
            time.sleep(0.5)


def records():
    """Lines of a file of hosts."""
    for (namespace, name), service in sorted(known["services"].items()):
        full = f"{name}.{namespace}.svc.cluster.local"
        own = service["spec"].get("clusterIP", "None")
        if own != "None":
            yield f"{own} {full}"
            continue
        subsets = known["endpoints"].get((namespace, name), {}).get("subsets") or []
        for ready in (pod for subset in subsets for pod in subset.get("addresses") or []):
            yield f"{ready['ip']} {full}"
            if "hostname" in ready:
                yield f"{ready['ip']} {ready['hostname']}.{full}"


hosts.write_text("")
# Names of the cluster alone; nothing is asked elsewhere, and nothing is remembered by who asks.
dnsmasq = subprocess.Popen([
    "dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--user=root", "--pid-file",
    "--bind-interfaces", f"--listen-address={address}", "--local=/cluster.local/", f"--addn-hosts={hosts}",
])
for kind in known:
    threading.Thread(target=follow, args=[kind], daemon=True).start()
while dnsmasq.poll() is None:
    changed.wait(5)
    changed.clear()
    lines = "".join(f"{line}\n" for line in records())
    if lines != hosts.read_text():
        part = hosts.with_suffix(".part")
        part.write_text(lines)
        part.rename(hosts)
        dnsmasq.send_signal(signal.SIGHUP)
sys.exit("dnsmasq ended")
