"""What a release carries besides an image: chart, kustomize bases, OLM bundle and SBOM."""
