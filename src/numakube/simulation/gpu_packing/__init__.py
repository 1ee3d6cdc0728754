"""Fragmentation of shared GPUs: the measure, the policies and the experiment of FGD (ATC'23)."""
