// A run: what it is, its live curves, and what follows from it: guarantee, ledger, audit, suggestions, files.
import { get, post, sentenceOf } from "../api";
import { brief, lineChart, type Chart, type Curve } from "../chart";
import { h, put, type Child } from "../dom";
import { onChange } from "../live";
import { sectionCard, type Section } from "../sections";
import type { RunRow, RunTable } from "../types";
import { ago, duration, epsilonText, percent, short, whole } from "../words";
import { headline, newer, stateMark } from "./runs";
import { auditTab } from "./run/audit";
import { guaranteeTab } from "./run/guarantee";
import { ledgerTab } from "./run/ledger";
import { tryTab } from "./run/try";

interface Detail {
  row: RunRow;
  recipe_text: string;
  baselines: Record<string, unknown>;
  metrics: Record<string, unknown>;
  labels: Record<string, string>;
  shares: string[];
  notes: string[];
  examples: Record<string, [string, number][]>;
  sections: Section[];
  files: { name: string; bytes: number; what: string }[];
}

export interface Curves {
  records: Record<string, any>[];
  clipped: { round: number; clipped: number }[] | null;
  more: boolean;
}

export const SO_FAR = "epsilon_if_planned_to_end_here";
const TABS: [string, string][] = [
  ["curves", "Curves"],
  ["guarantee", "Guarantee"],
  ["ledger", "Ledger"],
  ["audit", "Audit"],
  ["try", "Try it"],
  ["files", "Recipe and files"],
];

/** What a metric is called on a chart. */
export function nameOf(metric: string, labels: Record<string, string> = {}): string {
  const known: Record<string, string> = { top1: "first suggestion right", top3: "among the first three", accuracy: "accuracy", perplexity: "perplexity", loss: "loss" };
  return labels[metric] ?? known[metric] ?? metric.replaceAll("_", " ");
}

export async function runPage(main: HTMLElement, [key = "", tab = "curves"]: string[], signal: AbortSignal): Promise<void> {
  const path = `/api/runs/${encodeURIComponent(key)}`;
  // A change may arrive before the answer that it is newer than.
  let latest: RunRow | null = null;
  let missed = false;
  onChange((event) => {
    if (event.kind === "run" && event.row.key === key) [latest, missed] = [event.row, true];
  }, signal);
  const [detail, table] = await Promise.all([get<Detail>(path, signal), get<RunTable>("/api/runs", signal)]);
  document.title = `${detail.row.name} · Tacit`;
  const about = h("div", {});
  const { bar, drawBar } = titleBar();
  const body = h("div", {});
  const gone = h("div", { role: "status" });
  put(
    main,
    h("p", { class: "crumbs" }, h("a", { href: "/#/runs" }, "Runs"), " / ", detail.row.name),
    bar,
    about,
    gone,
    h("nav", { class: "tabs", "aria-label": "Parts of the run" }, TABS.map(([name, label]) => h("a", { href: `/#/run/${key}/${name}`, "aria-current": name === tab ? "page" : null }, label))),
    body,
  );
  let row = newer(detail.row, latest);
  drawHead();
  let refresh: (() => void) | null = null;
  onChange((event) => {
    if (event.kind === "run" && event.row.key === key) {
      row = event.row;
      drawHead();
      refresh?.();
    } else if (event.kind === "gone" && event.key === key) {
      put(gone, h("p", { class: "problem" }, "The folder of this run is gone. What is shown is what it held."));
    } else if (event.kind === "again") {
      void get<Detail>(path, signal).then((found) => ((row = found.row), drawHead(), refresh?.()), () => undefined);
    }
  }, signal);

  if (tab === "curves") refresh = await curvesTab(body, path, detail, () => row, signal);
  else if (tab === "guarantee") await guaranteeTab(body, key, detail.row.folder, signal);
  else if (tab === "ledger") refresh = await ledgerTab(body, key, signal);
  else if (tab === "audit") await auditTab(body, key, detail.sections.filter((each) => each.name.includes("audit")), signal);
  else if (tab === "try") tryTab(body, key, row.kind, detail.examples, signal);
  else filesTab(body, path, detail);
  if (missed) (refresh as (() => void) | null)?.(); // what the tab asked for may be older

  function drawHead(): void {
    drawBar(row);
    put(about, facts(row), row.problem && h("p", { class: "problem", role: "alert" }, row.problem));
  }

  /** Name, state and buttons. The buttons stay the same while the run goes on, so that they keep the focus and what was said. */
  function titleBar(): { bar: HTMLElement; drawBar: (row: RunRow) => void } {
    const said = h("span", { class: "quiet small", role: "status" });
    const press = async (what: string) => {
      put(said, what === "stop" ? "Asking it to stop…" : "Starting a process that goes on with it…");
      try {
        put(said, (await post<{ said: string }>(`${path}/${what}`, {}, signal)).said);
      } catch (error) {
        if (!signal.aborted) put(said, sentenceOf(error));
      }
    };
    const state = h("span", {});
    const stop = h("button", { hidden: true, onclick: () => void press("stop") }, "Stop after this round");
    const resume = h("button", { hidden: true, onclick: () => void press("resume") }, "Resume");
    let before = "";
    return {
      bar: h("div", { class: "title" }, h("h1", {}, detail.row.name), state, stop, resume, said),
      drawBar: (row) => {
        if (row.state === before) return;
        if (before !== "") put(said); // what was said of the state before
        before = row.state;
        put(state, stateMark(row.state));
        stop.hidden = !(table.control && row.state === "running");
        resume.hidden = !(table.control && ["interrupted", "stopped"].includes(row.state));
      },
    };
  }
}

