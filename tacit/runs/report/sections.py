"""Sections on disk: one JSON file each, in the run's sections/ folder, or in private/sections/ if only the owner may see it.

Both the folder and the flag count: a file in private/ is never read for a shared copy, even if its flag says it is public.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from tacit.errors import RunError
from tacit.files import write_atomic
from tacit.runs.folder import RunFolder
from tacit.runs.report.blocks import Section

FORMAT = 1
RESERVED = frozenset({"training", "spending", "guarantee", "examples", "diagnostics", "participation", "recipe"})
_KEY = "tacit section"


def write_section(folder: RunFolder, section: Section) -> Path:
    """Put a section into the run, in place of one of the same name; returns its file."""
    _refuse_if_reserved(section)
    for place in (folder.sections_path, folder.private_path / "sections"):
        for old in place.glob(f"[0-9][0-9]-{section.name}.json"):
            with suppress(FileNotFoundError):
                old.unlink()
    place = folder.private_path / "sections" if section.private else folder.sections_path
    try:
        place.mkdir(mode=0o700 if section.private else 0o755, exist_ok=True)
    except OSError as error:
        raise RunError(f"Cannot make the folder {place} ({error.strerror}).") from error
    path = place / f"{section.order:02d}-{section.name}.json"
    content = json.dumps({_KEY: FORMAT, **section.model_dump(mode="json")}, allow_nan=False, indent=1)
    write_atomic(path, content + "\n", mode=0o600 if section.private else 0o644)
    return path


def read_sections(folder: RunFolder, *, share: bool) -> list[Section]:
    """The sections that other parts wrote into the run, in order; RunError names the first that cannot be read.

    With `share`, sections for the owner alone are left out, and nothing in private/ is opened. A link is left out too, as in
    `tacit.runs.public`: it may lead to any file.
    """
    paths = sorted(folder.sections_path.glob("*.json"))
    if share:
        paths = [path for path in paths if not (path.is_symlink() or path.parent.is_symlink())]
    found = [_read(path) for path in paths]
    kept = [section for section in found if not (share and section.private)]
    if not share:
        place = folder.private_path / "sections"
        # A section in this folder is private, whatever its flag says.
        kept += [_read(path).model_copy(update={"private": True}) for path in sorted(place.glob("*.json"))]
    return sorted(kept, key=lambda section: (section.order, section.name))


def _refuse_if_reserved(section: Section) -> None:
    """RunError if the section has the name of one that every report makes itself, such as the guarantee."""
    if section.name in RESERVED:
        raise RunError(
            f"Expected a section with a name of its own, got {section.name!r}, which every report has already."
        )


def _read(path: Path) -> Section:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.pop(_KEY, None) != FORMAT:
            raise RunError(f"Expected a section of a report in {path}, of format {FORMAT}, got something else.")
        section = Section.model_validate(content)
        _refuse_if_reserved(section)
        return section
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(each) for each in first["loc"]) or "it"
        raise RunError(f"The section {path} cannot be shown: {where}: {first['msg'].lower()}.") from None
    except (OSError, ValueError):
        raise RunError(f"The section {path} cannot be read as JSON.") from None
