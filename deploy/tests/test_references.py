"""Every port, volume, Secret, ConfigMap, ServiceAccount and Service that something refers to is there."""

import re
import unittest

from chart import all_templates, by_identity, containers, env_of, matches, matrix, of_kind, render, templates, values_of

ADDRESS = re.compile(r"https?://(?P<service>[a-z0-9-]+)\.serving\.svc\.cluster\.local:(?P<port>\d+)")


def ports(container):
    """Names and numbers of a container's ports."""
    return {port[key] for port in container.get("ports", []) for key in ("name", "containerPort") if key in port}


class References(unittest.TestCase):
    def test_ports_of_services_and_probes(self):
        for path in matrix():
            documents = render(values_of(path))
            for name, template in all_templates(documents):
                for container in containers(template):
                    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                        for way in container.get(probe, {}).values():
                            if isinstance(way, dict) and "port" in way:
                                self.assertIn(way["port"], ports(container), f"{path.name} {name} {probe}")
            for service in of_kind(documents, "Service"):
                for document in documents:
                    for template in list(templates(document))[:1]:
                        if matches(service["spec"]["selector"], template["metadata"]["labels"]):
                            there = ports(template["spec"]["containers"][0])
                            for port in service["spec"]["ports"]:
                                self.assertIn(port["targetPort"], there, f"{path.name} {service['metadata']['name']}")

    def test_services_are_listened_to_where_they_say(self):
        for path in matrix():
            for name, template in all_templates(render(values_of(path))):
                variables = env_of(template["spec"]["containers"][0])
                there = ports(template["spec"]["containers"][0])
                for variable, value in variables.items():
                    if variable.endswith("_LISTEN") and there and not value.startswith("127."):
                        self.assertIn(int(value.rsplit(":", 1)[1]), there, f"{path.name} {name} {variable}")

    def test_addresses_are_of_services_with_that_port(self):
        for path in matrix():
            documents = by_identity(render(values_of(path)))
            found = 0
            for name, template in all_templates(list(documents.values())):
                for value in env_of(template["spec"]["containers"][0]).values():
                    for address in ADDRESS.finditer(value):
                        service = documents["Service", address["service"]]
                        self.assertIn(int(address["port"]), [port["port"] for port in service["spec"]["ports"]], name)
                        found += 1
            self.assertGreaterEqual(found, 2)

    def test_backends_of_ingress_and_route(self):
        for path in matrix():
            documents = by_identity(render(values_of(path)))
            for (kind, _), document in documents.items():
                if kind == "Ingress":
                    backend = document["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
                    service = documents["Service", backend["name"]]
                    self.assertIn(backend["port"]["name"], [port["name"] for port in service["spec"]["ports"]])
                elif kind == "GRPCRoute":
                    backend = document["spec"]["rules"][0]["backendRefs"][0]
                    service = documents["Service", backend["name"]]
                    self.assertIn(backend["port"], [port["port"] for port in service["spec"]["ports"]])

    def test_mounts_have_volumes_and_no_path_twice(self):
        for path in matrix():
            for name, template in all_templates(render(values_of(path))):
                volumes = [volume["name"] for volume in template["spec"]["volumes"]]
                self.assertEqual(len(volumes), len(set(volumes)), f"{path.name} {name}")
                mounted = set()
                for container in containers(template):
                    paths = [mount["mountPath"] for mount in container.get("volumeMounts", [])]
                    self.assertEqual(len(paths), len(set(paths)), f"{path.name} {name}")
                    mounted |= {mount["name"] for mount in container.get("volumeMounts", [])}
                self.assertEqual(mounted, set(volumes), f"{path.name} {name}")

    def test_files_that_variables_name_are_mounted(self):
        for path in matrix():
            for name, template in all_templates(render(values_of(path))):
                container = template["spec"]["containers"][0]
                mounts = [mount["mountPath"] + "/" for mount in container["volumeMounts"]]
                for variable, value in env_of(container).items():
                    for file in value.split(","):
                        if file.startswith(("/etc/espalier/", "/var/lib/espalier/")):
                            self.assertTrue(any(f"{file}/".startswith(mount) for mount in mounts), f"{name} {variable} {file}")

    def test_what_the_chart_makes_is_used_by_its_name(self):
        for path in matrix():
            documents = by_identity(render(values_of(path)))
            made = {"configMap": {name for kind, name in documents if kind == "ConfigMap"}}
            made["secret"] = {d["spec"]["secretName"] for (kind, _), d in documents.items() if kind == "Certificate"}
            for name, template in all_templates(list(documents.values())):
                for volume in template["spec"]["volumes"]:
                    for kind, key in (("configMap", "name"), ("secret", "secretName")):
                        used = volume.get(kind, {}).get(key, "")
                        if used.startswith("rel-"):
                            self.assertIn(used, made[kind], name)
                account = template["spec"]["serviceAccountName"]
                self.assertTrue(("ServiceAccount", account) in documents or account in ("default", "models"), account)


if __name__ == "__main__":
    unittest.main()
