"""NUMA-aware scheduling for Kubernetes, the whole stack, on one exact model of the kubelet."""

__version__ = "0.1.0"
