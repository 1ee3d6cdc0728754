"""A picture of a node as SVG and PNG: what is drawn where, and the formats."""
