"""NUMA alignment: what is believed of each node's zones, who fits where, who has booked what."""
