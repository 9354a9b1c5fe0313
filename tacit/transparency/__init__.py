"""Logs that cannot be rewritten unseen: a Merkle tree over records, signed heads of it, and witnesses (RFC 6962, C2SP).

merkle.py       the tree: its root, proofs that a record is in it, proofs that a tree continues an older one
checkpoint.py   a signed head: how many records there are, their root, and who signed it
submission.py   what a log sends to a witness: a new head, and the proof that it continues the last one
witness.py      a witness: what it signed last of each log, and what it does with a submission
client.py       a log's side: ask a witness over HTTP to countersign a head
"""
