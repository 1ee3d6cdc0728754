"""Tables of the built-in types, one module per API group or family of small groups."""
