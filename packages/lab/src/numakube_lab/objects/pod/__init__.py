"""Pods and their templates: defaults, checks, admission and warnings."""
