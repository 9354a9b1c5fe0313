"""What a claim of privacy must disclose beside its proof: accuracy and bias, implementation, access, how data were collected.

The subjects are those by which NIST SP 800-226 (Guidelines for Evaluating Differential Privacy Guarantees) has a claim
evaluated. Parameters, unit, mechanism and trust have parts of their own in the guarantee; these are the others. Nothing here is
proven, and nothing here changes epsilon.
"""

from __future__ import annotations

from collections.abc import Sequence

from tacit.privacy.noise.kinds import kind_of
from tacit.privacy.outside import is_path
from tacit.privacy.record.records import Opened
from tacit.privacy.statement.wording import Line, plain

_CLIPPED = (
    "Clipping limits how far one person's text moves the model. People with much text, or with unusual text, count for less "
    "than they would without the limit."
)
_RARE_TRAINED = (
    "Noise hides what few people do. Words, languages, dialects and topics of small groups are learnt less well than "
    "they would be without noise, and the fewer people there are, the more they lose. Tacit measures "
    "averages over all held-out users, which do not show how much accuracy differs between groups."
)
_RARE_FOUND = (
    "Noise and thresholds hide what few people write. Words of small groups and of languages with few people are missing from "
    "the outcome, or stand lower in it than they would without noise."
)
_NO_FIGURE = "The run's folder has no measured accuracy."
_SIDE_CHANNELS = (
    "How long a round takes and how much memory it needs can depend on users' data, and Tacit does not hide this. The "
    "statement does not hold against somebody who can measure the process that reads the data."
)
_ON_THE_NETWORK = (
    "The server, and whoever watches the network, see when a device asks for work and when it answers. Encryption does not "
    "hide that, and how long a device works can depend on what its user wrote."
)


def accuracy_and_bias(opened: Opened, measured: Sequence[str]) -> tuple[Line, ...]:
    """What the outcome is good for, and for whom it is worse. `measured` are sentences about accuracy."""
    if opened.finds_words:
        return (Line(_RARE_FOUND),)
    figures = [Line(sentence) for sentence in measured] or [Line(_NO_FIGURE)]
    if not kind_of(opened.mechanism).adds_noise:
        return tuple(figures)
    return (*figures, Line(_CLIPPED), Line(_RARE_TRAINED))


def implementation(opened: Opened) -> tuple[Line, ...]:
    """Arithmetic, randomness, side channels, and what was tested in the run itself."""
    kind = kind_of(opened.mechanism)
    if is_path(opened.mechanism):
        lines = [Line(f"Noise comes from {plain(opened.mechanism)}: its arithmetic and randomness are its author's.")]
    elif not kind.adds_noise:
        lines = [Line("No noise is drawn.")]
    elif kind.on_devices:
        lines = [
            Line(
                "Devices draw their noise exactly, as integers: nothing is lost to floating-point arithmetic. The server "
                "cannot check the devices' randomness."
            )
        ]
    else:
        lines = [
            Line(
                "Norms, clipping and sums are computed in float64, with bounds that include rounding. Noise is drawn so that "
                "known attacks on floating-point noise do not apply: each value is that of a real Gaussian, rounded to a grid."
            ),
            Line(
                "The noise was drawn from a seed: whoever knows the seed can draw it again and subtract it."
                if opened.seeded
                else "Keys of the noise come from the operating system's random generator, and are never written to a disk."
            ),
        ]
    lines.append(Line(_SIDE_CHANNELS))
    if opened.fleet is not None:
        lines.append(Line(_ON_THE_NETWORK))
    if opened.gate_audit is not None:
        lines.append(
            Line("While it ran, the run tested its own clip and noise with made-up contributions (tacit audit).")
        )
    lines.append(Line(f"The software is Tacit {plain(opened.tacit_version)}, whose source code is open."))
    return tuple(lines)


def access(opened: Opened) -> tuple[Line, ...]:
    """Who can read what the statement says nothing about."""
    holds = "who took part and what was measured without noise"
    if kind_of(opened.mechanism).correlated:
        holds += ", and the state of the noise while the run goes on"
    lines = [
        Line(
            f"The run's private folder holds {holds}. Tacit writes it so that the operator's account alone can read it, and "
            "does not encrypt it: whoever has the disk or a backup of it can read it too."
        )
    ]
    if opened.fleet is not None:
        over = "HTTPS" if opened.fleet.transport == "https" else "an unencrypted connection on one machine"
        lines.append(Line(f"Devices talk to the server over {over}, and sign each request with a key of their own."))
    return tuple(lines)


def collection(opened: Opened) -> tuple[Line, ...]:
    """Where users' data lay before, while and after the run read them. Privacy of the outcome protects none of these places."""
    data = opened.data
    if opened.fleet is not None:
        masked = (
            ", and is masked, so that the server sees sums alone."
            if opened.secure_sum is not None
            else ". The server sees each device's before it adds them up, and could learn from it what the text is about."
        )
        return (
            Line(
                "Users' text stays on their devices. What leaves a device is what it computed for a round (a clipped update, "
                f"counts of words, or its accuracy){masked}"
            ),
        )
    if data.world is not None:
        return (Line("The users are made up by a program. No data of people were collected."),)
    if data.store is not None:
        return (
            Line(
                "Users' text was collected before the run, and lies in a store on the operator's disks. This statement is "
                "about what the run released: whoever can read the store reads the text."
            ),
            Line("The run's folder has no copy of anybody's text."),
        )
    return (
        Line(
            "Users' data were given to the run by the program that started it. Where they came from and where they are kept is "
            "not recorded."
        ),
    )
