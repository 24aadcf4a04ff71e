{{/* The Pod of a group's worker: the leader's, with a command of its own and nothing that serves. */}}
{{- define "espalier.workerPod" -}}
{{- $pod := fromYaml (include "espalier.pod" .) -}}
{{- $container := omit (first $pod.spec.containers) "ports" "startupProbe" "readinessProbe" "livenessProbe" "args" -}}
{{- $_ := set $container "name" "worker" -}}
{{- $_ := set $container "command" .spec.multiNode.workerCommand -}}
{{- $_ := set $pod.spec "containers" (concat (list $container) (rest $pod.spec.containers)) -}}
{{- toYaml $pod -}}
{{- end -}}
