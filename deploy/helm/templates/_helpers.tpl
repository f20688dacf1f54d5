{{- define "coordinator-state.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels that select the pods of one part: (list $ "dashboard"). */}}
{{- define "coordinator-state.selector" -}}
app.kubernetes.io/name: {{ (index . 0).Chart.Name }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "coordinator-state.labels" -}}
{{ include "coordinator-state.selector" . }}
app.kubernetes.io/version: {{ (index . 0).Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ (index . 0).Release.Service }}
helm.sh/chart: {{ printf "%s-%s" (index . 0).Chart.Name (index . 0).Chart.Version }}
{{- end -}}

{{- define "coordinator-state.image" -}}
{{ required "image.repository: the image that you built from the Dockerfile, such as registry.example.org/coordinator-state" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "coordinator-state.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "coordinator-state.name" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- define "coordinator-state.claim" -}}
{{- .Values.persistence.existingClaim | default (include "coordinator-state.name" .) -}}
{{- end -}}

{{- define "coordinator-state.tables" -}}
{{- .Values.tables.location | default "/data/tables" -}}
{{- end -}}

{{/* Command-line arguments of a map of options; a list repeats one. JSON writes 2000000 where YAML would write 2e+06. */}}
{{- define "coordinator-state.options" -}}
{{- $arguments := list }}
{{- range $name, $values := . }}
{{- range $value := kindIs "slice" $values | ternary $values (list $values) }}
{{- $given := kindIs "bool" $value | ternary "" (printf "=%s" (kindIs "string" $value | ternary $value (toJson $value))) }}
{{- $arguments = printf "--%s%s" $name $given | append $arguments }}
{{- end }}
{{- end }}
{{- toYaml $arguments }}
{{- end -}}

{{/* The parts of a pod that are the same in every Deployment: (list $ "dashboard"). */}}
{{- define "coordinator-state.pod" -}}
{{- $ := index . 0 -}}
serviceAccountName: {{ include "coordinator-state.serviceAccount" $ }}
automountServiceAccountToken: false
# A Service named coordinator-state would set COORDINATOR_STATE_PORT, the variable of --port.
enableServiceLinks: false
# The image's user. Java refuses a user id that has no name in the image.
securityContext:
  runAsNonRoot: true
  runAsUser: 1000
  runAsGroup: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if and (not $.Values.tables.location) (not (has "ReadWriteMany" $.Values.persistence.accessModes)) }}
# Only pods of one node can mount the volume of the tables.
affinity:
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            app.kubernetes.io/name: {{ $.Chart.Name }}
            app.kubernetes.io/instance: {{ $.Release.Name }}
{{- end }}
{{- end -}}

{{- define "coordinator-state.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "coordinator-state.env" -}}
- name: COORDINATOR_STATE_LOG_FORMAT
  value: {{ .Values.logFormat }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "coordinator-state.tmp" -}}
- name: tmp
  emptyDir: {sizeLimit: {{ .Values.tmpSizeLimit }}}
{{- end -}}

{{- define "coordinator-state.data" -}}
- name: data
  persistentVolumeClaim: {claimName: {{ include "coordinator-state.claim" . }}}
{{- end -}}

{{/* The sign-in page needs no token and reads no table. Without a token there is none. */}}
{{- define "coordinator-state.pageProbe" -}}
{{- if .Values.dashboard.token.secretName -}}
httpGet:
  path: /login
  port: http
  {{- with .Values.dashboard.authHeader }}
  httpHeaders: [{name: {{ . | quote }}, value: probe}]
  {{- end }}
{{- else -}}
tcpSocket: {port: http}
{{- end }}
periodSeconds: 10
timeoutSeconds: 5
failureThreshold: 6
{{- end -}}
