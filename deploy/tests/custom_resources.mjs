// Checks custom resources, a JSON array on standard input, against the schemas of their projects; prints a line a fault.
// It runs from the folder with the packages, as imports are looked for beside the script.
import { readFileSync } from "node:fs";

const packages = {
  "gateway.networking.k8s.io/v1alpha2": "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1alpha2",
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
  "cert-manager.io/v1": "@kubernetes-models/cert-manager/cert-manager.io/v1",
  "keda.sh/v1alpha1": "@kubernetes-models/keda/keda.sh/v1alpha1",
};
for (const object of JSON.parse(readFileSync(0, "utf8"))) {
  const Model = (await import(packages[object.apiVersion]))[object.kind];
  try {
    new Model(object).validate();
  } catch (error) {
    console.log(`${object.kind}/${object.metadata.name}: ${error.message}`);
  }
}
