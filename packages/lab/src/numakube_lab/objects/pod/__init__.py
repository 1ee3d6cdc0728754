"""Pods and pod templates: defaults, checks, admission and warnings."""
