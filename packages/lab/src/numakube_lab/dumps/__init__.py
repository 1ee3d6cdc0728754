"""Labs that copy a real cluster: nodes and pods from a dump of it."""
