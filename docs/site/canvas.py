"""A small canvas for drawings as SVG: boxes, arrows and texts in the colours of the page."""

from __future__ import annotations

import html

# Colours of a drawing as a file of its own; inside a page docs/assets/tacit.css sets them.
_STYLE = """<style>
svg { --ink: #1f2430; --soft: #5b6270; --paper: #ffffff; --private: #d9822b; --public: #12877a; --noise: #7a5bc0 }
@media (prefers-color-scheme: dark) {
svg { --ink: #e8eaf0; --soft: #a9b0bf; --paper: #1e2129; --private: #f0a860; --public: #4fc3b2; --noise: #b39ddb }
}
</style>"""
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


class Canvas:
    """Collects shapes and writes them as one SVG."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._shapes: list[str] = []

    def zone(self, x: float, y: float, width: float, height: float, title: str, colour: str) -> None:
        """A dashed region with a title inside, at the top."""
        self._rect(x, y, width, height, f"fill:none;stroke:var(--{colour});stroke-dasharray:5 4;stroke-width:1.5", 10)
        self.text(x + width / 2, y + 20, title, colour=colour, size=13)

    def box(self, x: float, y: float, width: float, height: float, *lines: str, colour: str = "ink") -> None:
        """A box with centred lines, the first of them bold."""
        self._rect(x, y, width, height, f"fill:var(--paper);stroke:var(--{colour});stroke-width:1.8", 6)
        top = y + height / 2 - 8.5 * (len(lines) - 1) + 4.5
        for number, line in enumerate(lines):
            bold = number == 0
            self.text(
                x + width / 2,
                top + 17 * number,
                line,
                colour="ink" if bold else "soft",
                size=14 if bold else 12,
                bold=bold,
            )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        colour: str = "ink",
        size: int = 12,
        bold: bool = False,
        anchor: str = "middle",
    ) -> None:
        """One line of text."""
        weight = ";font-weight:600" if bold else ""
        style = f"fill:var(--{colour});font-size:{size}px;font-family:{_FONT};text-anchor:{anchor}{weight}"
        self._shapes.append(f'<text x="{x:g}" y="{y:g}" style="{html.escape(style)}">{html.escape(text)}</text>')

    def arrow(self, *points: tuple[float, float], colour: str = "ink", dashed: bool = False) -> None:
        """A line through the points with a head at the last one."""
        style = f"fill:none;stroke:var(--{colour});stroke-width:1.8" + (";stroke-dasharray:4 4" if dashed else "")
        self._shapes.append(f'<path d="{_path(points)}" style="{style}"/>')
        (x0, y0), (x, y) = points[-2:]
        length = ((x - x0) ** 2 + (y - y0) ** 2) ** 0.5
        ux, uy = (x - x0) / length, (y - y0) / length
        head = [(x, y), (x - 9 * ux - 4.5 * uy, y - 9 * uy + 4.5 * ux), (x - 9 * ux + 4.5 * uy, y - 9 * uy - 4.5 * ux)]
        self._shapes.append(f'<path d="{_path(head)} Z" style="fill:var(--{colour})"/>')

    def line(self, *points: tuple[float, float], colour: str = "ink", width: float = 1.5) -> None:
        """A line through the points."""
        self._shapes.append(
            f'<path d="{_path(points)}" style="fill:none;stroke:var(--{colour});stroke-width:{width}"/>'
        )

    def square(self, x: float, y: float, size: float, colour: str, opacity: float) -> None:
        """A filled square."""
        style = f"fill:var(--{colour});fill-opacity:{opacity:.3f}"
        self._shapes.append(f'<rect x="{x:g}" y="{y:g}" width="{size:g}" height="{size:g}" style="{style}"/>')

    def person(self, x: float, y: float, colour: str, *, missing: bool = False) -> None:
        """A person, about 24 wide and 34 high, centred on x."""
        dash = ";stroke-dasharray:3 3;fill:none" if missing else f";fill:var(--{colour});fill-opacity:0.25"
        style = f"stroke:var(--{colour});stroke-width:1.6{dash}"
        self._shapes.append(f'<circle cx="{x:g}" cy="{y:g}" r="7" style="{style}"/>')
        body = f"M {x - 12:g} {y + 27:g} a 12 15 0 0 1 24 0 Z"
        self._shapes.append(f'<path d="{body}" style="{style}"/>')

    def svg(self) -> str:
        """The drawing as the text of a file."""
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}">'
        return "\n".join([head, _STYLE, *self._shapes, "</svg>", ""])

    def _rect(self, x: float, y: float, width: float, height: float, style: str, radius: int) -> None:
        self._shapes.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" style="{style}"/>'
        )


def _path(points: list[tuple[float, float]] | tuple[tuple[float, float], ...]) -> str:
    return "M " + " L ".join(f"{x:.1f} {y:.1f}" for x, y in points)
