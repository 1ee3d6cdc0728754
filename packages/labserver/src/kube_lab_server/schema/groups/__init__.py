"""Tables of the built-in types, one module for each API group or family of groups."""
