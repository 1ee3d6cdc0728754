"""Labs that are like a real cluster: nodes and pods from a dump of it."""
