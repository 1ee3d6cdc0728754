"""Custom resource definitions, and the kinds that they define."""
