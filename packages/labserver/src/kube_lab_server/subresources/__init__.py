"""Subresources, and resources that are answered but not stored."""
