"""The Merkle tree of RFC 6962 over a list of records: root, inclusion proofs and consistency proofs.

A leaf is SHA-256(0x00 ‖ record) and a node SHA-256(0x01 ‖ left ‖ right), so that no node can pass for a leaf. The left
subtree of n leaves has as many as the largest power of two below n. The root of no leaves is SHA-256 of nothing.

    inclusion     the record with this index is in the tree with this root; the proof is the sibling of each node on its path
    consistency   the tree with this root begins with all the leaves of the tree with that older root, in the same order

Whoever holds the root of an older tree finds a cut, an exchange, an edit and a fork with a consistency proof alone: a list of
other leaves with the same root would be a collision of SHA-256. Functions that make proofs take hashes of leaves; those that
check them (RFC 9162, sections 2.1.3 and 2.1.4) trust nothing, and answer True or False for every input of the right type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

HASH_BYTES = 32


def leaf_hash(record: bytes) -> bytes:
    """The hash of a record as a leaf."""
    return hashlib.sha256(b"\x00" + record).digest()


def _node_hash(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


class Frontier:
    """The root of a growing list: the roots of its complete subtrees, the largest first. Adding a leaf costs amortised O(1).

    >>> import tacit.transparency.merkle as merkle
    >>> tree = merkle.Frontier()
    >>> tree.add(merkle.leaf_hash(b"first"))
    >>> tree.size, tree.root() == merkle.leaf_hash(b"first")
    (1, True)
    """

    def __init__(self, leaves: Iterable[bytes] = ()) -> None:
        self.size = 0
        self._complete: list[bytes] = []
        for leaf in leaves:
            self.add(leaf)

    def add(self, leaf: bytes) -> None:
        """Put this hash of a leaf at the end."""
        node, size = leaf, self.size
        while size & 1:
            node, size = _node_hash(self._complete.pop(), node), size >> 1
        self._complete.append(node)
        self.size += 1

    def root(self) -> bytes:
        """The root of the leaves so far."""
        if not self._complete:
            return hashlib.sha256(b"").digest()
        node = self._complete[-1]
        for left in reversed(self._complete[:-1]):
            node = _node_hash(left, node)
        return node


def root(leaves: Sequence[bytes]) -> bytes:
    """The root of the tree over these hashes of leaves."""
    return Frontier(leaves).root()


def _split(size: int) -> int:
    """The largest power of two below `size`, which is at least 2."""
    return 1 << ((size - 1).bit_length() - 1)


def inclusion_proof(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The proof that leaf number `index` is in the tree over `leaves`; 0 ≤ index < len(leaves)."""
    if len(leaves) == 1:
        return []
    middle = _split(len(leaves))
    if index < middle:
        return [*inclusion_proof(leaves[:middle], index), root(leaves[middle:])]
    return [*inclusion_proof(leaves[middle:], index - middle), root(leaves[:middle])]


def consistency_proof(leaves: Sequence[bytes], old_size: int) -> list[bytes]:
    """The proof that the tree over `leaves` continues the tree over the first `old_size`; 0 ≤ old_size ≤ len(leaves)."""
    if old_size in (0, len(leaves)):
        return []
    return _consistency(leaves, old_size, whole=True)


def _consistency(leaves: Sequence[bytes], old_size: int, *, whole: bool) -> list[bytes]:
    """`whole`: the old tree is one that the reader knows the root of, so that its root need not be in the proof."""
    if old_size == len(leaves):
        return [] if whole else [root(leaves)]
    middle = _split(len(leaves))
    if old_size <= middle:
        return [*_consistency(leaves[:middle], old_size, whole=whole), root(leaves[middle:])]
    return [*_consistency(leaves[middle:], old_size - middle, whole=False), root(leaves[:middle])]


def is_included(leaf: bytes, index: int, size: int, proof: Sequence[bytes], expected_root: bytes) -> bool:
    """Whether the proof shows that this hash of a leaf is number `index` of the tree of `size` leaves with this root."""
    if not 0 <= index < size:
        return False
    place, last, node = index, size - 1, leaf
    for sibling in proof:
        if last == 0:
            return False
        if place & 1 or place == last:
            node = _node_hash(sibling, node)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            node = _node_hash(node, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and node == expected_root


def is_consistent(old_size: int, old_root: bytes, size: int, new_root: bytes, proof: Sequence[bytes]) -> bool:
    """Whether the proof shows that the tree of `size` leaves begins with the leaves of the tree of `old_size` leaves."""
    if not 0 <= old_size <= size:
        return False
    if old_size == 0:
        return not proof and old_root == root([])
    if old_size == size:
        return not proof and old_root == new_root
    path = list(proof)
    if old_size & (old_size - 1) == 0:  # a complete tree: its root is where the path begins
        path.insert(0, old_root)
    if not path:
        return False
    place, last = old_size - 1, size - 1
    while place & 1:
        place, last = place >> 1, last >> 1
    old = new = path[0]
    for sibling in path[1:]:
        if last == 0:
            return False
        if place & 1 or place == last:
            old, new = _node_hash(sibling, old), _node_hash(sibling, new)
            while place and not place & 1:
                place, last = place >> 1, last >> 1
        else:
            new = _node_hash(new, sibling)
        place, last = place >> 1, last >> 1
    return last == 0 and (old, new) == (old_root, new_root)
