"""Recorded answers of kubelets, schedulers and exporters, which ``numakube replay`` compares.

numakube finds all of it by entry points; nothing here is public.
"""
