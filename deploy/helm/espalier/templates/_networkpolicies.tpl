{{/* The Pods of a role: (list root role). */}}
{{- define "espalier.rolePods" -}}
podSelector:
  matchLabels:
    {{- include "espalier.releaseSelector" (index . 0) | nindent 4 }}
    app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "espalier.dnsEgress" -}}
# Names are looked up wherever the cluster's resolver is.
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- end -}}
