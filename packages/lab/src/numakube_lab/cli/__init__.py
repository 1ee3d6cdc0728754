"""Commands of ``numakube`` that need the lab; the program finds them by entry points."""
