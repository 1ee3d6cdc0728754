"""Types of custom resources, from the schemas of their definitions."""
