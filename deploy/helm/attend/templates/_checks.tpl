{{/* What values.schema.json cannot say: values that do not fit each other. */}}
{{- define "attend.check" -}}
{{- $values := .Values }}
{{- /* Names of Services have the form of RFC 1035; names of releases may have dots, and begin with a digit. */}}
{{- if not (regexMatch "^[a-z][-a-z0-9]*$" (include "attend.name" .)) }}
{{- fail (printf "the name of the release: expected a lowercase letter, then lowercase letters, digits and hyphens, as in the name of a Service, found %s" .Release.Name) }}
{{- end }}
{{- range $key := list "listen" "admin_listen" "health_listen" "metrics_listen" "metrics_insecure" "insecure" "tls_certificate" "tls_key" "tls_client_ca" "tokens" "models" "required_models" "otlp_headers" }}
{{- if hasKey $values.config $key }}
{{- fail (printf "config.%s: expected no such key, which the chart sets (see tls, tokens, models and traces), found %v" $key (index $values.config $key)) }}
{{- end }}
{{- end }}
{{- range $name, $image := dict "image" .Values.image "edge.image" .Values.edge.image }}
{{- if and $image.tag $image.digest }}
{{- fail (printf "%s.digest: expected no digest beside the tag %s, found %s" $name $image.tag $image.digest) }}
{{- end }}
{{- end }}
{{- with .Values.tls }}
{{- if and .enabled (not .secret) }}
{{- fail "tls.secret: expected the name of a Secret of type kubernetes.io/tls, or tls.enabled=false, found none" }}
{{- end }}
{{- if and .clientCa.secret (not .enabled) }}
{{- fail (printf "tls.clientCa.secret: expected none without tls.enabled, found %s" .clientCa.secret) }}
{{- end }}
{{- end }}
{{- with .Values.models }}
{{- if and .existingClaim .newClaim.size }}
{{- fail (printf "models.newClaim.size: expected none beside models.existingClaim=%s, found %s" .existingClaim .newClaim.size) }}
{{- end }}
{{- if and (has "none" .required) (gt (len .required) 1) }}
{{- fail (printf "models.required: expected names of models, or [none], found [%s]" (join ", " .required)) }}
{{- end }}
{{- if and (ne (join "," .required) "none") .required (not (include "attend.claim" $)) }}
{{- fail (printf "models.required: expected [none] without a claim of models, found [%s]" (join ", " .required)) }}
{{- end }}
{{- end }}
{{- with .Values.autoscaling }}
{{- if gt (int .minReplicas) (int .maxReplicas) }}
{{- fail (printf "autoscaling.minReplicas: expected at most autoscaling.maxReplicas, %d, found %d" (int .maxReplicas) (int .minReplicas)) }}
{{- end }}
{{- end }}
{{- with .Values.config }}
{{- range $key := list "drain_delay" "grace_period" "max_connection_age" "max_connection_age_grace" "max_connection_idle" "max_queue_wait" "models_poll" "reply_patience" "session_idle_timeout" "stall_timeout" }}
{{- if hasKey $values.config $key }}
{{- $duration := index $values.config $key }}
{{- $seconds := include "attend.seconds" $duration | float64 }}
{{- if or (gt $seconds 86400.0) (and (gt $seconds 0.0) (lt $seconds 0.001)) }}
{{- fail (printf "config.%s: expected 0, or a time from 1ms to 24h, found %v" $key $duration) }}
{{- end }}
{{- end }}
{{- end }}
{{- range $key := list "models_poll" "model_versions" "weights_dtype" }}
{{- if and (hasKey $values.config $key) (not (include "attend.claim" $)) }}
{{- fail (printf "config.%s: expected no such key without a claim of models, found %v" $key (index $values.config $key)) }}
{{- end }}
{{- end }}
{{- if and $values.traces.headers.secret (not .otlp_endpoint) }}
{{- fail (printf "traces.headers.secret: expected none without config.otlp_endpoint, found %s" $values.traces.headers.secret) }}
{{- end }}
{{- if and (hasKey . "trace_sample_ratio") (not .otlp_endpoint) }}
{{- fail (printf "config.trace_sample_ratio: expected no such key without config.otlp_endpoint, found %v" .trace_sample_ratio) }}
{{- end }}
{{- if and .otlp_endpoint (not (regexMatch "^https?://" .otlp_endpoint)) }}
{{- fail (printf "config.otlp_endpoint: expected a URL such as http://HOST:4318, found %s" .otlp_endpoint) }}
{{- end }}
{{- /* gRPC varies the age by a tenth. */}}
{{- $age := include "attend.seconds" .max_connection_age | float64 }}
{{- if and (gt $age 0.0) (le (include "attend.seconds" .drain_delay | float64) (mulf 1.1 $age)) }}
{{- fail (printf "config.drain_delay: expected more than 1.1 times config.max_connection_age, %s, found %s" .max_connection_age .drain_delay) }}
{{- end }}
{{- /* The table of deploy/README.md. Models need the rest. */}}
{{- $waiting := max (div (mul 7 (int64 .max_queue_bytes)) 5) (mul 65536 (int64 (.max_queue_requests | default 8192))) }}
{{- $caches := add (int64 .max_cache_bytes) (max (div (int64 .max_cache_bytes) 4) 268435456) (div (int64 .max_cache_bytes) 8) }}
{{- $needed := add $waiting (div (int64 .max_queue_bytes) 4) (int64 .max_reply_bytes) $caches
  (mul 8 (int64 .max_message_bytes)) (mul 81000 (int64 .max_connections)) 536870912 }}
{{- $memory := $values.resources.memory }}
{{- $unit := get (dict "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776) (regexFind "[A-Z]i" $memory) }}
{{- if lt (mul (regexFind "[0-9]+" $memory) $unit) $needed }}
{{- fail (printf "resources.memory: expected at least the %dMi that the limits in config need, found %s" (div (add $needed 1048575) 1048576) $memory) }}
{{- end }}
{{- end }}
{{- with .Values.edge }}
{{- if and .enabled (not $values.tls.enabled) }}
{{- fail "edge.enabled: expected false without tls.enabled, found true" }}
{{- end }}
{{- if and .enabled $values.tls.clientCa.secret }}
{{- fail (printf "tls.clientCa.secret: expected none with edge.enabled, since nginx shows the servers no certificate, found %s" $values.tls.clientCa.secret) }}
{{- end }}
{{- end }}
{{- end }}
