// Sections of a report as elements: what an audit, a gate or an inspection has to show (tacit/runs/report/blocks.py).
import { lineChart } from "./chart";
import { h, s, type Child } from "./dom";
import { picture } from "./picture";
import { percent, short } from "./words";

export type Block =
  | { kind: "paragraph"; text: string; note: boolean }
  | { kind: "table"; columns: string[]; rows: string[][]; caption: string; folded: boolean }
  | { kind: "code"; text: string; caption: string; folded: boolean }
  | { kind: "lines"; x: string; y: string; series: { name: string; points: [number, number][] }[]; levels: { name: string; y: number }[]; percent: boolean; log: boolean; caption: string }
  | { kind: "bars"; x: string; y: string; bars: [string, number][]; caption: string }
  | { kind: "image"; media: string; data: string; description: string; caption: string };

export interface Section {
  name: string;
  title: string;
  blocks: Block[];
}

/** How far the axes of charts reach, by what they show: charts of the same quantity, of one run or of several, have one scale. */
export type Reach = Map<string, number>;

/** The section as a card. `reach`: how far the axes go at least. */
export function sectionCard(section: Section, signal: AbortSignal, reach: Reach = new Map()): HTMLElement {
  return h("section", { class: "card" }, h("h2", {}, section.title), section.blocks.map((block) => blockOf(block, signal, reach)));
}

/** How far the charts of these sections reach. */
export function reachOf(sections: Section[]): Reach {
  const found: Reach = new Map();
  for (const block of sections.flatMap((section) => section.blocks)) {
    const values = block.kind === "bars" ? block.bars.map((bar) => bar[1]) : block.kind === "lines" ? block.series.flatMap((each) => each.points.map((point) => point[1])) : [];
    if (block.kind === "bars" || block.kind === "lines") found.set(scaleOf(block), Math.max(found.get(scaleOf(block)) ?? -Infinity, ...values));
  }
  return found;
}

function scaleOf(block: Extract<Block, { kind: "lines" | "bars" }>): string {
  return block.caption || block.y;
}

function titleOf(block: Extract<Block, { kind: "lines" | "bars" }>): string {
  const title = block.caption || `${block.y}, by ${block.x}`;
  return title.charAt(0).toUpperCase() + title.slice(1);
}

function blockOf(block: Block, signal: AbortSignal, reach: Reach): Child {
  switch (block.kind) {
    case "paragraph":
      return h("p", { class: block.note ? "note" : "" }, block.text);
    case "table":
      return folded(block, tableOf(block.columns, block.rows, block.folded ? "" : block.caption));
    case "code":
      return folded(block, h("pre", { tabindex: "0" }, block.text));
    case "lines":
      return curves(block, signal, reach.get(scaleOf(block)));
    case "bars":
      return barsOf(block.bars, titleOf(block), signal, reach.get(scaleOf(block)));
    case "image":
      return h("figure", {}, h("img", { class: "section-image", alt: block.description, src: `data:${block.media};base64,${block.data}` }), block.caption && h("figcaption", { class: "quiet small" }, block.caption));
  }
}

function folded(block: { caption: string; folded: boolean }, inner: HTMLElement): HTMLElement {
  return block.folded ? h("details", {}, h("summary", {}, block.caption || "More"), inner) : inner;
}

/** A table of text; a column whose cells all look like numbers is set flush right. `stack`: on a phone a row is a card. */
export function tableOf(columns: string[], rows: string[][], caption = "", stack = false): HTMLElement {
  const numbers = columns.map((_, place) => rows.length > 0 && rows.every((row) => /^$|^[-–+~<>∞]?\d|^∞$|^–$/.test(row[place] ?? "")));
  const side = (place: number) => (numbers[place] ? "number" : "");
  return h(
    "div",
    { class: `table-frame${columns.length < 4 ? " few" : ""}`, tabindex: "0", role: "group", "aria-label": caption || `Table: ${columns.join(", ")}` },
    h(
      "table",
      { class: stack ? "stack" : null },
      caption && h("caption", { class: "quiet small" }, caption),
      h("thead", {}, h("tr", {}, columns.map((column, place) => h("th", { scope: "col", class: side(place) }, column)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, place) => h("td", { class: side(place) }, cell))))),
    ),
  );
}

function curves(block: Extract<Block, { kind: "lines" }>, signal: AbortSignal, reach: number | undefined): HTMLElement {
  const xs = block.series.flatMap((each) => each.points.map((point) => point[0]));
  const ends = [Math.min(...xs), Math.max(...xs)];
  return lineChart(
    { title: titleOf(block), ...(reach === undefined ? {} : { reach }), x: block.x, y: block.y, log: block.log, fromZero: !block.log, format: block.percent ? (value) => percent(value) : short },
    [
      ...block.series,
      ...block.levels.map((level) => ({ name: level.name, points: ends.map((x) => [x, level.y] as [number, number]), dashed: true })),
    ],
    signal,
  ).element;
}

/** Bars with their labels below, for a histogram. */
function barsOf(bars: [string, number][], title: string, signal: AbortSignal, reach = 0): HTMLElement {
  const height = 190;
  const most = Math.max(...bars.map((bar) => bar[1]), reach, 1e-12);
  const draw = (width: number) => {
    const step = (width - 20) / bars.length;
    const every = Math.ceil(bars.length / Math.max(2, width / 55));
    return s(
      "svg",
      { class: "picture", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${title}: ${bars.map((bar) => `${bar[0]} ${short(bar[1])}`).join(", ")}` },
      bars.map(([label, value], place) => {
        const tall = (value / most) * (height - 50);
        const x = 10 + place * step;
        return s(
          "g",
          {},
          s("rect", { class: "bar-mark", x: x + step * 0.1, y: height - 24 - tall, width: step * 0.8, height: Math.max(tall, value > 0 ? 1 : 0), rx: 2 }, s("title", {}, `${label}: ${short(value)}`)),
          place % every === 0 && s("text", { x: x + step / 2, y: height - 8, "text-anchor": "middle", class: "faint" }, label.length > 11 ? `${label.slice(0, 10)}…` : label),
          step > 40 && s("text", { x: x + step / 2, y: height - 30 - tall, "text-anchor": "middle" }, short(value)),
        );
      }),
    );
  };
  return h("figure", {}, h("figcaption", { class: "quiet small" }, title), picture(draw, signal));
}
