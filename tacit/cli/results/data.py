"""Results of `tacit data`."""

from __future__ import annotations

from typing import Literal

from tacit.cli.results.base import Result, key, sometimes


class HeldOut(Result):
    """Users on whom nothing is trained."""

    share: float = key("about which share of the users is held out")
    users: int = key("how many there are")


class StoreCaps(Result):
    """How much of one user is kept."""

    tokens: int | None = key("the most tokens of a user; null without a limit")
    examples: int | None = key("the most examples of a user; null without a limit")


class StoreVocabulary(Result):
    """The words of a store."""

    size: int = key("how many entries, reserved ones included")
    fingerprint: str = key("the digest of its entries")
    provenance: str = key("where the words come from")
    tokenizer: str = key("how text is split into words")
    public: bool = key("false: counted on the users themselves, so every epsilon on this store is infinite")


class StoreResult(Result):
    """A store. Its figures are exact, and no guarantee covers them."""

    store: str = key("the store's folder")
    store_id: str = key("the store's id")
    kind: Literal["text", "image"] = key("what the users' examples are")
    users: int = key("how many users")
    held_out: HeldOut = key("how many of them are held out")
    examples: int = key("how many examples")
    sources: list[str] = key("the files that were read")
    caps: StoreCaps = key("how much of one user is kept at most")
    skipped: dict[str, int] = key("how many rows were left out, by reason")
    examples_per_user: dict[str, int] = key("quantiles p0 to p100; empty without users")
    classes: int | None = sometimes("images: how many classes")
    tokens: int | None = sometimes("text: how many tokens")
    tokens_per_user: dict[str, int] | None = sometimes("text: quantiles")
    tokens_per_example: dict[str, int] | None = sometimes("text: quantiles")
    out_of_vocabulary: float | None = sometimes("text: the share of tokens that the vocabulary does not have")
    vocabulary: StoreVocabulary | None = sometimes("text: the words")


class Shard(Result):
    """One shard of a store."""

    folder: str = key("its folder inside the store's")
    users: int = key("how many users")
    examples: int = key("how many examples")
    bytes: int = key("how large its files are together")


class ShardResult(Result):
    """A store in shards. Its figures are exact, and no guarantee covers them."""

    store: str = key("the store's folder")
    store_id: str = key("the store's id, which is that of the store that was cut")
    shards: list[Shard] = key("the shards, each for the machines that will train it")
    held_out: Shard = key("the held-out users, whom the machine needs where training is started")


class VocabularyResult(Result):
    """A vocabulary."""

    vocabulary: str | None = key("the file that was written; null if --rare found nothing")
    size: int = key("how many entries, reserved ones included")
    provenance: str = key("where the words come from")
    fingerprint: str | None = key("the digest of its entries; null if --rare found nothing")
    run: str | None = sometimes("--private: the folder of the run")
    found: int | None = sometimes("--private: how many of the words are on no public list")
    epsilon: float | None = sometimes("--private: what the discovery cost; null if infinite")
    delta: float | None = sometimes("--private: at this delta")
    warnings: list[str] | None = sometimes("--private: what may be wrong with the public list")
    totals: dict[str, float] | None = sometimes(
        "--rare: the words found, the most used first, with their noised totals"
    )
