"""Kinds that describe and configure the cluster as a whole."""
