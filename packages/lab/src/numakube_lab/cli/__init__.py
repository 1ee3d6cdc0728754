"""The commands of ``numakube`` that need the lab, found through entry points."""
