// Several runs side by side: their curves, where their recipes differ, and what they cost together.
import { get } from "../api";
import { brief, lineChart, type Curve } from "../chart";
import { h, put } from "../dom";
import { tableOf } from "../sections";
import type { RunRow } from "../types";
import { epsilonText, percent, short, whole } from "../words";
import { nameOf, SO_FAR, type Curves } from "./run";
import { headline } from "./runs";

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
  put(
    main,
    h("p", { class: "crumbs" }, h("a", { href: "/#/runs" }, "Runs"), " / compare"),
    h("h1", {}, `Compare ${found.runs.length} runs`),
    h("section", { class: "card" }, h("h2", {}, "Where they differ"), differences(found)),
    grid,
    h("section", { class: "card", id: "together" }, h("h2", {}, "What they cost together"), h("p", { class: "quiet" }, "For a person who was in all of them."), together(found)),
  );
  const metrics: [string, (value: number) => string][] = [
    ["top1", percent],
    ["accuracy", percent],
    ["perplexity", short],
    [SO_FAR, epsilonText],
  ];
  for (const [metric, format] of metrics) {
    const lines: Curve[] = found.runs.map((run, place) => ({
      name: run.name,
      colour: place,
      dashed: place > 5,
      points: (curves[place]?.records ?? []).map((record) => [record.round, typeof record[metric] === "number" ? record[metric] : null]),
    }));
    if (!lines.some((line) => line.points.some((point) => point[1] !== null))) continue;
    const title = metric === SO_FAR ? "ε so far" : nameOf(metric)[0]!.toUpperCase() + nameOf(metric).slice(1);
    const chart = lineChart({ title, x: "round", format, group: "compare", fromZero: metric !== "perplexity", log: metric === "perplexity", tick: metric === "perplexity" ? brief : metric === SO_FAR ? short : (value) => percent(value, 0) }, [], signal);
    grid.append(chart.element);
    chart.update(lines);
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
