"""Cost of secure aggregation on one core: a device's whole part of a round, and the server's. One JSON line a case.

    python benchmarks/secagg.py                                  100, 1,000 and 6,500 devices, 5% and 30% lost
    python benchmarks/secagg.py --devices 6500 --server malicious --dropout 0.05
    python benchmarks/secagg.py --whole 100                      a real round of that many devices, nothing sampled

A device is measured whole, among neighbours that really take part: encode, advertise, share, mask, agree, reveal; the message
sizes are those it sent. The server is **sampled**: one masked vector received, one secret put together, one signature verified
and a few dozen masks expanded are timed, and multiplied by how many of each a round has; nobody waits for a terabyte of masks.
Every lost device is lost after it shared its secrets, which costs the server most. `cipher_fraction` compares the expansion of
masks with AES-256-CTR alone, measured in the same run: the cipher is the limit.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from tacit.secagg import device, encoding, keys, masks, messages, server, shamir
from tacit.secagg.hadamard import public_signs
from tacit.secagg.messages import Kind
from tacit.secagg.parameters import Server, choose
from tacit.secagg.rehearsal import RehearsalStage, rehearse
from tacit.secagg.session import Session

DIMENSION = 1_300_000
SAMPLED_MASKS = 40


def main() -> None:
    """Measure the cases asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--devices", type=int, nargs="+", default=[100, 1000, 6500])
    parser.add_argument("--dropout", type=float, nargs="+", default=[0.05, 0.3])
    parser.add_argument("--corruption", type=float, default=0.05)
    parser.add_argument("--server", choices=("curious", "malicious"), default="curious")
    parser.add_argument("--bits", type=int, default=20)
    parser.add_argument("--dimension", type=int, default=DIMENSION)
    parser.add_argument("--whole", type=int, help="run a real round of this many devices instead")
    asked = parser.parse_args()
    for devices in [asked.whole] if asked.whole else asked.devices:
        for dropout in asked.dropout:
            session, encoded = constants(devices, dropout, asked.corruption, asked.server, asked.bits, asked.dimension)
            result = whole_round(session, dropout) if asked.whole else sampled_round(session, encoded, dropout)
            print(json.dumps({**case(session), "dropout": dropout, "server": asked.server, **result}), flush=True)


def constants(
    devices: int, dropout: float, corruption: float, kind: Server, bits: int, dimension: int
) -> tuple[Session, encoding.Encoding]:
    """A round with parameters chosen for these losses, on vectors that carry this many real entries."""
    found = choose(devices, dropout=dropout, corruption=corruption, server=kind)
    encoded = encoding.for_server_noise(dimension, clip_norm=1.0, largest_cohort=devices, bits=bits)
    fewest = max(2, devices - int(np.ceil(dropout * devices)))
    session = Session(
        os.urandom(32), os.urandom(32), devices, found.neighbours, found.threshold, fewest, encoded.padded, bits
    )
    return session, encoded


def case(session: Session) -> dict[str, Any]:
    """What names a result."""
    return {
        "devices": session.devices,
        "entries": session.dimension,
        "bits": session.bits,
        "neighbours": session.neighbours,
        "threshold": session.threshold,
    }


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of processor time, and the result. Processor time, because other work may share the machine."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def sampled_round(session: Session, encoded: encoding.Encoding, dropout: float) -> dict[str, Any]:
    """One device among real neighbours; the server by its parts."""
    seconds, sizes, vector_message, identity = one_device(session, encoded)
    plain = masks.packed_bytes(session.dimension, session.bits)
    lost = int(np.ceil(dropout * session.devices))
    stay = session.devices - lost
    staying_neighbours = session.neighbours * stay / (session.devices - 1)
    expanded = int(stay + lost * staying_neighbours)
    mask_seconds, _ = timed(
        lambda: masks.with_masks(
            np.zeros(session.dimension, np.uint32),
            [masks.Mask(os.urandom(32), negative=bool(i % 2)) for i in range(SAMPLED_MASKS)],
            session.bits,
        )
    )
    mask_seconds /= SAMPLED_MASKS
    receive_seconds = received(session, vector_message, identity)
    secret_seconds = combined(session)
    verify_seconds = verified()
    gigabytes = session.dimension * 4 / 1e9
    return {
        "device_seconds": {name: round(value, 4) for name, value in seconds.items()},
        "device_total_seconds": round(sum(seconds.values()), 3),
        "device_bytes": sizes,
        "upload_over_plain": round(sum(sizes.values()) / plain, 4),
        "server_seconds": {
            "receive_vectors": round(receive_seconds * stay, 1),
            "verify_signatures": round(verify_seconds * 4 * session.devices, 1),
            "recover_secrets": round(secret_seconds * session.devices, 1),
            "expand_masks": round(mask_seconds * expanded, 1),
        },
        "masks_expanded": expanded,
        "mask_gigabytes": round(expanded * gigabytes, 1),
        "mask_gigabytes_per_second": round(gigabytes / mask_seconds, 2),
        "cipher_fraction": round(gigabytes / mask_seconds / cipher_speed(), 2),
    }


