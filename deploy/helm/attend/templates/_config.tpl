{{/* The server's file attend.json: `config`, and what follows from the other values. */}}
{{- define "attend.config" -}}
{{- $config := dict
  "listen" (list "0.0.0.0:8001")
  "admin_listen" "127.0.0.1:8003"
  "metrics_listen" "0.0.0.0:8002" }}
{{- if .Values.tls.enabled }}
{{- $_ := set $config "metrics_insecure" true }}
{{- $_ := set $config "tls_certificate" "/etc/attend-tls/tls.crt" }}
{{- $_ := set $config "tls_key" "/etc/attend-tls/tls.key" }}
{{- else }}
{{- $_ := set $config "insecure" true }}
{{- end }}
{{- if .Values.tls.clientCa.secret }}
{{- $_ := set $config "tls_client_ca" (printf "/etc/attend-client-ca/%s" .Values.tls.clientCa.key) }}
{{- end }}
{{- if .Values.tokens.secret }}
{{- $_ := set $config "tokens" (printf "/etc/attend-tokens/%s" .Values.tokens.key) }}
{{- end }}
{{- if .Values.traces.headers.secret }}
{{- $_ := set $config "otlp_headers" (printf "/etc/attend-traces/%s" .Values.traces.headers.key) }}
{{- end }}
{{- if include "attend.claim" . }}
{{- $_ := set $config "models" "/models" }}
{{- with .Values.models.required }}{{ $_ := set $config "required_models" . }}{{ end }}
{{- end }}
{{- merge $config .Values.config | toPrettyJson }}
{{- end }}
