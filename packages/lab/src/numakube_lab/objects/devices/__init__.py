"""Devices: claims, classes and slices (dynamic resource allocation)."""
