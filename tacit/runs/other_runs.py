"""The list that a run is entered in, as far as its reader can see it: the other runs on these people, and their budget."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tacit.data.remote import place_of
from tacit.errors import PrivacyError, RunError
from tacit.privacy.statement.guarantee import ListedRuns
from tacit.runs import odometer
from tacit.runs.budget.of_store import account_of
from tacit.runs.budget.status import status_of
from tacit.runs.folder import RunFolder


def runs_listed_with(folder: RunFolder) -> ListedRuns | None:
    """The odometer that lists this run, if this reader can open it: that of the store, or of the server of devices."""
    data = folder.recipe().get("data", {})
    store = data.get("store") if isinstance(data, dict) else None
    for place in [*([] if store is None else [place_of(str(store))]), folder.path.parent]:
        with suppress(RunError, OSError):
            listed = odometer.runs_of(place)
            if folder.run_id in listed:
                return ListedRuns(len(listed) - 1, str(place), _budget(place))
    return None


def _budget(place: Path) -> str | None:
    try:
        found = status_of(account_of(place))
    except PrivacyError as error:  # damaged, or not this reader's to see
        return error.sentence
    return None if found is None else found.sentence
