// Several runs side by side: their curves, where their recipes differ, and what they cost together.
import { get } from "../api";
import { brief, lineChart, type Chart, type Curve } from "../chart";
import { h, put } from "../dom";
import { onChange } from "../live";
import { tableOf } from "../sections";
import type { RunRow } from "../types";
import { epsilonText, percent, short, whole } from "../words";
import { nameOf, SO_FAR, type Curves } from "./run";
import { headline } from "./runs";

const AGAIN_MS = 1_500;

interface Together {
  epsilon: number | null;
  delta: number | null;
  rho: number | null;
  accountant: string | null;
  adjacency: string | null;
  reasons_not_private: string[];
  assumptions: string[];
  problem: string | null;
}

interface Comparison {
  runs: RunRow[];
  differences: Record<string, unknown[]>;
  planned_together: Together;
  one_after_another: Together;
}

export async function comparePage(main: HTMLElement, keys: string[], signal: AbortSignal): Promise<void> {
  put(main, h("h1", {}, "Compare runs"), h("p", { class: "quiet" }, "Computing what they cost together…"));
  if (keys.length < 2) {
    put(main, h("h1", {}, "Compare runs"), h("p", {}, "Choose two or more runs in ", h("a", { href: "/#/runs" }, "the table"), "."));
    return;
  }
  const query = keys.map((key) => `key=${encodeURIComponent(key)}`).join("&");
  const [found, ...curves] = await Promise.all([
    get<Comparison>(`/api/compare?${query}`, signal),
    ...keys.map((key) => get<Curves>(`/api/runs/${encodeURIComponent(key)}/metrics`, signal)),
  ]);
  const grid = h("div", { class: "grid" });
  const differs = h("div", {}, differences(found));
  const charts = new Map<string, Chart>();
  put(
    main,
    h("p", { class: "crumbs" }, h("a", { href: "/#/runs" }, "Runs"), " / compare"),
    h("h1", {}, `Compare ${found.runs.length} runs`),
    grid,
    h("section", { class: "card" }, h("h2", {}, "Where they differ"), differs),
    h("section", { class: "card", id: "together" }, h("h2", {}, "What they cost together"), h("p", { class: "quiet" }, "For a person who was in all of them."), together(found)),
  );
  const metrics: [string, (value: number) => string][] = [
    ["top1", percent],
    ["accuracy", percent],
    ["perplexity", short],
    [SO_FAR, epsilonText],
  ];
  draw();
  follow();

  function draw(): void {
    for (const [metric, format] of metrics) {
      const lines: Curve[] = found.runs.map((run, place) => ({
        name: run.name,
        colour: place,
        dashed: place > 5,
        points: (curves[place]?.records ?? []).map((record) => [record.round, typeof record[metric] === "number" ? record[metric] : null]),
      }));
      const measured = lines.filter((line) => line.points.some((point) => point[1] !== null));
      if (measured.length === 0) continue;
      const title = metric === SO_FAR ? "ε so far" : nameOf(metric)[0]!.toUpperCase() + nameOf(metric).slice(1);
      let chart = charts.get(metric);
      if (chart === undefined) {
        const infinite = found.runs.filter((run) => run.infinite_because.length > 0).map((run) => run.name);
        const note = metric === SO_FAR && infinite.length > 0 ? { note: `ε is infinite: ${infinite.join(", ")}.` } : {};
        chart = lineChart({ title, ...note, x: "round", format, group: "compare", fromZero: metric !== "perplexity", log: metric === "perplexity", tick: metric === "perplexity" ? brief : metric === SO_FAR ? short : (value) => percent(value, 0) }, [], signal);
        charts.set(metric, chart);
        grid.append(chart.element);
      }
      chart.update(measured);
    }
  }

  /** Runs that go on have their curves and figures drawn again. Their cost is that of the planned rounds, and stays. */
  function follow(): void {
    const changed = new Set<number>();
    let waiting = 0;
    onChange((event) => {
      if (event.kind === "gone") return;
      for (const [place, run] of found.runs.entries()) {
        if (event.kind === "run" && event.row.key !== run.key) continue;
        if (event.kind === "run") found.runs[place] = event.row;
        changed.add(place);
      }
      if (changed.size > 0 && waiting === 0) waiting = window.setTimeout(() => ((waiting = 0), void again()), AGAIN_MS);
    }, signal);
    async function again(): Promise<void> {
      const places = [...changed];
      changed.clear();
      try {
        for (const place of places) curves[place] = await get<Curves>(`/api/runs/${encodeURIComponent(found.runs[place]!.key)}/metrics`, signal);
      } catch {
        return; // the status line says when the board is gone
      }
      put(differs, differences(found));
      draw();
    }
  }
}

function differences(found: Comparison): HTMLElement {
  const cell = (value: unknown) => (value === null || value === undefined ? "–" : typeof value === "string" ? value : JSON.stringify(value));
  const facts: [string, string[]][] = [
    ["state", found.runs.map((run) => run.state)],
    ["rounds", found.runs.map((run) => whole(run.rounds))],
    ["accuracy", found.runs.map((run) => percent(headline(run)?.value))],
    ["epsilon", found.runs.map((run) => (run.infinite_because.length > 0 ? "∞" : epsilonText(run.epsilon)))],
  ];
  const rows = [...facts, ...Object.entries(found.differences).map(([name, values]): [string, string[]] => [name, values.map(cell)])];
  return tableOf(["what", ...found.runs.map((run) => run.name)], rows.map(([name, values]) => [name, ...values]));
}

function together(found: Comparison): HTMLElement {
  const line = (title: string, what: string, cost: Together) =>
    h(
      "div",
      { class: "fact" },
      h("dt", {}, title),
      h(
        "dd",
        {},
        cost.problem !== null || cost.delta === null ? "not known" : cost.epsilon === null ? "ε is infinite" : `ε = ${epsilonText(cost.epsilon)}`,
        h("small", {}, cost.problem ?? (cost.epsilon === null ? cost.reasons_not_private.join("; ") : `at δ = ${cost.delta!.toExponential(0)}; ${what}`)),
      ),
    );
  return h(
    "div",
    {},
    h("dl", { class: "facts" }, line("If all were planned together", "none was chosen by looking at another", found.planned_together), line("If later ones were chosen by looking at earlier ones", "an odometer's bound", found.one_after_another)),
    h("details", { class: "small" }, h("summary", {}, "What this rests on"), h("ul", {}, found.one_after_another.assumptions.map((each) => h("li", {}, each)))),
  );
}
