{{/* The Pod of a workload. Nothing in it depends on another workload, so nothing else rolls it. */}}

{{/* Time from SIGTERM to the kill: all that a drain may take, and some for what ends after it. */}}
{{- define "espalier.graceSeconds" -}}
{{- add (int .spec.drain.announceSeconds) (int .spec.drain.maxSeconds) (int .spec.drain.marginSeconds) -}}
{{- end -}}

{{- define "espalier.probe" -}}
{{- $probe := get .workload.spec.probes .what -}}
{{- $kind := .workload.spec.probes.kind -}}
{{- if eq $kind "http" -}}
httpGet: {path: {{ get (dict "startup" "/startupz" "readiness" "/readyz" "liveness" "/livez") .what }}, port: metrics}
{{- else if eq $kind "exec" -}}
exec: {command: [{{ .workload.program }}, probe, {{ get (dict "startup" "startup" "readiness" "ready" "liveness" "live") .what }}]}
{{- else if eq .what "liveness" -}}
tcpSocket: {port: grpc}
{{- else -}}
grpc: {port: {{ int .workload.port }}}
{{- end }}
{{ toYaml $probe }}
{{- end -}}

{{/* Resources, with as many GPUs as the model is spread over. */}}
{{- define "espalier.resources" -}}
{{- $resources := deepCopy (.spec.resources | default dict) -}}
{{- if .cuda -}}
{{- $limits := $resources.limits | default dict -}}
{{- $ranks := mul (.spec.tensorParallel | default 1) (.spec.pipelineParallel | default 1) -}}
{{- $gpus := .spec.gpus | default $ranks | int -}}
{{- $_ := set $limits (.spec.gpuResource | default "nvidia.com/gpu") $gpus -}}
{{- $_ := set $resources "limits" $limits -}}
{{- end -}}
{{- toYaml $resources -}}
{{- end -}}

