"""Kinds that a cluster as a whole is described and configured by."""