def one_device(session: Session, encoded: encoding.Encoding) -> tuple[dict[str, float], dict[str, int], bytes, bytes]:
    """Device 0's seconds and bytes, stage by stage, and its vector's message with its public identity."""
    seconds: dict[str, float] = {}
    around = session.neighbours_of(0)
    involved = {0, *around, *(other for each in around for other in session.neighbours_of(each))}
    identities = {i: os.urandom(32) for i in involved}
    said = {}
    for i in sorted(involved - {0}):
        said[i] = device.advertise(session, i, identity=identities[i], entropy=os.urandom)
    seconds["advertise"], said[0] = timed(
        lambda: device.advertise(session, 0, identity=identities[0], entropy=os.urandom)
    )

    def roster(i: int) -> bytes:
        body = b"".join(said[other][0] for other in session.neighbours_of(i))
        return messages.from_server(session, Kind.ROSTER, i, body)

    def shared(i: int) -> Any:
        return device.share(said[i][1], roster(i), vouched=lambda *_: True, entropy=os.urandom)

    sealed = {}
    for other in around:
        message, _ = shared(other)
        body = message[46 + 32 : -keys.SIGNATURE_BYTES]
        sealed[other] = messages.records(body, messages.CIPHERTEXT_BYTES, Kind.SHARES)[0]
    seconds["share"], (shares, state) = timed(lambda: shared(0))

    update = np.random.default_rng(0).normal(size=encoded.dimension) / np.sqrt(encoded.dimension)
    signs, uniforms = public_signs(session.session_id, encoded.padded), np.random.default_rng(1).random(encoded.padded)
    seconds["encode"], values = timed(lambda: encoding.encoded(update, encoded, signs=signs, uniforms=uniforms))
    delivery = messages.from_server(session, Kind.DELIVERY, 0, messages.as_records(sealed))
    seconds["mask"], (vector, masked) = timed(lambda: device.mask(state, delivery, values))

    everybody = messages.as_bits(range(session.devices), range(session.devices))
    witnesses = [
        messages.masked(session, other, identities[other], session.neighbours_of(other), b"") for other in around
    ]
    told = messages.from_server(session, Kind.SURVIVORS, 0, everybody + b"".join(witnesses))
    seconds["agree"], (agreement, agreed) = timed(lambda: device.agree(masked, told))
    digest = messages.survivors_digest(session, range(session.devices))
    agreements = [messages.signed(session, Kind.AGREE, other, identities[other], digest) for other in around]
    told = messages.from_server(session, Kind.AGREEMENTS, 0, b"".join(agreements))
    seconds["reveal"], (revealed, _) = timed(lambda: device.reveal(agreed, told))
    sent = {
        "advertise": said[0][0],
        "share": shares,
        "mask": vector,
        "agree": agreement,
        "reveal": revealed,
    }
    sizes = {name: len(message) for name, message in sent.items()}
    return seconds, sizes, vector, keys.identity_public(identities[0])


def received(session: Session, message: bytes, identity: bytes) -> float:
    """Seconds to take in one masked vector."""
    advertisement = messages.Advertisement(identity, b"", b"", b"")
    commitments = dict.fromkeys((0, *session.neighbours_of(0)), b"")
    state = server.Masking(session, {0: advertisement}, commitments, np.zeros(session.dimension, np.uint32), {})
    return min(timed(lambda: server.receive_masked(state, 0, message))[0] for _ in range(3))


def combined(session: Session) -> float:
    """Seconds to put one secret together, from holders nobody else has."""
    holders = session.neighbours_of(0)
    shares = shamir.split(shamir.random_secret(os.urandom), holders, session.threshold, entropy=os.urandom)
    shamir._lagrange_at_zero.cache_clear()
    return timed(lambda: shamir.combine(shares, session.threshold))[0]


def verified() -> float:
    """Seconds to verify one signature."""
    private = os.urandom(32)
    signature, public = keys.sign(private, b"message"), keys.identity_public(private)
    return timed(lambda: [keys.signed_by(public, signature, b"message") for _ in range(200)])[0] / 200


def cipher_speed() -> float:
    """Gigabytes a second of AES-256-CTR alone, in pieces of the size that masks use."""
    zeros, buffer = bytes(1 << 17), bytearray((1 << 17) + 15)
    stream = Cipher(AES(os.urandom(32)), CTR(bytes(16))).encryptor()
    seconds, _ = timed(lambda: [stream.update_into(zeros, buffer) for _ in range(2048)])
    return 2048 * len(zeros) / seconds / 1e9


def whole_round(session: Session, dropout: float) -> dict[str, Any]:
    """A real round, every device and the server in this process."""
    rng = np.random.default_rng(0)
    row = rng.integers(0, 1 << session.bits, session.dimension).astype(np.uint32)
    values = dict.fromkeys(range(session.devices), row)  # memory for one vector; the protocol does not care
    lost = {
        int(i): RehearsalStage.MASK for i in rng.permutation(session.devices)[: int(np.ceil(dropout * session.devices))]
    }
    seconds, outcome = timed(lambda: rehearse(session, values, lost=lost))
    expected = row * np.uint32(len(outcome.included)) & np.uint32((1 << session.bits) - 1)
    return {
        "seconds_of_everybody": round(seconds, 2),
        "included": len(outcome.included),
        "sum_is_exact": bool((outcome.total == expected).all()),
    }


if __name__ == "__main__":
    main()