{{- define "espalier.pod.metadata" -}}
labels:
  {{- toYaml .selector | nindent 2 }}
  {{- with .spec.podLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $annotations := dict -}}
{{- if eq .role "gateway" -}}
{{- with include "espalier.profiles" .root -}}
{{- $_ := set $annotations "checksum/profiles" (sha256sum .) -}}
{{- end -}}
{{- end -}}
{{- with merge $annotations (.spec.podAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "espalier.pod.spread" -}}
{{- $selector := .selector -}}
{{- range .spec.topologySpread }}
{{- $constraint := deepCopy . }}
{{- if not (hasKey $constraint "labelSelector") }}
{{- $_ := set $constraint "labelSelector" (dict "matchLabels" $selector) }}
{{- end }}
- {{ toYaml $constraint | nindent 2 | trim }}
{{- end }}
{{- end -}}

{{- define "espalier.pod.volumes" -}}
- name: tmp
  emptyDir: {}
{{- $tls := .root.Values.tls }}
{{- if $tls.enabled }}
- name: tls
  secret: {secretName: {{ include "espalier.tlsSecret" . }}, defaultMode: 0440}
{{- end }}
{{- if eq .role "gateway" }}
{{- if include "espalier.profiles" .root }}
- name: profiles
  configMap: {name: {{ include "espalier.named" (list .root "profiles") }}}
{{- end }}
{{- with .spec.apiKeys.existingSecret }}
- name: keys
  secret: {secretName: {{ . | quote }}, defaultMode: 0440}
{{- end }}
{{- if and $tls.enabled $tls.door.existingSecret }}
- name: door
  secret: {secretName: {{ $tls.door.existingSecret | quote }}, defaultMode: 0440}
{{- end }}
{{- if and $tls.enabled $tls.door.clientCaSecret }}
- name: clients
  secret:
    secretName: {{ $tls.door.clientCaSecret | quote }}
    defaultMode: 0440
    items: [{key: ca.crt, path: ca.crt}]
{{- end }}
{{- end }}
{{- range .models }}
{{- include "espalier.model.volume" . }}
{{- end }}
{{- with .spec.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "espalier.pod.mounts" -}}
- {name: tmp, mountPath: /tmp}
{{- $tls := .root.Values.tls }}
{{- if $tls.enabled }}
- {name: tls, mountPath: /etc/espalier/tls, readOnly: true}
{{- end }}
{{- if eq .role "gateway" }}
{{- if include "espalier.profiles" .root }}
- {name: profiles, mountPath: /etc/espalier/profiles, readOnly: true}
{{- end }}
{{- if .spec.apiKeys.existingSecret }}
- {name: keys, mountPath: /etc/espalier/keys, readOnly: true}
{{- end }}
{{- if and $tls.enabled $tls.door.existingSecret }}
- {name: door, mountPath: /etc/espalier/door, readOnly: true}
{{- end }}
{{- if and $tls.enabled $tls.door.clientCaSecret }}
- {name: clients, mountPath: /etc/espalier/clients, readOnly: true}
{{- end }}
{{- end }}
{{- range .models }}
{{- include "espalier.model.mount" . }}
{{- end }}
{{- with .spec.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "espalier.container" -}}
- name: {{ .role }}
  image: {{ include "espalier.image" (dict "root" .root "which" .role "own" .spec.image "cuda" .cuda) | quote }}
  imagePullPolicy: {{ dig "pullPolicy" .root.Values.images.pullPolicy .spec.image }}
  command: {{ .spec.command | default (list .program) | toJson }}
  {{- with .spec.extraArgs }}
  args:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  env:
    {{- include "espalier.env.common" . | trim | nindent 4 }}
    {{- include (printf "espalier.env.%s" .role) . | trim | nindent 4 }}
    {{- with .spec.extraEnv }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with .spec.extraEnvFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  ports:
    - {name: grpc, containerPort: {{ int .port }}, protocol: TCP}
    {{- if .root.Values.metrics.enabled }}
    - {name: metrics, containerPort: 9464, protocol: TCP}
    {{- end }}
  {{- range list "startup" "readiness" "liveness" }}
  {{ . }}Probe:
    {{- include "espalier.probe" (dict "workload" $ "what" .) | nindent 4 }}
  {{- end }}
  resources:
    {{- include "espalier.resources" . | nindent 4 }}
  securityContext:
    {{- toYaml .spec.securityContext | nindent 4 }}
  volumeMounts:
    {{- include "espalier.pod.mounts" . | nindent 4 }}
{{- end -}}

{{- define "espalier.pod.spec" -}}
serviceAccountName: {{ include "espalier.serviceAccountName" .root }}
automountServiceAccountToken: false
# Variables of Services, such as ESPALIER_GATEWAY_PORT, would be read as the program's own.
enableServiceLinks: false
terminationGracePeriodSeconds: {{ include "espalier.graceSeconds" . }}
{{- with .root.Values.images.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . | quote }}
  {{- end }}
{{- end }}
{{- range $key := list "priorityClassName" "runtimeClassName" }}
{{- with get $.spec $key }}
{{ $key }}: {{ . | quote }}
{{- end }}
{{- end }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "dnsConfig" }}
{{- with get $.spec $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with include "espalier.pod.spread" . | trim }}
topologySpreadConstraints:
  {{- . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml .spec.podSecurityContext | nindent 2 }}
{{- $inits := "" }}
{{- range .models }}
{{- $inits = printf "%s%s" $inits (include "espalier.model.init" (dict "model" . "workload" $)) }}
{{- end }}
{{- with .spec.extraInitContainers }}
{{- $inits = printf "%s\n%s" $inits (toYaml .) }}
{{- end }}
{{- with trim $inits }}
initContainers:
  {{- . | nindent 2 }}
{{- end }}
containers:
  {{- include "espalier.container" . | nindent 2 }}
  {{- with .spec.extraContainers }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumes:
  {{- include "espalier.pod.volumes" . | nindent 2 }}
{{- end -}}

{{- define "espalier.pod" -}}
metadata:
  {{- include "espalier.pod.metadata" . | nindent 2 }}
spec:
  {{- include "espalier.pod.spec" . | nindent 2 }}
{{- end -}}
