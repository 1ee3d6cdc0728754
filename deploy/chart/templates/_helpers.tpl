{{- /* Says "true" unless there is such an object that this release has not made. */ -}}
{{- define "numakube.isOurs" -}}
{{- $release := (index . 0).Release -}}
{{- $live := lookup (index . 1) (index . 2) (index . 3) (index . 4) -}}
{{- $notes := dig "metadata" "annotations" (dict) $live -}}
{{- $name := get $notes "meta.helm.sh/release-name" -}}
{{- $namespace := get $notes "meta.helm.sh/release-namespace" -}}
{{- if or (not $live) (and (eq $name $release.Name) (eq $namespace $release.Namespace)) -}}
true
{{- end -}}
{{- end -}}
