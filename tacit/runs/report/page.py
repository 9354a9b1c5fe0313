"""The page: one HTML file that needs nothing but itself.

No script, no font and no picture comes from anywhere, and a content security policy forbids the browser to fetch or run
any: a report of somebody else's run is safe to open.
"""

from __future__ import annotations

from dataclasses import dataclass

from tacit.privacy.statement.wording import escaped

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

# The colours and the measures are those of the board (web/src/style.css).
_STYLE = """
:root { color-scheme: light dark;
  --ground: #f6f8f8; --surface: #ffffff; --raised: #eef2f2; --line: #d3dcdc; --text: #172122; --quiet: #4f6063;
  --accent: #00695f; --accent-ground: #d9efec; --good: #1c6b34; --good-ground: #ddf1e2; --warn: #855000;
  --warn-ground: #fbecd1; --bad: #a3231d; --bad-ground: #fbe1df;
  --one: #00796e; --two: #c2410c; --three: #4f46e5; --four: #a21caf; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #0f1516; --surface: #172022; --raised: #202b2e; --line: #344346; --text: #e6eded; --quiet: #a3b4b6;
  --accent: #6bd0c3; --accent-ground: #123e3a; --good: #86d79c; --good-ground: #16351f; --warn: #f0bc6c;
  --warn-ground: #3c2b10; --bad: #ff9d96; --bad-ground: #451d1b;
  --one: #5cc8bb; --two: #ff9861; --three: #a5a1ff; --four: #ee9bf5; } }
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--ground); color: var(--text); overflow-wrap: break-word;
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
main, header, footer { max-width: 62rem; margin: 0 auto; padding: 0 1.5rem; }
header { padding-top: 2.2rem; }
h1, h2, h3 { line-height: 1.2; font-weight: 600; text-wrap: balance; }
h1 { font-size: 1.9rem; margin: .2rem 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.25rem; margin: 0 0 .8rem; }
h3 { font-size: 1rem; margin: 1.6rem 0 .3rem; }
p, ul { margin: 0 0 1rem; max-width: 44rem; }
ul { padding-left: 1.15rem; } li { margin: .25rem 0; } li::marker { color: var(--quiet); }
.eyebrow { color: var(--quiet); font-size: .88rem; margin: 0; }
.lede { color: var(--quiet); margin-bottom: 1.4rem; }
.badge { background: var(--accent-ground); padding: .6rem .9rem; font-size: .9rem; max-width: none; border-radius: 8px; }
.badge.owner { background: var(--bad-ground); color: var(--bad); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(13rem, 1fr)); gap: .75rem; margin: 1.2rem 0; }
.tile { background: var(--surface); border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; }
.tile b { display: block; font-size: 1.5rem; line-height: 1.25; font-weight: 600; font-variant-numeric: lining-nums; }
.tile b.good { color: var(--good); } .tile b.bad { color: var(--bad); }
.tile span { display: block; color: var(--quiet); font-size: .85rem; line-height: 1.4; margin-top: .25rem; }
nav { font-size: .9rem; display: flex; flex-wrap: wrap; gap: .3rem 1.2rem; margin-bottom: 1rem; }
a { color: var(--accent); text-decoration-thickness: 1px; text-underline-offset: .2em; }
section { background: var(--surface); border: 1px solid var(--line); border-radius: 8px; padding: 1.1rem 1.2rem .4rem;
  margin-bottom: 1rem; }
section.private h2::after { content: "owner only"; font: 500 .8rem/1.4 system-ui, sans-serif;
  color: var(--warn); background: var(--warn-ground); border-radius: 20px; padding: .1rem .6rem;
  margin-left: .6rem; vertical-align: middle; }
.headline { font-size: 1.12rem; font-weight: 600; padding: .7rem 1rem; border-radius: 8px; max-width: none;
  background: var(--good-ground); color: var(--good); }
.headline.not-claimed { background: var(--bad-ground); color: var(--bad); }
li.marked { display: grid; grid-template-columns: 11.5rem 1fr; align-items: baseline; margin: .4rem 0 .4rem -1.15rem; }
ul:has(.marked) { max-width: 52rem; }
.mark { justify-self: start; font-size: .8rem; line-height: 1.4; padding: .05rem .6rem; border-radius: 20px; }
.mark.enforced { color: var(--good); background: var(--good-ground); } .mark.observed { background: var(--accent-ground); }
.mark.assumed { color: var(--warn); background: var(--warn-ground); }
.note { background: var(--warn-ground); color: var(--warn); padding: .6rem .9rem; border-radius: 8px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.5rem 2rem;
  margin: .6rem 0 1.2rem; }
figure { margin: 0; max-width: 27rem; } figure img { max-width: 100%; height: auto; }
figcaption, .caption { color: var(--quiet); font-size: .85rem; line-height: 1.4; margin-bottom: .3rem; }
svg { display: block; width: 100%; height: auto; font-size: 12.5px; font-variant-numeric: tabular-nums; }
svg text { fill: var(--quiet); } svg .title { fill: var(--text); font-weight: 600; font-size: 13.5px; }
svg .faint { font-size: 11.5px; paint-order: stroke; stroke: var(--surface); stroke-width: 4px; }
svg .amount { fill: var(--text); }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--quiet); }
svg .level { stroke: var(--quiet); stroke-dasharray: 4 4; }
svg polyline { fill: none; stroke-width: 2.2; stroke-linejoin: round; }
svg .c0 { stroke: var(--one); } svg .c1 { stroke: var(--two); } svg .c2 { stroke: var(--three); }
svg .c3 { stroke: var(--four); } svg .name { font-weight: 600; } svg .n0 { fill: var(--one); }
svg .n1 { fill: var(--two); } svg .n2 { fill: var(--three); } svg .n3 { fill: var(--four); }
svg circle { fill: var(--surface); stroke-width: 2; } svg .bar { fill: var(--one); }
.wide { overflow-x: auto; margin: 0 0 1rem; }
table { border-collapse: collapse; font-size: .92rem; line-height: 1.4; }
th, td { text-align: left; padding: .35rem 1.4rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--quiet); font-weight: 500; } .number { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font-family: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: .85em; }
code { overflow-wrap: anywhere; } pre { background: var(--raised); padding: 1rem; overflow-x: auto; border-radius: 6px;
  line-height: 1.5; margin: .6rem 0 1rem; } pre code { font-size: .82rem; overflow-wrap: normal; }
summary { cursor: pointer; color: var(--accent); font-size: .92rem; } details { margin-bottom: 1rem; }
details[open] summary { margin-bottom: .5rem; }
footer { color: var(--quiet); font-size: .82rem; padding-top: 1rem; padding-bottom: 3rem; }
footer p { max-width: none; border-top: 1px solid var(--line); padding-top: 1rem; }
@media (max-width: 40rem) { body { font-size: 1rem; } main, header, footer { padding-left: 1.1rem; padding-right: 1.1rem; }
  header { padding-top: 2rem; } li.marked { grid-template-columns: 1fr; gap: .2rem; margin-bottom: .8rem; }
  h1 { font-size: 1.5rem; } section { padding: 1rem .9rem .2rem; } }
@media print { :root { color-scheme: light; --ground: #ffffff; --surface: #ffffff; --raised: #eef2f2; --line: #d3dcdc;
  --text: #172122; --quiet: #4f6063; --accent: #00695f; --accent-ground: #d9efec; --good: #1c6b34; --good-ground: #ddf1e2;
  --warn: #855000; --warn-ground: #fbecd1; --bad: #a3231d; --bad-ground: #fbe1df;
  --one: #00796e; --two: #c2410c; --three: #4f46e5; --four: #a21caf; } body { font-size: 10.5pt; }
  section { border: 0; padding: 1rem 0 0; }
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
