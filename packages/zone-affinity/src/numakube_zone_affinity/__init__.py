"""Pods near and far from each other within a node: by NUMA node, PCI root or island."""