function facts(row: RunRow): HTMLElement {
  const fact = (name: string, value: Child, more?: Child) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value, more && h("small", {}, more)));
  const left = row.planned !== null ? row.planned - row.rounds : 0;
  const time = row.state === "running" ? (row.seconds_a_round !== null ? `about ${duration(left * row.seconds_a_round)} left, ${short(row.seconds_a_round)} s a round` : "measuring the time of a round") : row.created && `started ${ago(row.created)}`;
  const best = headline(row);
  const again = row.releases - row.rounds;
  return h(
    "div",
    {},
    h(
      "dl",
      { class: "facts" },
      fact("Rounds", [whole(row.rounds), row.planned !== null && ` of ${whole(row.planned)}`], time),
      fact("Accuracy on held-out users", percent(best?.value), row.metrics.perplexity !== undefined ? `perplexity ${short(row.metrics.perplexity)}` : "outside the guarantee"),
      fact(
        "Privacy",
        row.infinite_because.length > 0 ? "ε is infinite" : row.epsilon === null ? (row.problem !== null ? "not known" : row.cost_known ? "not known yet" : "computing ε…") : `ε = ${epsilonText(row.epsilon)}`,
        row.infinite_because.length > 0 ? row.infinite_because.join("; ") : row.delta !== null ? `at δ = ${row.delta.toExponential(0)}, for all planned rounds${again > 0 ? ` and ${again} further attempt${again === 1 ? "" : "s"}` : ""}` : undefined,
      ),
      fact("Recipe", row.recipe || "–", row.mechanism),
    ),
    row.planned !== null && row.planned > 0 && row.state === "running" && h("progress", { max: row.planned, value: row.rounds, "aria-label": `${row.rounds} of ${row.planned} rounds` }),
  );
}

