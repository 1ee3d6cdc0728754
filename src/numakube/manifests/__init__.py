"""Builders of every object that is deployed: the one source for whoever installs numakube.

Objects are plain documents, complete and in the form that ``kubectl apply`` takes.
"""
