"""Logs that cannot be rewritten unseen: a Merkle tree over records, and signed heads of it (RFC 6962, C2SP tlog-checkpoint).

merkle.py       the tree: its root, proofs that a record is in it, proofs that a tree continues an older one
checkpoint.py   a signed head: how many records there are, their root, and who signed it
"""
