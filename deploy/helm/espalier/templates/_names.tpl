{{/* Names and labels. */}}

{{- define "espalier.chartName" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "espalier.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 53 | trimSuffix "-" -}}
{{- else if contains (include "espalier.chartName" .) .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "espalier.chartName" .) | trunc 53 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* FULLNAME-PART of (list root part). One that is too long for a label ends in a hash, so that no two are alike. */}}
{{- define "espalier.named" -}}
{{- $name := printf "%s-%s" (include "espalier.fullname" (index . 0)) (index . 1) -}}
{{- if gt (len $name) 63 -}}
{{- printf "%s-%s" ($name | trunc 54 | trimSuffix "-") ($name | sha256sum | trunc 8) -}}
{{- else -}}
{{- $name -}}
{{- end -}}
{{- end -}}

{{/* The labels by which the release's Pods are told from all others. */}}
{{- define "espalier.releaseSelector" -}}
app.kubernetes.io/name: {{ include "espalier.chartName" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end -}}

{{/* Of objects, never of Pods: the chart's version changes with every release and must roll nothing. */}}
{{- define "espalier.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
app.kubernetes.io/part-of: espalier
{{ include "espalier.releaseSelector" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Metadata of an object: (dict "root" "name" "labels" "annotations"). */}}
{{- define "espalier.metadata" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "espalier.labels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge (dict) (.annotations | default dict) .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "espalier.serviceAccountName" -}}
{{- default (ternary (include "espalier.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name -}}
{{- end -}}

{{/* The address of a Service by its full name: (list root name). */}}
{{- define "espalier.host" -}}
{{- $root := index . 0 -}}
{{- printf "%s.%s.svc.%s" (index . 1) $root.Release.Namespace $root.Values.clusterDomain -}}
{{- end -}}

{{- define "espalier.image" -}}
{{- $own := .own | default dict -}}
{{- $image := index .root.Values.images .which -}}
{{- $registry := dig "registry" .root.Values.images.registry $own -}}
{{- $repository := dig "repository" $image.repository $own -}}
{{- $tag := coalesce (dig "tag" "" $own) $image.tag .root.Values.images.tag .root.Chart.AppVersion -}}
{{- $tag = printf "%s%s" $tag (ternary .root.Values.images.cudaTagSuffix "" (.cuda | default false)) -}}
{{- $digest := coalesce (dig "digest" "" $own) (ternary "" $image.digest (hasKey $own "tag")) -}}
{{- $name := ternary (printf "%s/%s" $registry $repository) $repository (ne $registry "") -}}
{{- ternary (printf "%s@%s" $name $digest) (printf "%s:%s" $name $tag) (ne ($digest | default "") "") -}}
{{- end -}}
