"""Makes the report of a run folder: reads it, orders the sections, adds the guarantee, writes the file.

There are two copies. The owner's copy shows diagnostics and participation, says so at the top, and is readable by its owner
alone, in the private folder unless another path is given. The shared copy is made without opening private/.
"""

from __future__ import annotations

from pathlib import Path

from tacit.errors import RunError
from tacit.files import write_atomic
from tacit.privacy.record.reasons import in_words
from tacit.privacy.statement.wording import round_up
from tacit.runs.folder import RunFolder
from tacit.runs.report.contents import own_sections
from tacit.runs.report.page import Chapter, Tile, page
from tacit.runs.report.reading import Reading, finite, read_run
from tacit.runs.report.render import render
from tacit.runs.report.sections import read_sections

_GUARANTEE_ORDER = 30

_STATES = {
    "not begun": "It was made ready but has not begun: nothing was released.",
    "running": "It is still training; this is how it stands now.",
    "interrupted": "It was cut off in the middle and can be resumed.",
    "stopped": "It was stopped between two rounds and can be resumed.",
    "finished": "It ran to its end.",
    "diverged": "It diverged: the model left the finite numbers, and training ended there.",
}
_STATES_OF_WORDS = {
    "running": "It is still reading words.",
    "interrupted": "It was cut off: what it cost counts, and its words are lost.",
}
_OWNER = (
    "Owner's copy.",
    "It shows how users were sampled and diagnostics without noise, which the guarantee does not cover. Do not pass it "
    "on: tacit report --share writes a copy for everybody else.",
)
_SHARED = ("Shared copy.", "Made without opening the run's private folder.")


def default_path(folder: RunFolder, *, share: bool) -> Path:
    """The path of a report: beside the ledger if it is shared, otherwise in the private folder."""
    return folder.path / "report.html" if share else folder.private_path / "report.html"


def write_report(folder: RunFolder, out: Path | None = None, *, share: bool = False) -> Path:
    """Write the report of a run and return where it is; the owner's copy has mode 0600.

    RunError, and nothing written, if the run is damaged or no page can be written to `out`.
    """
    path = default_path(folder, share=share) if out is None else out
    if path.suffix not in (".html", ".htm"):  # so that a mistyped path cannot overwrite a ledger
        raise RunError(f"Expected a page that ends in .html, got {path}.")
    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else "lies in a folder that does not exist"
        hint = "--share writes the copy that needs no private folder." if path.parent == folder.private_path else None
        raise RunError(f"Expected a file to write the report to, got {path}, which {what}.", hint=hint)
    write_atomic(path, report_html(folder, share=share), mode=0o644 if share else 0o600)
    return path


def report_html(folder: RunFolder, *, share: bool) -> str:
    """The report as text."""
    run = read_run(folder, share=share)
    sections = own_sections(run) + read_sections(folder, share=share)
    placed = [
        (each.order, each.name, Chapter(each.name, each.title, render(each.blocks), each.private)) for each in sections
    ]
    if run.guarantee is not None:
        chapter = Chapter("guarantee", "The guarantee", run.guarantee.as_html())
        placed.append((_GUARANTEE_ORDER, chapter.name, chapter))
    return page(
        title=run.name,
        lede=f"Begun {folder.created.replace('T', ' ').replace('+00:00', ' UTC')}. {_state(run)}",
        badge=_SHARED if share else _OWNER,
        owner=not share,
        tiles=_tiles(run),
        chapters=[chapter for _, _, chapter in sorted(placed, key=lambda item: item[:2])],
    )


def _state(run: Reading) -> str:
    words = run.ledger is not None and run.ledger.opened.finds_words
    return (_STATES | (_STATES_OF_WORDS if words else {}))[run.state]


def _tiles(run: Reading) -> list[Tile]:
    done = run.ledger.next_round if run.ledger is not None else 0
    planned = "" if run.rounds_planned is None else f" of {run.rounds_planned:,}"
    again = (len(run.ledger.intents) if run.ledger is not None else 0) - done
    rounds = ("round" if run.rounds_planned == 1 else "rounds") + (
        f", and {again:,} that ran again and count again" if again > 0 else ""
    )
    return [*_privacy_tile(run), *_accuracy_tile(run), *_words_tile(run), Tile(f"{done:,}{planned}", rounds)]


def _privacy_tile(run: Reading) -> list[Tile]:
    guarantee = run.guarantee
    if guarantee is None:
        return []
    if not guarantee.private:
        return [Tile("ε = ∞", f"no privacy is claimed: {in_words(guarantee.reasons)}", "bad")]
    meaning = f"at δ = {guarantee.delta:g}, for any one {guarantee.unit} ({guarantee.adjacency})"
    return [Tile(f"ε = {round_up(guarantee.epsilon)}", meaning, "good")]


def _words_tile(run: Reading) -> list[Tile]:
    words, found = (finite(run.summary.get(name)) for name in ("words", "found"))
    if words is None or found is None:
        return []
    return [Tile(f"{words:,.0f}", f"words, {found:,.0f} of them on no public list")]


def _accuracy_tile(run: Reading) -> list[Tile]:
    metrics = run.summary.get("metrics") or (run.metrics[-1] if run.metrics else {})
    top1 = finite(metrics.get("top1")) if isinstance(metrics, dict) else None
    if top1 is not None:
        return [Tile(f"{top1:.1%}", "of held-out words guessed right" + ("" if run.summary else ", at last count"))]
    return []
