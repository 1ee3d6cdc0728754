"""Builders of every object that is deployed: the one source of every way to install numakube.

Objects are plain documents, complete and in the form that ``kubectl apply`` takes.
"""
