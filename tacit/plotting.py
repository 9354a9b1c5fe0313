"""Write plots with matplotlib: import it without a display, check the path of a picture, save it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tacit.errors import RunError


def load_pyplot() -> Any:
    """matplotlib's pyplot, drawing to files only. Imported on demand, because it takes a second."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def require_picture(out: Path) -> None:
    """RunError if no picture can be written to this path; call it before long work."""
    if out.suffix not in (".png", ".svg"):
        raise RunError(f"Expected a picture that ends in .png or .svg, got {out}.")
    if not out.parent.is_dir():
        raise RunError(f"Expected a picture in a folder that exists, got {out}.")


def save_figure(figure: Any, out: Path) -> None:
    """Write a figure as PNG or SVG, and close it; RunError if it cannot be written."""
    try:
        figure.savefig(out, dpi=160)
    except OSError as error:
        raise RunError(f"Cannot write {out} ({error.strerror}).") from None
    finally:
        load_pyplot().close(figure)
