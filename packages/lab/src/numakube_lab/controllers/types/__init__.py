"""The objects that controllers handle, with only the fields they use.

A pod template is opaque to a controller, which hands it on as it is; it stays a plain document.
"""
