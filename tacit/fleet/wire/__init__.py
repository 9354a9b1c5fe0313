"""Everything that is sent: message formats, signatures, encryption, TLS. Devices and server share this folder.

messages.py     the HTTP paths and the JSON messages between devices and server
task.py         the task description that devices download, and the terms of secure aggregation
reports.py      a device's update as bytes
blobs.py        files that devices download, named by their SHA-256; the checkpoint format
refusals.py     the server's error answers, and what each HTTP status means
signing.py      a device's signature on its requests
sealing.py      encryption between the server's own processes, with the secret they share
public_log.py   the server's log as devices read it: entries, receipts, proofs
server_key.py   the key that signs the log, receipts and confirmations
tls.py          certificates, and which addresses may be used without TLS

Nothing here imports JAX.
"""
