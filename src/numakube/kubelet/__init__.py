"""The exact model of a kubelet's Topology, CPU, Memory and Device Managers. Pure."""
