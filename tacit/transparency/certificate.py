"""A certificate: one signed file with everything that somebody needs to compute a run's guarantee again, and to refuse it.

It is one JSON object in the ledger's canonical form:

    certificate   1, the format
    run           the run's id
    ledger        every line of the ledger, as it is in the file, without line ends
    strategy      {"coefficients": [...]}: the first column of the noise's Toeplitz matrix; null where there is none
    statement     the guarantee (docs/guarantee.schema.json)
    audit         what the run's audit of the gate could have found; null where there was none
    files         SHA-256 of public files, by name
    model         round, "checkpoint" (its digest, as the ledger names it) and "arrays" (`arrays_digest`; null where the
                  model's class is not at hand)
    code          versions and the digest of Tacit's source
    witnesses     signed heads of the ledger with the signatures of witnesses below them
    head          the signed head of the ledger's log, whose records are the lines (`transparency.checkpoint`)
    key           the public key of the run's log
    signature     over `LABEL` and the canonical JSON of everything else

`verifier/tacit_verify.py` checks it, and shares no code with this package.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.errors import LedgerError
from tacit.privacy.record.records import canonical
from tacit.secagg import keys
from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.merkle import leaf_hash, root

FORMAT = 1
LABEL = b"tacit certificate v1\0"


def signed_certificate(content: Mapping[str, Any], lines: Sequence[bytes], name: str, private: bytes) -> bytes:
    """The certificate of the ledger with these lines: `content` is everything but the ledger, its head and the signatures.

    `name` is the origin of the run's log and the name of its key.
    """
    head = Checkpoint(name, len(lines), root([leaf_hash(line) for line in lines])).signed(name, private)
    whole = {
        **content,
        "certificate": FORMAT,
        "ledger": [line.decode("ascii") for line in lines],
        "head": head.text(),
        "key": PublicKey(name, keys.identity_public(private)).text(),
    }
    signature = keys.sign(private, LABEL + canonical(whole))
    return canonical(whole | {"signature": base64.b64encode(signature).decode()}) + b"\n"


def read_certificate(data: bytes) -> dict[str, Any]:
    """The certificate in these bytes, its signature checked with the key that it names; LedgerError for anything else.

    That key is the signer's own: who the signer is, only somebody knows who was given the key in another way.
    """
    try:
        content = json.loads(data)
        signature = base64.b64decode(content.pop("signature"), validate=True)
        key = PublicKey.parse(content["key"])
        signed = LABEL + canonical(content)
        if content["certificate"] != FORMAT:
            raise ValueError
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise LedgerError(f"Expected a certificate of format {FORMAT}, got a damaged one or another file.") from None
    if not keys.signed_by(key.key, signature, signed):
        raise LedgerError("The certificate was changed after it had been signed.")
    return dict(content)


def arrays_digest(arrays: Mapping[str, NDArray[np.generic]]) -> str:
    """SHA-256 over names, types, shapes and numbers (little-endian, in C order), in the order of the names.

    >>> import numpy as np, tacit.transparency.certificate as certificate
    >>> certificate.arrays_digest({"a": np.zeros(2, np.float32)})[:8]
    '6b16824e'
    """
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        shape = ",".join(map(str, array.shape))
        digest.update(f"{name}\0{array.dtype.name}\0{shape}\0".encode())
        digest.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()
