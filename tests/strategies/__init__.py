"""Hypothesis strategies that several test packages share."""
