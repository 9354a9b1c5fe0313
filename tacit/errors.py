"""Every mistake a person can make, as one tree.

    TacitError                 one sentence, an exit code, perhaps a hint
    ├── RecipeError            a recipe's field or value is wrong
    ├── DataError              a file or store cannot be read as it was meant
    │   └── StoreError         a store folder is missing, damaged or of another kind
    ├── RunError               a run folder is missing, foreign, damaged or does not fit the recipe
    │   ├── LedgerError        the ledger or the participation record is damaged
    │   └── WitnessError       a run's witness does not answer, or does not sign for this run
    ├── PrivacyError           a step that would make the stated guarantee false; nothing was released
    │   └── BudgetError        the budget of these people does not suffice, or its account cannot be trusted
    ├── DivergedError          training left the finite numbers; the last finite checkpoint is kept
    ├── ProtocolError          secure aggregation refuses a message or a round; nothing was revealed
    ├── FleetError             a device, a report or a round of a fleet is not what it should be; nothing was counted
    ├── AuditError             a canary, its plan or an attack does not fit the data or the model
    └── WorkerError            the processes that train users, on this machine or others, cannot do their work

Anything else that escapes is a bug and shows its traceback.
"""

from __future__ import annotations


class TacitError(Exception):
    """A mistake the person at the keyboard can mend: one sentence, an exit code, perhaps a hint.

    >>> import tacit
    >>> try:
    ...     tacit.open_run("runs/nowhere")
    ... except tacit.TacitError as error:
    ...     print(error.sentence)
    Expected the folder of a run, got runs/nowhere, which does not exist (no run.json there).
    """

    exit_code = 1

    def __init__(self, sentence: str, *, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint


class RecipeError(TacitError):
    """A recipe's field or value is wrong."""

    exit_code = 2


class DataError(TacitError):
    """A file cannot be read as it was meant."""

    exit_code = 3


class StoreError(DataError):
    """A store folder is missing, damaged or of another kind."""


class RunError(TacitError):
    """A run folder is missing, foreign, damaged or does not fit the recipe."""

    exit_code = 4


class LedgerError(RunError):
    """The ledger or the participation record is damaged."""


class WitnessError(RunError):
    """A run's witness does not answer, or does not sign for this run; the run can be resumed."""


class PrivacyError(TacitError):
    """A step that would make the stated guarantee false; nothing was released."""

    exit_code = 5


class BudgetError(PrivacyError):
    """The budget of these people does not suffice, or its account cannot be trusted; nothing was released."""


class DivergedError(TacitError):
    """Training left the finite numbers; the last finite checkpoint is kept."""

    exit_code = 6


class ProtocolError(TacitError):
    """Secure aggregation refuses a message, a parameter or a round; what was secret before is secret still."""

    exit_code = 7


class AuditError(TacitError):
    """A canary, its plan or an attack does not fit the data or the model it is meant for."""

    exit_code = 8


class FleetError(TacitError):
    """A device, a report or a round of a fleet is not what it should be; nothing was counted."""

    exit_code = 9


class WorkerError(TacitError):
    """The processes that train users, on this machine or on others, cannot do their work; the run can be resumed."""

    exit_code = 10
