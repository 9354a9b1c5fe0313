"""Training settings for private users, found on public text alone: stand-ins, one training on them, and the search."""
