"""Gangs over several levels of network topology: racks, blocks, NVLink domains and nodes."""
