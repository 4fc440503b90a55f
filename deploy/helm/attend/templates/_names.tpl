{{/* The name of every object: the release's, with "attend" in it. */}}
{{- define "attend.name" -}}
{{- $name := .Release.Name }}
{{- if not (contains "attend" $name) }}{{ $name = printf "%s-attend" $name }}{{ end }}
{{- $name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{/* selector (list ROOT SUFFIX): the labels by which pods are selected. SUFFIX is "" for the servers, "-edge" for the edge. */}}
{{- define "attend.selector" -}}
app.kubernetes.io/name: attend{{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name | quote }}
{{- end }}

{{/* labels (list ROOT SUFFIX): of every object and pod. */}}
{{- define "attend.labels" -}}
{{- $root := index . 0 }}
{{- include "attend.selector" . }}
app.kubernetes.io/part-of: attend
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ $root.Chart.Name }}-{{ $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* metadata (list ROOT SUFFIX [SUFFIX]): a second suffix is that of the name alone. */}}
{{- define "attend.metadata" -}}
name: {{ include "attend.name" (index . 0) }}{{ last . }}
namespace: {{ (index . 0).Release.Namespace | quote }}
labels:
  {{- include "attend.labels" . | nindent 2 }}
{{- end }}

{{/* image (list ROOT IMAGE): a reference by digest, else by tag. */}}
{{- define "attend.image" -}}
{{- $image := index . 1 }}
{{- if $image.digest }}{{ $image.repository }}@{{ $image.digest }}
{{- else }}{{ $image.repository }}:{{ $image.tag | default (index . 0).Chart.AppVersion }}
{{- end }}
{{- end }}

{{/* The claim that has the models; empty when there is none. */}}
{{- define "attend.claim" -}}
{{- if .Values.models.existingClaim }}{{ .Values.models.existingClaim }}
{{- else if .Values.models.newClaim.size }}{{ include "attend.name" . }}-models
{{- end }}
{{- end }}

{{/* Seconds of a duration such as 1m30s; a number alone is seconds. */}}
{{- define "attend.seconds" -}}
{{- $text := toString . }}
{{- if regexMatch "^[0-9.]+$" $text }}{{ $text = printf "%ss" $text }}{{ end }}
{{- $start := toDate "2006-01-02" "2000-01-01" }}
{{- (($start | mustDateModify $text).Sub $start).Seconds }}
{{- end }}