async function curvesTab(body: HTMLElement, path: string, detail: Detail, row: () => RunRow, signal: AbortSignal): Promise<() => void> {
  let records: Record<string, any>[] = [];
  let clipped: Curves["clipped"] = null;
  const shares = new Set([...detail.shares, "accuracy"]);
  const charts = new Map<string, Chart>();
  const grid = h("div", { class: "grid" });
  put(body, grid, detail.notes.map((note) => h("p", { class: "quiet" }, note)), h("p", { class: "quiet small" }, "Accuracy is measured on held-out users, whom the guarantee does not cover. ε so far: as if the run had been planned to end with that round; the run costs the ε of all its planned rounds."));

  async function load(after: number): Promise<void> {
    let from = after;
    for (;;) {
      const found = await get<Curves>(`${path}/metrics?after=${from}`, signal);
      // A resumed run measures its rounds again: what was shown of them is replaced.
      const fresh = found.records[0]?.round ?? Infinity;
      records = [...records.filter((record) => record.round < fresh), ...found.records];
      if (found.clipped !== null) clipped = [...(clipped ?? []).filter((each) => each.round < (found.clipped![0]?.round ?? Infinity)), ...found.clipped];
      from = records.at(-1)?.round ?? from;
      if (!found.more) break;
    }
    draw();
  }

  function draw(): void {
    const of = (metric: string, name = nameOf(metric, detail.labels)): Curve => ({ name, points: records.map((record) => [record.round, typeof record[metric] === "number" ? record[metric] : null]) });
    const measured = (metric: string) => records.some((record) => typeof record[metric] === "number");
    const accuracies = ["top1", "top3", "accuracy"].filter(measured);
    chart("Accuracy", accuracies.map((metric) => of(metric)), { format: (value) => percent(value), tick: (value) => percent(value, 0), fromZero: true, empty: "Accuracy has not been measured yet." });
    const rest = records.length === 0 ? ["perplexity"] : Object.keys(records.at(-1)!).filter((metric) => measured(metric) && !shares.has(metric) && !["round", "words", SO_FAR].includes(metric));
    for (const metric of rest.slice(0, 4)) chart(nameOf(metric, detail.labels)[0]!.toUpperCase() + nameOf(metric, detail.labels).slice(1), [of(metric)], metric === "perplexity" ? { log: true, tick: brief } : { tick: brief });
    const total = row().epsilon;
    const ends = [records[0]?.round, records.at(-1)?.round].filter((each) => each !== undefined);
    chart("ε so far", measured(SO_FAR) ? [of(SO_FAR, "ε if the run had been planned to end here"), ...(total !== null ? [{ name: "ε of the run", points: ends.map((round) => [round, total] as [number, number]), dashed: true }] : [])] : [], {
      format: epsilonText,
      fromZero: true,
      tick: short,
      empty: row().infinite_because.length > 0 ? `ε is infinite: ${row().infinite_because.join("; ")}.` : "No round has been measured yet.",
    });
    if (clipped !== null) chart("Clipped share", [{ name: "share of users whose update was clipped", points: clipped.map((each) => [each.round, each.clipped]), colour: 1 }], { format: (value) => percent(value), tick: (value) => percent(value, 0), fromZero: true, mark: "owner only" });
  }

  function chart(title: string, curves: Curve[], options: Partial<Parameters<typeof lineChart>[0]>): void {
    const known = charts.get(title);
    if (known !== undefined) {
      known.update(curves);
      return;
    }
    const made = lineChart({ title, x: "round", group: "run", ...options }, [], signal);
    charts.set(title, made);
    grid.append(made.element);
    made.update(curves); // now that it is as wide as it will be
  }

  let busy = false;
  let again = false;
  async function refresh(): Promise<void> {
    if (busy) {
      again = true;
      return;
    }
    busy = true;
    try {
      // The last round is asked for again, because a resumed run may have measured it anew.
      const last = records.at(-1)?.round ?? 0;
      await load(row().rounds < last ? 0 : Math.max(0, last - 1));
    } catch {
      // The next change asks again; the status line says when the board is gone.
    }
    busy = false;
    if (again) {
      again = false;
      void refresh();
    }
  }
  try {
    await load(0);
  } catch (error) {
    if (!signal.aborted) put(grid, h("p", { class: "problem", role: "alert" }, sentenceOf(error)));
  }
  const others = detail.sections.filter((each) => !each.name.includes("audit"));
  body.append(...others.map((section) => sectionCard(section, signal)));
  return () => void refresh();
}

function filesTab(body: HTMLElement, path: string, detail: Detail): void {
  const size = (bytes: number) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${(bytes / 1e3).toFixed(1)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);
  put(
    body,
    h(
      "section",
      { class: "card" },
      h("h2", {}, "Files that anybody may have"),
      h(
        "div",
        { class: "table-frame", tabindex: "0", role: "region", "aria-label": "Files" },
        h(
          "table",
          { class: "stack" },
          h("thead", {}, h("tr", {}, ["file", "size", "what it is"].map((each) => h("th", { scope: "col", class: each === "size" ? "number" : "" }, each)))),
          h("tbody", {}, detail.files.map((file) => h("tr", {}, h("td", {}, h("a", { href: `${path}/file?name=${encodeURIComponent(file.name)}`, download: file.name.split("/").at(-1)! }, file.name)), h("td", { class: "number" }, size(file.bytes)), h("td", {}, file.what)))),
        ),
      ),
      h("p", { class: "quiet small" }, "The run's private folder is for its owner, and no page of the board leads to it."),
    ),
    h("section", { class: "card" }, h("h2", {}, "Recipe"), h("pre", { tabindex: "0" }, detail.recipe_text)),
  );
}
