"""Commands that deploy the stack, validate a cluster for it, and remove it."""
