{{/* The name of every object: the release's, with the chart's unless it says so already. */}}
{{- define "dex.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "dex.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "dex.labels" -}}
{{ include "dex.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "dex.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "dex.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{/* The server's configuration: what the values say, and extraConfig over it. */}}
{{- define "dex.config" -}}
{{- $config := dict
  "nodeId" (.Values.nodeId | default .Release.Name)
  "objectStorage" .Values.objectStorage
  "api" (dict "listen" "0.0.0.0:8801")
  "metrics" (dict "listen" ":9090")
  "lease" (dict "duration" .Values.lease.duration)
  "standby" (dict "mode" .Values.standby.mode)
  "lifecycle" (dict "attemptDrainTimeout" (printf "%ds" (int .Values.attemptDrainTimeoutSeconds)))
-}}
{{- if .Values.authentication.secretName -}}
{{- $_ := set $config "authentication" (dict
  "clientTokenFile" "/etc/dex-server-zd-tokens/client-tokens"
  "adminTokenFile" "/etc/dex-server-zd-tokens/admin-tokens") -}}
{{- end -}}
{{- if hasKey .Values.extraConfig "tls" -}}
{{- fail "extraConfig.tls: set tls.secretName instead, so that the readiness probe speaks TLS as well" -}}
{{- end -}}
{{- if .Values.tls.secretName -}}
{{- $_ := required "tls.serverName: name what the certificate is for; the readiness probe checks it" .Values.tls.serverName -}}
{{- $_ := set $config "tls" (dict
  "certificateFile" "/etc/dex-server-zd-tls/tls.crt"
  "keyFile" "/etc/dex-server-zd-tls/tls.key") -}}
{{- end -}}
{{- if hasKey .Values.extraConfig "lifecycle" -}}
{{- fail "extraConfig.lifecycle: set attemptDrainTimeoutSeconds instead, so that the pod's grace period follows it" -}}
{{- end -}}
{{- if or (hasKey .Values.extraConfig "api") (hasKey .Values.extraConfig "metrics") -}}
{{- fail "extraConfig.api and extraConfig.metrics: the ports of probes and services are 8801 and 9090; leave them" -}}
{{- end -}}
{{- mustMergeOverwrite $config (deepCopy .Values.extraConfig) | toYaml -}}
{{- end -}}
