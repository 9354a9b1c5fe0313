// The papers: the recorded experiments, each with its charts, its tables, and the commands that make it.
import { get } from "../api";
import { brief, lineChart, type Curve } from "../chart";
import { h, put } from "../dom";
import { tableOf } from "../sections";
import { percent, short } from "../words";

interface PaperCurve {
  name: string;
  points: [number, number][];
  dashed?: boolean;
  dots?: boolean;
  colour?: number;
  labels?: string[];
}

interface PaperChart {
  title: string;
  x: string;
  y: string;
  curves: PaperCurve[];
  percent?: boolean;
  log?: boolean;
  log_x?: boolean;
  from_zero?: boolean;
  note?: string;
}

interface Experiment {
  name: string;
  title: string;
  papers: string[];
  what: string;
  page: string;
  sources: string[];
  commands: string[];
  charts: PaperChart[];
  tables: { title: string; columns: string[]; rows: string[][] }[];
}

export async function papersPage(main: HTMLElement, [name]: string[], signal: AbortSignal): Promise<void> {
  const { experiments } = await get<{ experiments: Experiment[] }>("/api/papers", signal);
  if (name === undefined) return overview(main, experiments, signal);
  const found = experiments.find((each) => each.name === name);
  if (found === undefined) {
    put(main, h("h1", {}, "No such experiment"), h("p", {}, "Go to ", h("a", { href: "/#/papers" }, "the papers"), "."));
    return;
  }
  one(main, found, signal);
}

function overview(main: HTMLElement, experiments: Experiment[], signal: AbortSignal): void {
  const grid = h("div", { class: "grid" });
  put(
    main,
    h("h1", {}, "The papers"),
    h("p", { class: "quiet" }, "What was measured with Tacit on the papers' questions: one chart of each experiment. Its page has the others, the tables, the papers' own figures beside ours, and the commands. Every figure was recorded; nothing is computed here."),
    grid,
  );
  for (const each of experiments) {
    const card = h("section", { class: "card experiment" }, h("h2", {}, h("a", { href: `/#/papers/${each.name}` }, each.title)), each.papers.length > 0 && h("p", { class: "quiet small" }, each.papers.join("; ")));
    grid.append(card);
    draw(card, each.charts[0]!, signal);
  }
}

function one(main: HTMLElement, experiment: Experiment, signal: AbortSignal): void {
  document.title = `${experiment.title} · Tacit`;
  const grid = h("div", { class: "grid" });
  put(
    main,
    h("p", { class: "crumbs" }, h("a", { href: "/#/papers" }, "Papers"), " / ", experiment.title),
    h("h1", {}, experiment.title),
    h("p", {}, experiment.what),
    experiment.papers.length > 0 && h("p", { class: "quiet" }, `After ${experiment.papers.join("; ")}.`),
    grid,
    experiment.tables.map((table) => h("section", { class: "card" }, h("h2", {}, table.title), tableOf(table.columns, table.rows))),
    h(
      "section",
      { class: "card" },
      h("h2", {}, "How it was made"),
      h("pre", { tabindex: "0" }, experiment.commands.join("\n")),
      h("p", { class: "quiet small" }, "In a checkout. Figures from ", experiment.sources.join(", "), "; what they mean is in ", experiment.page, "."),
    ),
  );
  for (const chart of experiment.charts) draw(grid, chart, signal);
}

/** Draw a chart at the end of `place`. It is filled when it is as wide as it will be. */
function draw(place: HTMLElement, chart: PaperChart, signal: AbortSignal): void {
  const curves: Curve[] = chart.curves;
  const drawn = lineChart(
    {
      title: chart.title,
      x: chart.x,
      y: chart.y,
      format: chart.percent ? (value) => percent(value) : short,
      tick: chart.percent ? (value) => percent(value, 0) : brief,
      log: chart.log ?? false,
      logX: chart.log_x ?? false,
      fromZero: chart.from_zero ?? true,
      last: false,
      ...(chart.note ? { note: chart.note } : {}),
    },
    [],
    signal,
  );
  place.append(drawn.element);
  drawn.update(curves);
}
