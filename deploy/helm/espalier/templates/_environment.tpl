{{/*
What services are told, in their environment: the exec probe reads the same variables. Variables without a value are
left out, so that the program's default holds.
*/}}

{{- define "espalier.env" -}}
{{- $value := index . 1 -}}
{{- if not (or (kindIs "invalid" $value) (eq (toString $value) "")) }}
- name: {{ index . 0 }}
  value: {{ ternary (printf "%.0f" (float64 (ternary $value 0 (kindIs "float64" $value)))) (toString $value) (and (kindIs "float64" $value) (eq (toString (floor $value)) (toString $value))) | quote }}
{{- end }}
{{- end -}}

{{/* a=1,b=2 of a map. */}}
{{- define "espalier.pairs" -}}
{{- $pairs := list -}}
{{- range $key, $value := . -}}
{{- $pairs = append $pairs (printf "%s=%d" $key (int64 $value)) -}}
{{- end -}}
{{- join "," $pairs -}}
{{- end -}}

{{- define "espalier.scheme" -}}
{{- ternary "https" "http" .Values.tls.enabled -}}
{{- end -}}

{{- define "espalier.env.common" -}}
{{- $root := .root -}}
{{- include "espalier.env" (list (printf "%s_LISTEN" .prefix) (printf "%s:%d" $root.Values.listenHost (int .port))) }}
{{- /* The exec probe asks that port too, so it is closed to others only. */}}
{{- include "espalier.env" (list "ESPALIER_METRICS_LISTEN" (printf "%s:9464" (ternary $root.Values.listenHost "127.0.0.1" $root.Values.metrics.enabled))) }}
{{- include "espalier.env" (list "ESPALIER_LOG" .spec.log) }}
{{- include "espalier.env" (list "ESPALIER_LOG_FORMAT" $root.Values.telemetry.logFormat) }}
{{- include "espalier.env" (list "ESPALIER_DRAIN_ANNOUNCE" .spec.drain.announceSeconds) }}
{{- include "espalier.env" (list "ESPALIER_DRAIN_MAX" .spec.drain.maxSeconds) }}
{{- include "espalier.env" (list "ESPALIER_OTLP_ENDPOINT" $root.Values.telemetry.otlpEndpoint) }}
{{- include "espalier.env" (list "ESPALIER_TRACE_RATIO" $root.Values.telemetry.traceRatio) }}
{{- if $root.Values.telemetry.otlpEndpoint }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: OTEL_RESOURCE_ATTRIBUTES
  value: {{ printf "k8s.namespace.name=%s,k8s.pod.name=$(POD_NAME)" $root.Release.Namespace | quote }}
{{- end }}
{{- if $root.Values.tls.enabled }}
{{- include "espalier.env" (list "ESPALIER_TLS_CERT" "/etc/espalier/tls/tls.crt") }}
{{- include "espalier.env" (list "ESPALIER_TLS_KEY" "/etc/espalier/tls/tls.key") }}
{{- include "espalier.env" (list "ESPALIER_TLS_CA" "/etc/espalier/tls/ca.crt") }}
{{- end }}
{{- end -}}

{{/* Names stand for all targets and all pools, so that the gateway need not be told of one that joins. */}}
{{- define "espalier.env.gateway" -}}
{{- $root := .root -}}
{{- $scheme := include "espalier.scheme" $root -}}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_VERIFIERS" (printf "dns+%s://%s:50052" $scheme (include "espalier.host" (list $root (include "espalier.named" (list $root "verifiers")))))) }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_DRAFTERS" (printf "dns+%s://%s:50061" $scheme (include "espalier.host" (list $root (include "espalier.named" (list $root "drafters")))))) }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_POLICY" .spec.policy) }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_POLICIES" (join "," .spec.policies)) }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_REQUESTS_MAX" .spec.requestsMax) }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_QUEUED_MAX" .spec.queuedMax) }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_CLIENT_REQUESTS_MAX" .spec.clientRequestsMax) }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_CLIENT_WEIGHTS" (include "espalier.pairs" .spec.clientWeights)) }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_UNREAD_MAX" .spec.unreadMaxSeconds) }}
{{- if not .spec.playground }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_NO_PLAYGROUND" "true") }}
{{- end }}
{{- if include "espalier.profiles" $root }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_PROFILES" "/etc/espalier/profiles/profiles.json") }}
{{- end }}
{{- if .spec.apiKeys.existingSecret }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_KEYS" (printf "/etc/espalier/keys/%s" .spec.apiKeys.key)) }}
{{- end }}
{{- with $root.Values.tls }}
{{- if and .enabled .door.existingSecret }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_DOOR_CERT" "/etc/espalier/door/tls.crt") }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_DOOR_KEY" "/etc/espalier/door/tls.key") }}
{{- end }}
{{- if and .enabled .door.clientCaSecret }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_DOOR_CA" "/etc/espalier/clients/ca.crt") }}
{{- end }}
{{- if and .enabled .door.plain }}
{{- include "espalier.env" (list "ESPALIER_GATEWAY_DOOR_PLAIN" "true") }}
{{- end }}
{{- end }}
{{- end -}}

{{/* What drafters and verifiers have in common. */}}
{{- define "espalier.env.model" -}}
{{- include "espalier.env" (list (printf "%s_MODEL" .prefix) (include "espalier.model.path" (index .models 0))) }}
{{- include "espalier.env" (list (printf "%s_NAME" .prefix) (include "espalier.servedName" .)) }}
{{- include "espalier.env" (list (printf "%s_DEVICE" .prefix) .spec.device) }}
{{- include "espalier.env" (list (printf "%s_COMPUTE" .prefix) .spec.compute) }}
{{- include "espalier.env" (list (printf "%s_THREADS" .prefix) .spec.threads) }}
{{- include "espalier.env" (list (printf "%s_SEQUENCES_MAX" .prefix) .spec.sequencesMax) }}
{{- include "espalier.env" (list (printf "%s_KV_MEMORY" .prefix) .spec.kvMemory) }}
{{- end -}}

{{- define "espalier.env.verifier" -}}
{{- include "espalier.env.model" . }}
{{- if gt (int .spec.tensorParallel) 1 }}
{{- include "espalier.env" (list "ESPALIER_VERIFIER_TENSOR_PARALLEL" .spec.tensorParallel) }}
{{- end }}
{{- if gt (int .spec.pipelineParallel) 1 }}
{{- include "espalier.env" (list "ESPALIER_VERIFIER_PIPELINE_PARALLEL" .spec.pipelineParallel) }}
{{- end }}
{{- include "espalier.env" (list "ESPALIER_VERIFIER_QUANTIZE" .spec.quantize) }}
{{- include "espalier.env" (list "ESPALIER_VERIFIER_TREE_NODES_MAX" .spec.treeNodesMax) }}
{{- end -}}

{{- define "espalier.env.drafter" -}}
{{- include "espalier.env.model" . }}
{{- $predictors := list -}}
{{- range .models -}}
{{- if eq .slot "target-model" }}
{{- include "espalier.env" (list "ESPALIER_DRAFTER_TARGET_MODEL" (include "espalier.model.path" .)) }}
{{- else if hasPrefix "predictor-" .slot -}}
{{- $predictors = append $predictors (include "espalier.model.path" .) -}}
{{- end }}
{{- end }}
{{- include "espalier.env" (list "ESPALIER_DRAFTER_PREDICTORS" (join "," $predictors)) }}
{{- include "espalier.env" (list "ESPALIER_DRAFTER_THRESHOLDS" (join "," .spec.thresholds)) }}
{{- include "espalier.env" (list "ESPALIER_DRAFTER_LAYERS" .spec.layers) }}
{{- include "espalier.env" (list "ESPALIER_DRAFTER_WEIGHTS" (include "espalier.pairs" .spec.weights)) }}
{{- include "espalier.env" (list "ESPALIER_DRAFTER_ALLOW_VERIFIERS" (join "," .spec.allowVerifiers)) }}
{{- end -}}

{{/* The gateway's file of profiles, as JSON; empty if no target has thresholds or a policy. */}}
{{- define "espalier.profiles" -}}
{{- $profiles := dict -}}
{{- range .Values.targets -}}
{{- $drafters := dict -}}
{{- with .policy -}}
{{- $_ := set $drafters "*" (dict "policy" .) -}}
{{- end -}}
{{- range $drafter, $profile := .profiles -}}
{{- $_ := set $drafters $drafter $profile -}}
{{- end -}}
{{- if $drafters -}}
{{- $_ := set $profiles (.servedName | default .name) $drafters -}}
{{- end -}}
{{- end -}}
{{- if $profiles -}}{{- toJson $profiles -}}{{- end -}}
{{- end -}}
