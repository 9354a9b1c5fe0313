"""What a run uses from outside Tacit: the authors' claims that its statement must name, and why they may not be believed."""

from __future__ import annotations

from typing import Any

from tacit.privacy.noise.kinds import KINDS
from tacit.privacy.outside import Registry, about, is_path
from tacit.privacy.participation.custom import PARTICIPATIONS
from tacit.privacy.record.reasons import Reason, Why
from tacit.privacy.record.records import Opened


def author_claims(opened: Opened) -> tuple[str, ...]:
    """The assumptions that stand in the place of a proof of Tacit's; none for a run that uses nothing from outside."""
    found = []
    if is_path(opened.mechanism):
        found.append(
            f"the cost of the mechanism {opened.mechanism.partition(':')[2]} is the claim of its author ({opened.mechanism}), "
            "not proven by Tacit"
        )
    if (path := _participation(opened)) is not None:
        found.append(
            f"that users take part as stated is the claim of the author of {path.partition(':')[2]} ({path}), not enforced "
            "by Tacit"
        )
    return tuple(found)


def outside_objection(opened: Opened) -> Reason | None:
    """Why a run with something from outside can claim nothing in this process; None where nothing stands against it."""
    found = _objection(opened)
    return None if found is None else Reason(Why.FROM_OUTSIDE, found)


def _objection(opened: Opened) -> str | None:
    if is_path(opened.mechanism) and (found := _difference("mechanism", KINDS, opened.mechanism, opened)):
        return found
    path = _participation(opened)
    if path is None:
        return None
    if found := _difference("participation", PARTICIPATIONS, path, opened):
        return found
    law = getattr(PARTICIPATIONS.find(path), "law", None)
    if law is None:
        return f"the participation {path} states no law that the accounting knows"
    if law != opened.plan["sampling"]:
        return f"the participation {path} is {law}, and the plan was accounted as {opened.plan['sampling']}"
    return None


def _participation(opened: Opened) -> str | None:
    found = opened.plan.get("participation")
    return None if found is None else str(found)


def _difference(field: str, registry: Registry[Any], path: str, opened: Opened) -> str | None:
    """Why what is registered here is not what the run used."""
    known = registry.find(path)
    if known is None:
        return registry.missing(path)
    recorded, here = opened.outside.get(field), about(known)
    if recorded != here:
        before = recorded.get("version") if isinstance(recorded, dict) else None
        return (
            f"the run used version {before!r} of the {field} {path}, and version {here['version']!r} is here, or its "
            "description differs"
        )
    return None
