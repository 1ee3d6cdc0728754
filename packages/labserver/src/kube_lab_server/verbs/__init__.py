"""The verbs of the API: create, read, update, patch, delete and watch."""
