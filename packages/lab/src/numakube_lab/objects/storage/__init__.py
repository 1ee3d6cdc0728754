"""Persistent volumes, their claims, and storage classes."""
