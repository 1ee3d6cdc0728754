"""Schemas of API types: built-in ones from tables, custom ones from their definitions."""
