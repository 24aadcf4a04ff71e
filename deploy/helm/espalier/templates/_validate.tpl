{{/* What values.schema.json cannot say: rules between keys. All faults are told at once, each by its key. */}}

{{- define "espalier.validate" -}}
{{- $all := dict "root" $ -}}
{{- include "espalier.workloads" $all -}}
{{- $context := dict "faults" list "root" $ "list" $all.list -}}
{{- include "espalier.validate.names" $context -}}
{{- include "espalier.validate.tls" $context -}}
{{- include "espalier.validate.metrics" $context -}}
{{- include "espalier.validate.door" $context -}}
{{- range $all.list -}}
{{- include "espalier.validate.workload" (list $context .) -}}
{{- end -}}
{{- with $context.faults -}}
{{- fail (printf "\n%s" (join "\n" .)) -}}
{{- end -}}
{{- end -}}

{{- define "espalier.fault" -}}
{{- $context := index . 0 -}}
{{- $_ := set $context "faults" (append $context.faults (index . 1)) -}}
{{- end -}}

{{- define "espalier.validate.names" -}}
{{- $context := . -}}
{{- range $key := list "draftPools" "targets" -}}
{{- $names := list -}}
{{- range $i, $entry := get $context.root.Values $key -}}
{{- if has $entry.name $names -}}
{{- include "espalier.fault" (list $context (printf "%s[%d].name: there are two named %q" $key $i $entry.name)) -}}
{{- end -}}
{{- $names = append $names $entry.name -}}
{{- end -}}
{{- end -}}
{{- $profiled := list -}}
{{- range $i, $target := .root.Values.targets -}}
{{- $served := $target.servedName | default $target.name -}}
{{- if or $target.policy $target.profiles -}}
{{- if has $served $profiled -}}
{{- include "espalier.fault" (list $context (printf "targets[%d].profiles: another target that is served as %q has a policy or profiles already; gateways know them by that name" $i $served)) -}}
{{- end -}}
{{- $profiled = append $profiled $served -}}
{{- end -}}
{{- if and $target.policy (hasKey ($target.profiles | default dict) "*") -}}
{{- include "espalier.fault" (list $context (printf "targets[%d].policy: profiles has \"*\" as well, which means the same" $i)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "espalier.validate.tls" -}}
{{- $context := . -}}
{{- $tls := .root.Values.tls -}}
{{- if $tls.enabled -}}
{{- if $tls.certManager.enabled -}}
{{- if not $tls.certManager.issuerRef.name -}}
{{- include "espalier.fault" (list $context "tls.certManager.issuerRef.name: which issuer signs? It must sign for nothing but this system") -}}
{{- end -}}
{{- end -}}
{{- range $role, $secret := $tls.existingSecrets -}}
{{- if and $tls.certManager.enabled $secret -}}
{{- include "espalier.fault" (list $context (printf "tls.existingSecrets.%s: tls.certManager.enabled makes a Secret of its own; take one of the two away" $role)) -}}
{{- else if not (or $tls.certManager.enabled $secret) -}}
{{- include "espalier.fault" (list $context (printf "tls.existingSecrets.%s: tls.enabled needs a Secret with tls.crt, tls.key and ca.crt for the name %s.espalier, or tls.certManager.enabled" $role $role)) -}}
{{- end -}}
{{- end -}}
{{- if and $tls.door.plain (or $tls.door.existingSecret $tls.door.clientCaSecret) -}}
{{- include "espalier.fault" (list $context "tls.door.plain: a door in the clear shows and asks for no certificate; take tls.door.existingSecret and tls.door.clientCaSecret away") -}}
{{- end -}}
{{- else if or $tls.certManager.enabled $tls.door.existingSecret $tls.door.clientCaSecret $tls.door.plain -}}
{{- include "espalier.fault" (list $context "tls.enabled: it is false, but tls.certManager or tls.door is set") -}}
{{- end -}}
{{- end -}}

{{- define "espalier.validate.metrics" -}}
{{- $values := .root.Values -}}
{{- if and $values.metrics.serviceMonitor.enabled (not $values.metrics.enabled) -}}
{{- include "espalier.fault" (list . "metrics.serviceMonitor.enabled: metrics.enabled is false, so there is nothing to scrape") -}}
{{- end -}}
{{- end -}}

{{- define "espalier.validate.door" -}}
{{- $gateway := .root.Values.gateway -}}
{{- if and $gateway.ingress.enabled (not $gateway.ingress.hosts) -}}
{{- include "espalier.fault" (list . "gateway.ingress.hosts: gateway.ingress.enabled needs at least one host") -}}
{{- end -}}
{{- if and $gateway.grpcRoute.enabled (not $gateway.grpcRoute.parentRefs) -}}
{{- include "espalier.fault" (list . "gateway.grpcRoute.parentRefs: gateway.grpcRoute.enabled needs the Gateway that the route belongs to") -}}
{{- end -}}
{{- if and $gateway.apiKeys.existingSecret $gateway.clientWeights -}}
{{- include "espalier.fault" (list . "gateway.clientWeights: with gateway.apiKeys the weights stand in the file of keys") -}}
{{- end -}}
{{- if and $gateway.service.nodePort (eq $gateway.service.type "ClusterIP") -}}
{{- include "espalier.fault" (list . "gateway.service.nodePort: gateway.service.type is ClusterIP") -}}
{{- end -}}
{{- end -}}

{{- define "espalier.validate.workload" -}}
{{- $context := index . 0 -}}
{{- $workload := index . 1 -}}
{{- $key := $workload.key -}}
{{- include "espalier.validate.scaling" . -}}
{{- include "espalier.validate.probes" . -}}
{{- if ne $workload.role "gateway" -}}
{{- include "espalier.validate.models" . -}}
{{- end -}}
{{- $spec := $workload.spec -}}
{{- if eq $workload.role "verifier" -}}
{{- range $way := list "tensorParallel" "pipelineParallel" -}}
{{- if and (gt (int (index $spec $way)) 1) (eq $spec.device "cpu") -}}
{{- include "espalier.fault" (list $context (printf "%s.%s: device is cpu, which nothing is shared among" $key $way)) -}}
{{- end -}}
{{- end -}}
{{- $ranks := mul $spec.tensorParallel $spec.pipelineParallel -}}
{{- if and $spec.gpus (lt (int $spec.gpus) (int $ranks)) -}}
{{- include "espalier.fault" (list $context (printf "%s.gpus: %d are too few for tensorParallel times pipelineParallel, which is %d" $key (int $spec.gpus) (int $ranks))) -}}
{{- end -}}
{{- if and $spec.quantize (not (has ($spec.compute | default "int8") (list "int8" "stored"))) -}}
{{- include "espalier.fault" (list $context (printf "%s.quantize: its weights are multiplied in int8, and compute is %s" $key $spec.compute)) -}}
{{- end -}}
{{- if and $workload.multiNode (not (dig "repository" "" $spec.image)) -}}
{{- include "espalier.fault" (list $context (printf "%s.multiNode: espalier-verifier shares a model among the GPUs of one node; image.repository has to name an engine that spans several" $key)) -}}
{{- end -}}
{{- else if eq $workload.role "drafter" -}}
{{- if and (eq $spec.kind "early-exit") (not $spec.targetModel) -}}
{{- include "espalier.fault" (list $context (printf "%s.targetModel: a drafter of kind early-exit shares the layers of its target, so it needs that model too" $key)) -}}
{{- end -}}
{{- if and (eq $spec.kind "first-layers") (not $spec.layers) -}}
{{- include "espalier.fault" (list $context (printf "%s.layers: how many layers has a drafter of kind first-layers?" $key)) -}}
{{- end -}}
{{- if and $spec.layers (ne $spec.kind "first-layers") -}}
{{- include "espalier.fault" (list $context (printf "%s.layers: only a drafter of kind first-layers is cut" $key)) -}}
{{- end -}}
{{- if and $spec.thresholds (ne $spec.kind "sorted") -}}
{{- include "espalier.fault" (list $context (printf "%s.thresholds: only a drafter of kind sorted has exits" $key)) -}}
{{- end -}}
{{- end -}}
{{- if and $workload.cuda (hasKey (dig "limits" dict ($spec.resources | default dict)) ($spec.gpuResource | default "nvidia.com/gpu")) -}}
{{- include "espalier.fault" (list $context (printf "%s.resources.limits: the chart sets %s; say how many with gpus" $key ($spec.gpuResource | default "nvidia.com/gpu"))) -}}
{{- end -}}
{{- if and $spec.gpus (not $workload.cuda) -}}
{{- include "espalier.fault" (list $context (printf "%s.gpus: device is %s" $key $spec.device)) -}}
{{- end -}}
{{- end -}}

{{- define "espalier.validate.scaling" -}}
{{- $context := index . 0 -}}
{{- $workload := index . 1 -}}
{{- $key := printf "%s.autoscaling" $workload.key -}}
{{- $scaling := $workload.spec.autoscaling -}}
{{- if and $scaling.hpa.enabled $scaling.keda.enabled -}}
{{- include "espalier.fault" (list $context (printf "%s.keda.enabled: hpa.enabled is true as well, and two would scale against each other" $key)) -}}
{{- end -}}
{{- if or $scaling.hpa.enabled $scaling.keda.enabled -}}
{{- $known := append (keys (fromYaml (include "espalier.metricsOfRole" $workload))) "cpuPercent" -}}
{{- $asked := 0 -}}
{{- range $name, $value := $scaling.metrics -}}
{{- if and $value (not (has $name $known)) -}}
{{- include "espalier.fault" (list $context (printf "%s.metrics.%s: a %s has %s" $key $name $workload.role (join ", " (sortAlpha $known)))) -}}
{{- end -}}
{{- if $value -}}{{- $asked = add1 $asked -}}{{- end -}}
{{- end -}}
{{- if not (or $asked $scaling.extraMetrics) -}}
{{- include "espalier.fault" (list $context (printf "%s.metrics: at least one of them, or extraMetrics, is needed to scale" $key)) -}}
{{- end -}}
{{- if lt (int $scaling.maxReplicas) (int $scaling.minReplicas) -}}
{{- include "espalier.fault" (list $context (printf "%s.maxReplicas: %d are fewer than minReplicas %d" $key (int $scaling.maxReplicas) (int $scaling.minReplicas))) -}}
{{- end -}}
{{- if and $scaling.hpa.enabled (lt (int $scaling.minReplicas) 1) -}}
{{- include "espalier.fault" (list $context (printf "%s.minReplicas: an HPA keeps at least 1; KEDA may go to 0" $key)) -}}
{{- end -}}
{{- if and $scaling.keda.enabled (not $context.root.Values.metrics.prometheusAddress) -}}
{{- include "espalier.fault" (list $context (printf "metrics.prometheusAddress: %s.keda.enabled asks Prometheus there" $key)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "espalier.validate.probes" -}}
{{- $context := index . 0 -}}
{{- $workload := index . 1 -}}
{{- $values := $context.root.Values -}}
{{- $kind := $workload.spec.probes.kind -}}
{{- $key := printf "%s.probes.kind" $workload.key -}}
{{- if and (eq $kind "http") (not $values.metrics.enabled) -}}
{{- include "espalier.fault" (list $context (printf "%s: http asks the metrics port, and metrics.enabled is false" $key)) -}}
{{- else if and (eq $kind "grpc") (semverCompare "<1.24.0-0" $context.root.Capabilities.KubeVersion.Version) -}}
{{- include "espalier.fault" (list $context (printf "%s: grpc needs Kubernetes 1.24, and this is %s; take exec or http" $key $context.root.Capabilities.KubeVersion.Version)) -}}
{{- else if and (eq $kind "grpc") $values.tls.enabled -}}
{{- include "espalier.fault" (list $context (printf "%s: grpc probes speak in the clear, and tls.enabled is true; take exec or http" $key)) -}}
{{- end -}}
{{- end -}}

{{- define "espalier.validate.models" -}}
{{- $context := index . 0 -}}
{{- $workload := index . 1 -}}
{{- $sources := dict "model" $workload.spec.model -}}
{{- with $workload.spec.targetModel -}}{{- $_ := set $sources "targetModel" . -}}{{- end -}}
{{- range $i, $source := $workload.spec.predictors -}}{{- $_ := set $sources (printf "predictors[%d]" $i) $source -}}{{- end -}}
{{- range $name, $source := $sources -}}
{{- $key := printf "%s.%s" $workload.key $name -}}
{{- $given := keys (pick $source "pvc" "imageVolume" "copy" "download") | sortAlpha -}}
{{- if gt (len $given) 1 -}}
{{- include "espalier.fault" (list $context (printf "%s: a model comes from one place, and here are %s" $key (join " and " $given))) -}}
{{- else if and (not $given) (not (hasPrefix "/" ($source.path | default ""))) -}}
{{- include "espalier.fault" (list $context (printf "%s.path: without pvc, imageVolume, copy or download it is a folder of the image, which starts with /" $key)) -}}
{{- end -}}
{{- if and (has "imageVolume" $given) (semverCompare "<1.31.0-0" $context.root.Capabilities.KubeVersion.Version) -}}
{{- include "espalier.fault" (list $context (printf "%s.imageVolume: it needs Kubernetes 1.31, and this is %s; take copy" $key $context.root.Capabilities.KubeVersion.Version)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
