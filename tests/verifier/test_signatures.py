"""The checker's own Ed25519 and Merkle trees, compared with published values and with the libraries that Tacit uses."""

from __future__ import annotations

import random

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tacit.transparency.checkpoint import Checkpoint, PublicKey
from tacit.transparency.merkle import leaf_hash, root
from tests.support.checker import checker

# RFC 8032, section 7.1: public key, message, signature.
_PUBLISHED = (
    (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
)


@pytest.mark.parametrize(("key", "message", "signature"), _PUBLISHED)
def test_published_signatures_hold(key: str, message: str, signature: str):
    assert checker.signed(bytes.fromhex(key), bytes.fromhex(signature), bytes.fromhex(message))
    assert not checker.signed(bytes.fromhex(key), bytes.fromhex(signature), bytes.fromhex(message) + b"x")


def test_it_agrees_with_the_library_on_signatures_whole_and_changed():
    chance = random.Random(1)
    for _ in range(20):
        private = Ed25519PrivateKey.from_private_bytes(chance.randbytes(32))
        public, message = private.public_key().public_bytes_raw(), chance.randbytes(chance.randrange(200))
        signature = private.sign(message)
        assert checker.signed(public, signature, message)
        place, bit = chance.randrange(64), 1 << chance.randrange(8)
        changed = bytes(each ^ bit if at == place else each for at, each in enumerate(signature))
        assert not checker.signed(public, changed, message)


def test_a_signature_has_one_spelling():
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
    public, signature = private.public_key().public_bytes_raw(), private.sign(b"message")
    s = int.from_bytes(signature[32:], "little") + checker.ORDER  # the same number, modulo the order of the group
    assert not checker.signed(public, signature[:32] + s.to_bytes(32, "little"), b"message")
    assert not checker.signed(public, signature[:63], b"message")
    assert not checker.signed(b"\xff" * 32, signature, b"message")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 9, 31, 64, 100])
def test_roots_of_trees_are_those_of_the_log(size: int):
    leaves = [leaf_hash(str(each).encode()) for each in range(size)]
    assert checker.tree_root(leaves) == root(leaves)


def test_a_head_is_read_as_it_was_signed():
    private, leaves = bytes(range(32)), [leaf_hash(b"a"), leaf_hash(b"b")]
    log = PublicKey("tacit/run/1", Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw())
    head = Checkpoint("tacit/run/1", 2, root(leaves)).signed("tacit/run/1", private)
    witnessed = head.countersigned("example.com/w", private, time=1_700_000_000)
    key = checker.public_key(log.text())
    assert checker.size_of("it", head.text(), [key], "tacit/run/1", [*leaves, b"more"]) == 2
    witness = checker.public_key(PublicKey("example.com/w", log.key, witness=True).text())
    assert checker.size_of("it", witnessed.text(), [witness], "tacit/run/1", leaves) == 2
    for text, keys in ((head.text(), [witness]), (head.text().replace("\n2\n", "\n1\n"), [key]), (head.text(), [])):
        with pytest.raises(checker.NotProved):
            checker.size_of("it", text, keys, "tacit/run/1", leaves)
