{{/* Certificates: one for each role, known by the name in it (docs/security.md). */}}

{{/* The Secret of the workload's role. */}}
{{- define "espalier.tlsSecret" -}}
{{- if .root.Values.tls.certManager.enabled -}}
{{- include "espalier.named" (list .root (printf "%s-tls" .role)) -}}
{{- else -}}
{{- get .root.Values.tls.existingSecrets .role -}}
{{- end -}}
{{- end -}}

{{/* The names that clients know the gateway by. */}}
{{- define "espalier.gatewayNames" -}}
{{- $names := list -}}
{{- range list "gateway" "gateway-headless" -}}
{{- $name := include "espalier.named" (list $ .) -}}
{{- $names = concat $names (list $name (printf "%s.%s" $name $.Release.Namespace) (printf "%s.%s.svc" $name $.Release.Namespace) (include "espalier.host" (list $ $name))) -}}
{{- end -}}
{{- toYaml (concat $names .Values.tls.certManager.gatewayDnsNames | uniq) -}}
{{- end -}}

{{/* Whether the gateway's door is under TLS. */}}
{{- define "espalier.doorTls" -}}
{{- if and .Values.tls.enabled (not .Values.tls.door.plain) -}}true{{- end -}}
{{- end -}}
