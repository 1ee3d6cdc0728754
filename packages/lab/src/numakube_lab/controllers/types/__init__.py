"""The objects that controllers look after: only the fields they read or write.

A pod template is opaque to a controller, which hands it on as it is; it stays a plain document.
"""
