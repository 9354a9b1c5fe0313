"""The Merkle tree: published vectors, proofs for every pair of sizes, and proofs that must not pass."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.transparency.merkle import (
    Frontier,
    consistency_proof,
    inclusion_proof,
    is_consistent,
    is_included,
    leaf_hash,
    root,
)

# The records and roots with which the implementations of RFC 6962 are tested.
RECORDS = ("", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f")
ROOTS = {
    0: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    1: "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    2: "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    8: "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
}
MOST = 20


def leaves(count: int, tag: bytes = b"") -> list[bytes]:
    return [leaf_hash(tag + bytes([number])) for number in range(count)]


@pytest.mark.parametrize("size", ROOTS)
def test_published_roots(size: int) -> None:
    assert root([leaf_hash(bytes.fromhex(each)) for each in RECORDS[:size]]).hex() == ROOTS[size]


def test_a_tree_that_grows_has_the_roots_of_its_lists() -> None:
    tree, found = Frontier(), leaves(MOST)
    for size in range(MOST):
        assert (tree.size, tree.root()) == (size, root(found[:size]))
        tree.add(found[size])


def test_every_record_is_shown_in_its_place_and_in_no_other() -> None:
    for size in range(1, MOST):
        tree = leaves(size)
        for index in range(size):
            proof = inclusion_proof(tree, index)
            for other in range(size):
                assert is_included(tree[other], index, size, proof, root(tree)) == (other == index)
            assert not is_included(tree[index], index, size, [*proof, proof[0] if proof else tree[0]], root(tree))
            assert not proof or not is_included(tree[index], index, size, proof[:-1], root(tree))
        assert not is_included(tree[0], size, size, [], root(tree))
        assert not is_included(tree[0], -1, size, [], root(tree))


def test_every_longer_tree_is_shown_to_continue_every_shorter_one() -> None:
    tree = leaves(MOST)
    for size in range(MOST + 1):
        for old in range(size + 1):
            proof = consistency_proof(tree[:size], old)
            assert is_consistent(old, root(tree[:old]), size, root(tree[:size]), proof)


@pytest.mark.parametrize("changed", range(MOST))
def test_a_tree_with_another_record_continues_nothing_that_held_the_record(changed: int) -> None:
    honest, forged = leaves(MOST), leaves(MOST)
    forged[changed] = leaf_hash(b"forged")
    for old in range(MOST + 1):
        shown = is_consistent(old, root(honest[:old]), MOST, root(forged), consistency_proof(forged, old))
        assert shown == (old <= changed)


def test_a_shorter_tree_does_not_continue_a_longer_one() -> None:
    tree = leaves(8)
    assert not is_consistent(8, root(tree), 7, root(tree[:7]), [])
    assert not is_consistent(0, b"\0" * 32, 7, root(tree[:7]), [])


@given(
    st.integers(0, 40),
    st.integers(0, 40),
    st.lists(st.binary(min_size=32, max_size=32), max_size=8),
    st.binary(min_size=32, max_size=32),
)
def test_made_up_proofs_show_nothing(old: int, size: int, proof: list[bytes], claimed: bytes) -> None:
    if 0 < old != size:
        assert not is_consistent(old, claimed, size, hashlib.sha256(claimed).digest(), proof)
    if size:
        assert not is_included(leaf_hash(b"x"), old, size, proof, claimed)
