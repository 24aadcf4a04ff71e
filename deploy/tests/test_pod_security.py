"""Every Pod keeps the rules of the restricted Pod Security Standard, and some more."""

import unittest

from chart import all_templates, containers, matrix, of_kind, render, values_of

# What the standard allows.
VOLUMES = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret"}


def faults(template) -> list[str]:
    """The rules that a Pod breaks."""
    spec = template["spec"]
    pod = spec.get("securityContext", {})
    found = [f"{field} of the host" for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
    for volume in spec.get("volumes", []):
        if not set(volume) - {"name"} <= VOLUMES:
            found.append(f"volume {volume}")
    if spec.get("automountServiceAccountToken") is not False:
        found.append("a token of the service account")
    for container in containers(template):
        own = container.get("securityContext", {})
        effective = {**pod, **own}
        name = container["name"]
        if effective.get("runAsNonRoot") is not True or effective.get("runAsUser") == 0:
            found.append(f"{name} may run as root")
        if own.get("allowPrivilegeEscalation") is not False or own.get("privileged"):
            found.append(f"{name} may gain rights")
        capabilities = own.get("capabilities", {})
        if capabilities.get("drop") != ["ALL"] or set(capabilities.get("add", [])) - {"NET_BIND_SERVICE"}:
            found.append(f"{name} has capabilities")
        if effective.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
            found.append(f"{name} has no seccomp profile")
        if own.get("readOnlyRootFilesystem") is not True:
            found.append(f"{name} may write to its root")
        if any("hostPort" in port for port in container.get("ports", [])):
            found.append(f"{name} has a port of the host")
        if "memory" not in container.get("resources", {}).get("limits", {}):
            found.append(f"{name} has no limit of memory")
    return found


class PodSecurity(unittest.TestCase):
    def test_every_pod_of_every_values_file(self):
        for path in matrix():
            seen = 0
            for name, template in all_templates(render(values_of(path))):
                with self.subTest(path.name, pod=name):
                    self.assertEqual(faults(template), [])
                seen += 1
            self.assertGreaterEqual(seen, 2)

    def test_no_variables_of_services(self):
        # ESPALIER_GATEWAY_PORT and the like of a Service would be mixed up with the programs' own.
        for path in matrix():
            for name, template in all_templates(render(values_of(path))):
                self.assertIs(template["spec"].get("enableServiceLinks"), False, name)

    def test_nothing_can_ask_kubernetes(self):
        for path in matrix():
            documents = render(values_of(path))
            self.assertFalse([d for d in documents if d["kind"] in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")])
            for account in of_kind(documents, "ServiceAccount"):
                self.assertIs(account["automountServiceAccountToken"], False)

    def test_the_rules_find_what_is_wrong(self):
        wrong = {"hostNetwork": True, "containers": [{"name": "c"}], "volumes": [{"name": "v", "hostPath": {"path": "/"}}]}
        self.assertEqual(len(faults({"spec": wrong})), 9)


if __name__ == "__main__":
    unittest.main()
