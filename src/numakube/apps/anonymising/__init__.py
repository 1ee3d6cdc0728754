"""Removes names from a bundle and keeps everything that scheduling depends on.

Namespaces, pods, nodes, labels, images and other names become numbers, the same everywhere and in
the same order, so that every tool gives the same verdicts. Only fields that numakube reads are
kept; texts, environments and command lines go.

What cannot be renamed without changing a verdict stays: names of resources, schedulers, priority
classes, well-known label keys, and uids (random, but the same as in the cluster).
"""

from numakube.apps.anonymising.anonymise import anonymise

__all__ = ["anonymise"]
