"""Builds every object that numakube deploys: the one source for all ways to install it.

Objects are plain documents, complete and in the form that ``kubectl apply`` takes.
"""
