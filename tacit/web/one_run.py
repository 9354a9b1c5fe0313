"""Routes of one run: curves, guarantee, ledger, audit, suggestions and files. Only public files are read, unless said."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, HTTPException, Query
from fastapi.responses import FileResponse, Response
from pydantic import BaseModel, Field

from tacit.api.run import open_run
from tacit.errors import RunError, TacitError
from tacit.runs.accuracy import LABELS, SHARES, vocabulary_sentence
from tacit.runs.folder import RunFolder
from tacit.runs.metrics import read_metrics
from tacit.runs.public import CERTIFICATE, OF_LETTERS, PUBLIC, public_paths
from tacit.runs.report.blocks import Section
from tacit.runs.report.sections import read_sections
from tacit.web.evidence import CertificateView, WitnessView, certificate_of, witness_of
from tacit.web.reading import in_one_sentence, path_of
from tacit.web.rows import RunRow
from tacit.web.settings import BoardSettings
from tacit.web.suggestions import Suggester, Suggestion
from tacit.web.watcher import RunWatcher
from tacit.web.words import FILES_OF_WORDS, require_words_to_show, why_hidden

# What one answer holds at most; a page asks for the rest.
MOST_RECORDS = 20_000
LONGEST_TEXT = 500


class RunFile(BaseModel):
    """A public file of a run."""

    name: str
    bytes: int
    what: str


class RunDetail(BaseModel):
    """A run beyond its row. Everything in it may be shown to anybody."""

    row: RunRow
    recipe_text: str
    baselines: dict[str, Any]
    metrics: dict[str, Any]
    labels: dict[str, str] = Field(description="what each metric is called")
    shares: list[str] = Field(description="the metrics that are shares between 0 and 1")
    notes: list[str]
    examples: dict[str, list[tuple[str, float]]]
    sections: list[Section] = Field(description="parts of the report for everybody that other commands wrote")
    files: list[RunFile]


class Clipped(BaseModel):
    """What share of the users who took part were clipped in a round. For the owner alone."""

    round: int
    clipped: float


class RunCurves(BaseModel):
    """What was measured, a record a round, after the round that was asked for."""

    records: list[dict[str, Any]]
    clipped: list[Clipped] | None = Field(description="null unless the board was started with --owner")
    more: bool


class GuaranteeLine(BaseModel):
    text: str
    mark: str | None = None
    code: str | None = None


class GuaranteePart(BaseModel):
    title: str
    lines: list[GuaranteeLine]


class GuaranteeView(BaseModel):
    """The statement for a reviewer, as tacit guarantee prints it."""

    run_id: str
    headline: str
    paragraph: str = Field(description="the statement for everybody")
    epsilon: float | None
    delta: float
    rho: float | None
    reasons_not_private: list[str]
    ledger_head: str
    parts: list[GuaranteePart]
    witness: WitnessView | None = Field(description="null if the run was begun without one")
    certificate: CertificateView | None = Field(description="null if there is none in the run's folder")


class Suggested(BaseModel):
    text: str
    suggestions: list[Suggestion]


def one_run_routes(watcher: RunWatcher, settings: BoardSettings, suggester: Suggester) -> APIRouter:
    """The routes of one run."""
    router = APIRouter(prefix="/api/runs/{key}")

    def opened(key: str) -> RunFolder:
        return RunFolder.open(path_of(watcher, key))

    @router.get("")
    def detail(key: str) -> RunDetail:
        """The run, its recipe and its result."""
        folder = opened(key)
        row = watcher.row(key)
        assert row is not None
        with in_one_sentence(folder.path):
            summary = folder.summary() or {}
            metrics = summary.get("metrics") or dict(row.metrics)
            outside, hidden = vocabulary_sentence(metrics.get("out_of_vocabulary")), why_hidden(folder)
            return RunDetail(
                row=row,
                recipe_text=folder.recipe_path.read_text(encoding="utf-8"),
                baselines=summary.get("baselines") or {},
                metrics=metrics,
                labels=dict(LABELS),
                shares=list(SHARES),
                notes=[note for note in (outside, hidden) if note is not None],
                examples={} if hidden is not None else summary.get("examples") or {},
                sections=read_sections(folder, share=True),
                files=_files(folder),
            )

    @router.get("/metrics")
    def curves(key: str, after: Annotated[int, Query(ge=0)] = 0) -> RunCurves:
        """What was measured after this round, for curves."""
        folder = opened(key)
        with in_one_sentence(folder.path):
            found = [record for record in read_metrics(folder.metrics_path) if record["round"] > after]
            clipped = list(_clipped(folder, after)) if settings.owner else None
            return RunCurves(records=found[:MOST_RECORDS], clipped=clipped, more=len(found) > MOST_RECORDS)

    @router.get("/guarantee")
    def guarantee(key: str) -> GuaranteeView:
        """The statement for a reviewer. Nothing private is read for it."""
        folder = opened(key)
        with in_one_sentence(folder.path):
            run = open_run(folder.path)
            evidence = {
                "witness": witness_of(folder, run.ledger),
                "certificate": certificate_of(folder, run.ledger),
            }
            return GuaranteeView.model_validate(run.guarantee().as_json() | evidence)

    @router.get("/ledger", response_class=Response, responses={200: {"content": {"application/jsonl": {}}}})
    def ledger(key: str) -> Response:
        """The ledger as it is on disk, so that its chain can be checked by whoever reads it."""
        folder = opened(key)
        if not folder.begun:
            raise RunError("This run has no ledger yet: its first round has not begun.")
        with in_one_sentence(folder.path):
            return Response(folder.ledger_path.read_bytes(), media_type="application/jsonl")

    @router.get("/suggest")
    def suggest(
        key: str,
        text: Annotated[str, Query(max_length=LONGEST_TEXT)] = "",
        count: Annotated[int, Query(ge=1, le=20)] = 5,
    ) -> Suggested:
        """The most likely next words after this text, by the model of the last checkpoint."""
        folder = opened(key)
        with in_one_sentence(folder.path):
            require_words_to_show(folder)
        return Suggested(text=text, suggestions=suggester.suggest(folder.path, text, count))

    @router.get("/file", response_class=FileResponse)
    def file(key: str, name: str) -> FileResponse:
        """A public file of the run, by its name in the list of files."""
        folder = opened(key)
        with in_one_sentence(folder.path):
            found = _shared(folder).get(name)
        if found is None:
            raise HTTPException(404, "There is no such public file in this run.")
        return FileResponse(
            found,
            filename=found.name,
            media_type="application/octet-stream",
            headers={"content-security-policy": "sandbox; default-src 'none'"},
        )

    return router


def _clipped(folder: RunFolder, after: int) -> Iterator[Clipped]:
    """One figure of the private diagnostics, and no other: how many users took part stays in the folder."""
    for record in read_metrics(folder.diagnostics_path):
        share = record.get("clipped")
        if record["round"] > after and isinstance(share, int | float) and not isinstance(share, bool):
            yield Clipped(round=record["round"], clipped=share)


def _shared(folder: RunFolder) -> dict[str, Path]:
    """The public files, without sections whose flag says that they are for the owner: both folder and flag count.

    A certificate is one of them only if it is one, of this run. Files of words are left out where the words are users' text.
    """
    sections = {f"sections/{each.order:02d}-{each.name}.json" for each in read_sections(folder, share=True)}
    found = public_paths(folder).items()
    shared = {name: path for name, path in found if name in sections or not name.startswith("sections/")}
    if CERTIFICATE.path in shared and not _is_certified(folder):
        del shared[CERTIFICATE.path]
    return (
        shared if why_hidden(folder) is None else {name: shared[name] for name in shared if name not in FILES_OF_WORDS}
    )


def _is_certified(folder: RunFolder) -> bool:
    try:
        found = certificate_of(folder, folder.accountable_ledger())
    except TacitError:
        return False
    return found is not None and found.problem is None


def _files(folder: RunFolder) -> list[RunFile]:
    kinds = {each.path: each.what for each in (*OF_LETTERS, *PUBLIC, CERTIFICATE)}
    found = []
    for name, path in _shared(folder).items():
        what = next((said for pattern, said in kinds.items() if Path(name).match(pattern)), "")
        found.append(RunFile(name=name, bytes=path.stat().st_size, what=what))
    return found
