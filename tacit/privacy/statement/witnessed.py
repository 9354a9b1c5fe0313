"""What a witness of the ledger adds to a guarantee, and what is assumed where there is none.

Without a witness the chain of the ledger shows that a record was changed or left out in the middle. It cannot show that records
were cut off the end, or that somebody wrote another ledger, with digests of its own, in the place of this one.
"""

from __future__ import annotations

from tacit.privacy.record.records import Opened
from tacit.privacy.statement.wording import Line, Mark, plain

_ALONE = (
    "nobody cut records off the end of the ledger, exchanged it for another one, or showed different ledgers to different "
    "people: no witness has signed its heads"
)
_REQUIRED = (
    "nothing of a round was shown, or saved outside the private folder, before the witness {name} had signed a head of the "
    "ledger that includes the round"
)
_EVIDENT = (
    "records in a head that the witness {name} signed cannot be cut off, exchanged or changed unseen: whoever asks the "
    "witness, or has kept such a head, finds out (tacit witness check)"
)
_HONEST = (
    "the witness {name} never signs two histories of one ledger, and whoever runs the training does not hold its key"
)
_OPTIONAL = (
    "records that are in no signed head were not cut off, exchanged or changed: the witness {name} is not required, and "
    "the run went on where it did not sign"
)
_TIMES = (
    "the witness {name} learned how many records the ledger has and when they were written, and so how long rounds took; this "
    "statement does not cover what that tells about users"
)


def witness_lines(opened: Opened) -> list[Line]:
    """The lines about the ledger's witness."""
    if opened.witness is None:
        return [Line(_ALONE, Mark.ASSUMED)]
    name = plain(opened.witness.name)
    required = opened.witness.required
    enforced = (_REQUIRED, _EVIDENT) if required else (_EVIDENT,)
    assumed = (_HONEST, _TIMES) if required else (_OPTIONAL, _HONEST, _TIMES)
    marked = [(text, Mark.ENFORCED) for text in enforced] + [(text, Mark.ASSUMED) for text in assumed]
    return [Line(text.format(name=name), mark) for text, mark in marked]
