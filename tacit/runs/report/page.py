"""The page: one HTML file that needs nothing but itself.

No script, no font and no picture comes from anywhere, and a content security policy forbids the browser to fetch or run
any: a report of somebody else's run is safe to open.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.privacy.statement.wording import escaped

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

_STYLE = """
:root { color-scheme: light dark; --paper: #fdfdfb; --ink: #1f2933; --soft: #5b6773; --line: #dfe3e6; --wash: #f3f5f4;
  --accent: #0b7285; --second: #b35c1e; --third: #5f3dc4; --good: #2b6e3f; --bad: #a12c2c; }
@media (prefers-color-scheme: dark) { :root { --paper: #15191d; --ink: #dde3e8; --soft: #95a1ac; --line: #2c343b;
  --wash: #1c2227; --accent: #4fb8cb; --second: #e39a5f; --third: #a994f2; --good: #7cc893; --bad: #ef8f8f; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink); overflow-wrap: break-word;
  font: 1.0625rem/1.6 "Iowan Old Style", "Palatino Linotype", Palatino, "Noto Serif", "DejaVu Serif", Georgia, serif; }
main, header, footer { max-width: 58rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 3.5rem; }
h1, h2, h3 { line-height: 1.2; font-weight: 600; text-wrap: balance; }
h1 { font-size: 2.4rem; margin: .2rem 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.55rem; margin: 0 0 .8rem; }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .3rem; }
p, ul { margin: 0 0 1rem; max-width: 44rem; }
ul { padding-left: 1.15rem; } li { margin: .25rem 0; } li::marker { color: var(--soft); }
.eyebrow, nav, .tile span, .mark, svg, table, figcaption, .caption, summary, .badge, footer, .note {
  font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
.eyebrow { color: var(--soft); font-size: .85rem; letter-spacing: .04em; margin: 0; }
.lede { color: var(--soft); margin-bottom: 1.4rem; }
.badge { border: 1px solid var(--line); border-left: 4px solid var(--accent); background: var(--wash);
  padding: .6rem .9rem; font-size: .9rem; line-height: 1.45; max-width: none; border-radius: 3px; }
.badge.owner { border-left-color: var(--bad); } .badge b { color: var(--accent); } .badge.owner b { color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); margin: 1.8rem 0 1.2rem;
  border: 1px solid var(--line); border-radius: 3px; }
.tile { padding: 1rem 1.2rem; box-shadow: 0 0 0 .5px var(--line); }
.tile b { display: block; font-size: 2rem; line-height: 1.15; font-weight: 600; font-variant-numeric: lining-nums; }
.tile b.good { color: var(--good); } .tile b.bad { color: var(--bad); }
.tile span { display: block; color: var(--soft); font-size: .85rem; line-height: 1.4; margin-top: .25rem; }
nav { font-size: .9rem; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin-bottom: 1rem; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .2em; }
section { border-top: 1px solid var(--line); padding: 2rem 0 1.2rem; }
section.private h2::after { content: "owner only"; font: 600 .7rem/1 system-ui, sans-serif; color: var(--bad);
  border: 1px solid; border-radius: 2px; padding: .2rem .4rem; margin-left: .7rem; vertical-align: middle; }
.headline { font-size: 1.2rem; line-height: 1.45; font-weight: 600; padding-left: 1rem; border-left: 4px solid var(--good); }
.headline.not-claimed { border-left-color: var(--bad); }
li.marked { display: grid; grid-template-columns: 11.5rem 1fr; align-items: baseline; margin: .4rem 0 .4rem -1.15rem; }
ul:has(.marked) { max-width: 52rem; }
.mark { justify-self: start; font-size: .74rem; line-height: 1; padding: .22rem .45rem; border-radius: 2px; border: 1px solid; }
.mark.enforced { color: var(--good); } .mark.observed { color: var(--accent); } .mark.assumed { color: var(--second); }
.note { font-size: .92rem; color: var(--soft); border-left: 3px solid var(--line); padding-left: .9rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.5rem 2rem;
  margin: .6rem 0 1.2rem; }
figure { margin: 0; max-width: 27rem; } figure img { max-width: 100%; height: auto; }
figcaption, .caption { color: var(--soft); font-size: .85rem; line-height: 1.4; margin-bottom: .3rem; }
svg { display: block; width: 100%; height: auto; font-size: 12.5px; font-variant-numeric: tabular-nums; }
svg text { fill: var(--soft); } svg .title { fill: var(--ink); font-weight: 600; font-size: 13.5px; }
svg .faint { font-size: 11.5px; paint-order: stroke; stroke: var(--paper); stroke-width: 4px; }
svg .amount { fill: var(--ink); }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); }
svg .level { stroke: var(--soft); stroke-dasharray: 4 4; }
svg polyline { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
svg .c0 { stroke: var(--accent); } svg .c1 { stroke: var(--second); } svg .c2 { stroke: var(--third); }
svg .c3 { stroke: var(--good); } svg .name { font-weight: 600; } svg .n0 { fill: var(--accent); }
svg .n1 { fill: var(--second); } svg .n2 { fill: var(--third); } svg .n3 { fill: var(--good); }
svg circle { fill: var(--paper); stroke-width: 2; } svg .bar { fill: var(--accent); }
.wide { overflow-x: auto; margin: 0 0 1rem; }
table { border-collapse: collapse; font-size: .92rem; line-height: 1.4; }
th, td { text-align: left; padding: .35rem 1.4rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; } .number { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .85em; }
code { overflow-wrap: anywhere; } pre { background: var(--wash); padding: 1rem; overflow-x: auto; border-radius: 3px;
  line-height: 1.5; margin: .6rem 0 1rem; } pre code { font-size: .82rem; overflow-wrap: normal; }
summary { cursor: pointer; color: var(--accent); font-size: .92rem; } details { margin-bottom: 1rem; }
details[open] summary { margin-bottom: .5rem; }
footer { color: var(--soft); font-size: .82rem; padding-top: 1rem; padding-bottom: 3rem; }
footer p { max-width: none; border-top: 1px solid var(--line); padding-top: 1rem; }
@media (max-width: 40rem) { body { font-size: 1rem; } main, header, footer { padding-left: 1.1rem; padding-right: 1.1rem; }
  header { padding-top: 2rem; } li.marked { grid-template-columns: 1fr; gap: .2rem; margin-bottom: .8rem; }
  h1 { font-size: 1.8rem; } .tile { padding: .8rem 1rem; } .tile b { font-size: 1.6rem; } }
@media print { :root { color-scheme: light; --paper: #fff; --ink: #000; --soft: #444; --line: #bbb; --wash: #f6f6f6;
  --accent: #0b7285; --second: #b35c1e; --third: #5f3dc4; --good: #2b6e3f; --bad: #a12c2c; } body { font-size: 10.5pt; }
  nav { display: none; } figure, .tiles, tr, .badge { break-inside: avoid; } h2, h3 { break-after: avoid; } }
"""


@dataclass(frozen=True)
class Tile:
    """A number at the top of the page, and its meaning. `tone`: good, bad or neither."""

    figure: str
    meaning: str
    tone: str = ""


@dataclass(frozen=True)
class Chapter:
    """A section as the page shows it; `body` is HTML in which everything foreign is escaped."""

    name: str
    title: str
    body: str
    private: bool = False


def page(
    *, title: str, lede: str, badge: tuple[str, str], owner: bool, tiles: list[Tile], chapters: list[Chapter]
) -> str:
    """The whole file. `badge` says whose copy this is: a word or two in bold, and a sentence."""
    shown = "".join(
        f'<div class="tile"><b class="{escaped(tile.tone)}">{escaped(tile.figure)}</b>'
        f"<span>{escaped(tile.meaning)}</span></div>"
        for tile in tiles
    )
    links = "".join(f'<a href="#{escaped(each.name)}">{escaped(each.title)}</a>' for each in chapters)
    body = "".join(
        f'<section id="{escaped(each.name)}"{" class=private" if each.private else ""}>'
        f"<h2>{escaped(each.title)}</h2>\n{each.body}\n</section>\n"
        for each in chapters
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>{escaped(title)} · Tacit</title>
<style>{_STYLE}</style>
</head>
<body>
<header>
<p class="eyebrow">Tacit · report of a run</p>
<h1>{escaped(title)}</h1>
<p class="lede">{escaped(lede)}</p>
<p class="badge{" owner" if owner else ""}"><b>{escaped(badge[0])}</b> {escaped(badge[1])}</p>
<div class="tiles">{shown}</div>
<nav>{links}</nav>
</header>
<main>
{body}</main>
<footer><p>Every number here comes from the run's folder; those of the guarantee from its ledger alone.</p></footer>
</body>
</html>
"""
