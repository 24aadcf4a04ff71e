{{/*
Where models come from. A model is (dict "slot" "source"): the slot names its volume and folder, the source is one of
  {path: /in/the/image}                      in the service's own image
  {pvc: {claimName}, path: sub/folder}       a claim, read-only
  {imageVolume: {reference}, path: folder}   an image mounted as a volume (Kubernetes 1.31)
  {copy: {image, from}}                      an init container copies it out of an image
  {download: {uri, image, …}}                an init container of an image of yours downloads it
*/}}

{{/* Puts the models of a workload into `models`. */}}
{{- define "espalier.models" -}}
{{- $models := list -}}
{{- if ne .role "gateway" -}}
{{- $models = append $models (dict "slot" "model" "source" .spec.model) -}}
{{- with .spec.targetModel -}}
{{- $models = append $models (dict "slot" "target-model" "source" .) -}}
{{- end -}}
{{- range $i, $source := .spec.predictors -}}
{{- $models = append $models (dict "slot" (printf "predictor-%d" $i) "source" $source) -}}
{{- end -}}
{{- end -}}
{{- $_ := set . "models" $models -}}
{{- end -}}

{{- define "espalier.model.kind" -}}
{{- range list "pvc" "imageVolume" "copy" "download" -}}
{{- if get $.source . -}}{{- . -}}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The folder or file that the service is told. */}}
{{- define "espalier.model.path" -}}
{{- if include "espalier.model.kind" . -}}
{{- $mount := printf "/var/lib/espalier/%s" .slot -}}
{{- $path := .source.path | default "" | trimPrefix "/" | trimSuffix "/" -}}
{{- ternary $mount (printf "%s/%s" $mount $path) (eq $path "") -}}
{{- else -}}
{{- .source.path -}}
{{- end -}}
{{- end -}}

{{- define "espalier.model.volume" -}}
{{- $kind := include "espalier.model.kind" . -}}
{{- if eq $kind "pvc" }}
- name: {{ .slot }}
  persistentVolumeClaim: {claimName: {{ .source.pvc.claimName | quote }}, readOnly: true}
{{- else if eq $kind "imageVolume" }}
- name: {{ .slot }}
  image:
    reference: {{ .source.imageVolume.reference | quote }}
    pullPolicy: {{ .source.imageVolume.pullPolicy | default "IfNotPresent" }}
{{- else if $kind }}
{{- $from := get .source $kind }}
- name: {{ .slot }}
  {{- if $from.volume }}
  {{- toYaml $from.volume | nindent 2 }}
  {{- else if $from.sizeLimit }}
  emptyDir: {sizeLimit: {{ $from.sizeLimit | quote }}}
  {{- else }}
  emptyDir: {}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "espalier.model.mount" -}}
{{- if include "espalier.model.kind" . }}
- name: {{ .slot }}
  mountPath: /var/lib/espalier/{{ .slot }}
  readOnly: true
  {{- with dig "pvc" "subPath" "" .source }}
  subPath: {{ . | quote }}
  {{- end }}
{{- end }}
{{- end -}}

{{/* What is run where no command is given. It has MODEL_URI, MODEL_REVISION and MODEL_DIR; the root is read-only. */}}
{{- define "espalier.model.downloadScript" -}}
{{- if hasPrefix "hf://" . -}}
set -eu
exec hf download "${MODEL_URI#hf://}" --revision "${MODEL_REVISION:-main}" --local-dir "$MODEL_DIR"
{{- else if hasPrefix "s3://" . -}}
set -eu
exec aws s3 sync --no-progress "$MODEL_URI" "$MODEL_DIR"
{{- else if regexMatch "[.](tar|tar[.]gz|tgz)$" . -}}
set -eu
curl --fail --location --silent --show-error --retry 5 --output /tmp/model "$MODEL_URI"
exec tar -x -f /tmp/model -C "$MODEL_DIR"
{{- else -}}
set -eu
exec curl --fail --location --silent --show-error --retry 5 --output "$MODEL_DIR/${MODEL_URI##*/}" "$MODEL_URI"
{{- end -}}
{{- end -}}

{{/* The init container of (dict "model" "workload"), if it needs one. */}}
{{- define "espalier.model.init" -}}
{{- $kind := include "espalier.model.kind" .model -}}
{{- if has $kind (list "copy" "download") }}
{{- $from := get .model.source $kind }}
{{- $folder := printf "/var/lib/espalier/%s" .model.slot }}
- name: {{ $kind }}-{{ .model.slot }}
  image: {{ $from.image | quote }}
  imagePullPolicy: {{ $from.pullPolicy | default .workload.root.Values.images.pullPolicy }}
  {{- if eq $kind "copy" }}
  command: {{ $from.command | default (list "cp" "-R" (printf "%s/." (trimSuffix "/" $from.from)) $folder) | toJson }}
  {{- else }}
  command: {{ $from.command | default (list "/bin/sh" "-c") | toJson }}
  args:
    {{- if or $from.command $from.args }}
    {{- toYaml ($from.args | default list) | nindent 4 }}
    {{- else }}
    - |
      {{- include "espalier.model.downloadScript" $from.uri | nindent 6 }}
    {{- end }}
  env:
    - {name: MODEL_URI, value: {{ $from.uri | quote }}}
    - {name: MODEL_REVISION, value: {{ $from.revision | default "" | quote }}}
    - {name: MODEL_DIR, value: {{ $folder | quote }}}
    # Tools keep notes in the home folder; the root is read-only.
    - {name: HOME, value: /tmp}
    {{- with $from.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $from.envFrom }}
  envFrom:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
  {{- with $from.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- else }}
  resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {memory: 1Gi}}
  {{- end }}
  securityContext:
    {{- toYaml .workload.spec.securityContext | nindent 4 }}
  volumeMounts:
    - {name: {{ .model.slot }}, mountPath: {{ $folder }}}
    - {name: tmp, mountPath: /tmp}
    {{- with $from.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}
{{- end -}}
