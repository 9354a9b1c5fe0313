// Inspections: made-up words, sentences and images, a healthy run and a faulty one side by side.
import { get, sentenceOf } from "../api";
import { h, put } from "../dom";
import { reachOf, sectionCard, type Section } from "../sections";
import type { RunRow, RunTable } from "../types";
import { stateMark } from "./runs";

interface Detail {
  row: RunRow;
  sections: Section[];
}

const NONE = "";
const KINDS = ["text", "bias", "images"];

export async function inspectPage(main: HTMLElement, [left, right]: string[], signal: AbortSignal): Promise<void> {
  const table = await get<RunTable>("/api/runs", signal);
  const runs = table.runs.filter((row) => KINDS.includes(row.kind)).sort((one, other) => one.name.localeCompare(other.name, "en", { numeric: true }));
  const known = new Set(runs.map((row) => row.key));
  // By default two of one kind, so that there is something to compare.
  const asked = runs.find((row) => row.key === left);
  const alike = asked && [asked, ...runs.filter((row) => row.kind === asked.kind && row.key !== asked.key)];
  const pair = alike ?? KINDS.map((kind) => runs.filter((row) => row.kind === kind)).find((each) => each.length > 1) ?? runs.slice(0, 1);
  const chosen = [left, right].map((key, place) => (key === undefined ? pair[place]?.key ?? NONE : known.has(key) ? key : NONE));
  const sides = [h("div", {}), h("div", {})];
  const details: (Detail | null)[] = [null, null];
  let charts = new AbortController();
  signal.addEventListener("abort", () => charts.abort());
  put(
    main,
    h("h1", {}, "Inspect"),
    h("p", { class: "quiet" }, "A private model makes up words, sentences or images like those of the users, so that a fault shows without anybody looking at data. Put a healthy run beside a faulty one."),
    runs.length === 0
      ? h("p", { class: "card" }, "No inspections in ", table.folders.join(", "), " yet: ", h("code", {}, "tacit inspect text"), ", ", h("code", {}, "tacit inspect bias"), " or ", h("code", {}, "tacit inspect images"), " makes one.")
      : h("div", { class: "sides" }, sides.map((side, place) => h("div", { class: "side" }, picker(place), side))),
  );
  if (runs.length > 0) await Promise.all([show(0), show(1)]);

  function picker(place: number): HTMLElement {
    const select = h(
      "select",
      {
        id: `side-${place}`,
        onchange: () => {
          chosen[place] = select.value;
          history.replaceState(null, "", `#/inspect/${chosen[0] || "none"}/${chosen[1] || "none"}`);
          void show(place);
        },
      },
      h("option", { value: NONE }, "nothing"),
      runs.map((row) => h("option", { value: row.key, selected: row.key === chosen[place] }, `${row.name} (${row.kind})`)),
    );
    return h("div", { class: "field" }, h("label", { for: select.id }, place === 0 ? "On the left" : "On the right"), select);
  }

  async function show(place: number): Promise<void> {
    const key = chosen[place];
    let found: Detail | null = null;
    let problem: unknown;
    try {
      found = key ? await get<Detail>(`/api/runs/${encodeURIComponent(key)}`, signal) : null;
    } catch (error) {
      problem = error;
    }
    if (signal.aborted || chosen[place] !== key) return;
    details[place] = found;
    draw();
    if (problem !== undefined) put(sides[place]!, h("p", { class: "problem", role: "alert" }, sentenceOf(problem)));
  }

  /** Both sides: a chart of one has the scale of the same chart of the other. */
  function draw(): void {
    const before = charts;
    charts = new AbortController();
    const made = details.map((detail) => detail?.sections.filter((section) => section.name.startsWith("inspection")) ?? []);
    const reach = reachOf(made.flat());
    for (const [place, side] of sides.entries()) {
      const detail = details[place];
      if (!detail) {
        put(side);
        continue;
      }
      put(
        side,
        h("p", {}, h("a", { href: `/#/run/${detail.row.key}` }, detail.row.name), " ", stateMark(detail.row.state)),
        made[place]!.map((section) => sectionCard(section, charts.signal, reach)),
        made[place]!.length === 0 && h("p", { class: "note" }, detail.row.state === "finished" ? "What this inspection made up is for its owner alone, because no privacy is claimed for it: tacit report shows it." : "This inspection has made up nothing yet."),
      );
    }
    before.abort();
  }
}
