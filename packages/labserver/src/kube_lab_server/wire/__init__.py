"""The texts of requests: paths, options, media types, selectors and refusals."""
