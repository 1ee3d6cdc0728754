"""Custom resources: their definitions, and the kinds that these define."""
