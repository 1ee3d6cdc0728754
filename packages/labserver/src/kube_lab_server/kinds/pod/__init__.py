"""Pods and pod templates: the specification with its defaults, checks and warnings."""
