"""Results of `tacit witness`."""

from __future__ import annotations

from tacit.cli.results.base import Result, key


class WitnessServeResult(Result):
    """A witness that listens."""

    address: str = key("where it listens")
    public_key: str = key("its public key")


class WitnessKeyResult(Result):
    """The public key of a witness."""

    public_key: str = key("name+id+key in one line, for `witness.key` in recipes")


class WitnessCheckResult(Result):
    """A ledger that agrees with every head that was compared."""

    run_id: str = key("the run's id")
    witness: str = key("the public key with which the heads were checked")
    records: int = key("how many records the ledger has")
    signed: int = key("how many of them a head holds, so that nobody can change them unseen")
    in_folder: int | None = key("how many records the head in the run's folder holds; null if there is none")
    given: list[int] = key("how many records each head of --head holds")
    at_witness: int | None = key("how many records the witness's last head holds; null if it has none or was not asked")


class WitnessSubmitResult(Result):
    """A head that the witness signed now."""

    run: str = key("the run's folder")
    records: int = key("how many records the signed head holds")
