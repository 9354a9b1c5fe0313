"""Whether a page may show a run's words. Those that were counted on the run's users without noise are these users' text."""

from __future__ import annotations

from tacit.data.vocabulary import load_vocabulary
from tacit.errors import PrivacyError, TacitError
from tacit.privacy.record.reasons import Why
from tacit.runs.folder import RunFolder

# The public files of a run that hold its words, or what its model says with them.
FILES_OF_WORDS = ("vocabulary.txt", "summary.json", "report.html")


def require_words_to_show(folder: RunFolder) -> None:
    """PrivacyError, in one sentence, if the run's words were counted on private users without noise.

    A run without words has none to hide. Before there is a ledger, the provenance of the words decides alone.
    """
    if not folder.vocabulary_path.is_file():
        return
    words, opened = load_vocabulary(folder.vocabulary_path), folder.ledger().opened if folder.begun else None
    counted = opened is not None and any(each.code == Why.COUNTED_VOCABULARY for each in opened.reasons_not_private)
    # With noise: the ledger takes no other discovery.
    discovered = opened is not None and (opened.vocabulary is not None or opened.finds_words)
    if counted or not (words.is_public or discovered):
        raise PrivacyError(
            f"The words of {folder.path} were counted on private users without noise ({words.provenance}), so they are users' "
            "text, and no page shows them.",
            hint="Train with words from public text, or discover them with noise: the section [vocabulary] of a recipe.",
        )


def why_hidden(folder: RunFolder) -> str | None:
    """Why no page shows the run's words, in a sentence; None if pages may. Words that cannot be judged are hidden."""
    try:
        require_words_to_show(folder)
    except TacitError as error:
        return error.sentence
    return None
