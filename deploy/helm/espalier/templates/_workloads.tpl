{{/*
The workloads of a release: the gateway, every draft pool, every target. Each is a map of
  root, role (gateway, drafter, verifier), kind (gateway, pool, target), key (where its values stand), name, id (its own
  part of names), spec (its values over all defaults), selector, port, program, prefix (of environment variables),
  cuda, rolloutSeconds.
*/}}

{{/* Merges the second map of (list into from) into the first, in place. Unlike mergeOverwrite it lets false, 0 and null win. */}}
{{- define "espalier.mergeInto" -}}
{{- $into := index . 0 -}}
{{- range $key, $value := index . 1 -}}
{{- if and (kindIs "map" $value) (kindIs "map" (get $into $key)) -}}
{{- include "espalier.mergeInto" (list (get $into $key) $value) -}}
{{- else if kindIs "map" $value -}}
{{- $_ := set $into $key (deepCopy $value) -}}
{{- else -}}
{{- $_ := set $into $key $value -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Completes the workload it is given. */}}
{{- define "espalier.workload" -}}
{{- $spec := dict -}}
{{- include "espalier.mergeInto" (list $spec .root.Values.defaults) -}}
{{- include "espalier.mergeInto" (list $spec .middle) -}}
{{- include "espalier.mergeInto" (list $spec .own) -}}
{{- $_ := set . "spec" $spec -}}
{{- $_ := set . "fullname" (include "espalier.named" (list .root .id)) -}}
{{- $selector := fromYaml (include "espalier.releaseSelector" .root) -}}
{{- $_ := set $selector "app.kubernetes.io/component" .role -}}
{{- if ne .kind "gateway" -}}
{{- $_ := set $selector (printf "espalier/%s" .kind) .own.name -}}
{{- end -}}
{{- $_ := set . "selector" $selector -}}
{{- $_ := set . "port" (get (dict "gateway" 50051 "verifier" 50052 "drafter" 50061) .role) -}}
{{- $_ := set . "program" (printf "espalier-%s" .role) -}}
{{- $_ := set . "prefix" (printf "ESPALIER_%s" (upper .role)) -}}
{{- $_ := set . "cuda" (hasPrefix "cuda" ($spec.device | default "cpu")) -}}
{{- $_ := set . "multiNode" (not (empty (dig "multiNode" "size" 0 $spec))) -}}
{{- $startup := $spec.probes.startup -}}
{{- $_ := set . "startSeconds" (mul ($startup.periodSeconds | int) ($startup.failureThreshold | int)) -}}
{{- end -}}

{{/* Puts all workloads into `list` of (dict "root"). */}}
{{- define "espalier.workloads" -}}
{{- $root := .root -}}
{{- $all := list (dict "root" $root "role" "gateway" "kind" "gateway" "key" "gateway" "id" "gateway" "middle" dict "own" $root.Values.gateway) -}}
{{- range $i, $pool := $root.Values.draftPools -}}
{{- $all = append $all (dict "root" $root "role" "drafter" "kind" "draft-pool" "key" (printf "draftPools[%d]" $i) "id" (printf "pool-%s" $pool.name) "middle" $root.Values.draftPoolDefaults "own" $pool) -}}
{{- end -}}
{{- range $i, $target := $root.Values.targets -}}
{{- $all = append $all (dict "root" $root "role" "verifier" "kind" "target" "key" (printf "targets[%d]" $i) "id" (printf "target-%s" $target.name) "middle" $root.Values.targetDefaults "own" $target) -}}
{{- end -}}
{{- range $all -}}
{{- include "espalier.workload" . -}}
{{- end -}}
{{- $_ := set . "list" $all -}}
{{- end -}}

{{/* The name that a model is served under. */}}
{{- define "espalier.servedName" -}}
{{- .own.servedName | default .own.name -}}
{{- end -}}

{{- define "espalier.scalesItself" -}}
{{- if or .spec.autoscaling.hpa.enabled .spec.autoscaling.keda.enabled -}}true{{- end -}}
{{- end -}}

{{- define "espalier.workload.metadata" -}}
{{- include "espalier.metadata" (dict "root" .root "name" .fullname "labels" (merge (dict) (omit .selector "app.kubernetes.io/name" "app.kubernetes.io/instance") .spec.labels) "annotations" .spec.annotations) -}}
{{- end -}}
