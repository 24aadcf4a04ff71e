{{/*
Which API versions the cluster has. What `helm template` claims of APIs without a cluster is more than any cluster has,
so the version of Kubernetes decides for its own APIs, and the list of APIs for those of others.
*/}}

{{- define "espalier.api.policy" -}}
{{- ternary "policy/v1" "policy/v1beta1" (semverCompare ">=1.21.0-0" .Capabilities.KubeVersion.Version) -}}
{{- end -}}

{{- define "espalier.api.autoscaling" -}}
{{- ternary "autoscaling/v2" "autoscaling/v2beta2" (semverCompare ">=1.23.0-0" .Capabilities.KubeVersion.Version) -}}
{{- end -}}

{{- define "espalier.api.grpcRoute" -}}
{{- $v1 := "gateway.networking.k8s.io/v1" -}}
{{- $old := "gateway.networking.k8s.io/v1alpha2" -}}
{{- $has := .Capabilities.APIVersions -}}
{{- ternary $old $v1 (and ($has.Has (printf "%s/GRPCRoute" $old)) (not ($has.Has (printf "%s/GRPCRoute" $v1)))) -}}
{{- end -}}
