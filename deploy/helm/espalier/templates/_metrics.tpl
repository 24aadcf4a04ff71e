{{/*
What workloads scale on, one line a metric: the name in `autoscaling.metrics`, and of (list workload)
  pods     the metric that an HPA asks the custom metrics API for, of each Pod (prometheus-adapter.yaml makes them)
  query    the sum over the workload's Pods in PromQL, which KEDA divides by the number of replicas.
`cpuPercent` is the metrics server's, and of all roles.
*/}}
{{- define "espalier.metricsOfRole" -}}
{{- $of := printf "namespace=%q,service=%q" .root.Release.Namespace (ternary (include "espalier.named" (list .root "gateway-headless")) .fullname (eq .role "gateway")) -}}
{{- $gauge := dict -}}
{{- range $name, $metric := dict "requestsQueued" "espalier_requests_queued" "requestsRunning" "espalier_requests_running" "sequencesOpen" "espalier_sequences_open" "treesWaiting" "espalier_trees_waiting" -}}
{{- $_ := set $gauge $name (dict "pods" $metric "query" (printf "sum(%s{%s})" $metric $of)) -}}
{{- end -}}
{{- $kv := dict "pods" "espalier_kv_use_percent" "query" (printf "sum(100 * sum by (pod) (espalier_kv_blocks{%s,state=~\"held|promised\"}) / sum by (pod) (espalier_kv_blocks{%s}))" $of $of) -}}
{{- $rows := dict "pods" "espalier_pass_rows_mean" "query" (printf "sum(sum by (pod) (rate(espalier_pass_rows_sum{%s}[2m])) / sum by (pod) (rate(espalier_pass_rows_count{%s}[2m])) > 0) or vector(0)" $of $of) -}}
{{- if eq .role "gateway" -}}
{{- toYaml (pick $gauge "requestsQueued" "requestsRunning") -}}
{{- else -}}
{{- toYaml (merge (pick $gauge "sequencesOpen" "treesWaiting") (dict "kvUsePercent" $kv "passRows" $rows)) -}}
{{- end -}}
{{- end -}}

{{- define "espalier.scaleTarget" -}}
apiVersion: {{ ternary "leaderworkerset.x-k8s.io/v1" "apps/v1" .multiNode }}
kind: {{ ternary "LeaderWorkerSet" "Deployment" .multiNode }}
name: {{ .fullname }}
{{- end -}}
