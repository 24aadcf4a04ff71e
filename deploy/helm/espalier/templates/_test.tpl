{{/* Whether `helm test` can ask. */}}
{{- define "espalier.testRuns" -}}
{{- if and .Values.test.enabled (or (not .Values.gateway.apiKeys.existingSecret) .Values.test.apiKey.existingSecret) -}}true{{- end -}}
{{- end -}}
