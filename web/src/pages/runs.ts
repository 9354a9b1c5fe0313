// The table of runs: live, sorted, filtered, grouped; several chosen runs lead to their comparison.
import { get } from "../api";
import { h, put, type Child } from "../dom";
import { onChange } from "../live";
import type { RunRow, RunTable } from "../types";
import { ago, epsilonText, percent, short, whole } from "../words";

interface Column {
  name: string;
  label: string;
  number: boolean;
  value: (row: RunRow) => number | string | null;
  cell: (row: RunRow) => Child;
  wide?: boolean;
}

const STATES = ["running", "interrupted", "stopped", "not begun", "finished", "diverged", "damaged", "reading"];

export function stateMark(state: string): HTMLElement {
  return h("span", { class: `state state-${state.replace(" ", "-")}` }, state);
}

/** The accuracy that the table shows, whatever the run measures. */
export function headline(row: RunRow): { label: string; value: number } | null {
  for (const name of ["top1", "accuracy"]) {
    const value = row.metrics[name];
    if (value !== undefined) return { label: name, value };
  }
  return null;
}

function privacyCell(row: RunRow): Child {
  if (row.problem !== null) return h("span", { class: "problem small" }, row.problem);
  if (row.infinite_because.length > 0) return h("span", { title: row.infinite_because.join("; ") }, "∞");
  if (row.epsilon === null) return h("span", { class: "quiet" }, row.cost_known ? "–" : "…");
  return epsilonText(row.epsilon);
}

const COLUMNS: Column[] = [
  {
    name: "name",
    label: "Run",
    number: false,
    value: (row) => row.name,
    cell: (row) => h("a", { href: `/#/run/${row.key}`, title: row.folder }, row.name),
  },
  { name: "state", label: "State", number: false, value: (row) => STATES.indexOf(row.state), cell: (row) => stateMark(row.state) },
  {
    name: "rounds",
    label: "Rounds",
    number: true,
    value: (row) => row.rounds,
    cell: (row) => [whole(row.rounds), row.planned !== null && h("span", { class: "quiet" }, ` / ${whole(row.planned)}`)],
  },
  { name: "accuracy", label: "Accuracy", number: true, value: (row) => headline(row)?.value ?? null, cell: (row) => percent(headline(row)?.value) },
  { name: "perplexity", label: "Perplexity", number: true, value: (row) => row.metrics.perplexity ?? null, cell: (row) => short(row.metrics.perplexity), wide: true },
  {
    name: "epsilon",
    label: "ε",
    number: true,
    value: (row) => (row.infinite_because.length > 0 ? Infinity : row.epsilon),
    cell: privacyCell,
  },
  { name: "delta", label: "δ", number: true, value: (row) => row.delta, cell: (row) => (row.delta === null ? "–" : row.delta.toExponential(0)), wide: true },
  { name: "recipe", label: "Recipe", number: false, value: (row) => row.recipe, cell: (row) => row.recipe || "–" },
  { name: "created", label: "Started", number: true, value: (row) => Date.parse(row.created) || null, cell: (row) => h("span", { title: row.created }, ago(row.created)) },
];

const GROUPS: Record<string, (row: RunRow) => string> = {
  "not grouped": () => "",
  recipe: (row) => row.recipe || "no recipe",
  state: (row) => row.state,
  mechanism: (row) => row.mechanism || "none",
  folder: (row) => row.folder.split("/").slice(0, -1).join("/") || ".",
  ε: epsilonGroup,
  accuracy: (row) => (headline(row) === null ? "not measured" : `${10 * Math.floor(10 * headline(row)!.value)}% or more`),
  day: (row) => row.created.slice(0, 10) || "not known",
};

function epsilonGroup(row: RunRow): string {
  if (row.infinite_because.length > 0) return "ε is infinite";
  if (row.epsilon === null) return "ε is not known";
  const most = [1, 2, 4, 8, 16].find((each) => row.epsilon! <= each);
  return most === undefined ? "ε above 16" : `ε up to ${most}`;
}

/** Words of the search that compare: ε<4, accuracy>=20, rounds>100. */
const CONDITION = /^(ε|eps|epsilon|accuracy|perplexity|rounds)(<=|>=|<|>|=)(\d+(?:\.\d+)?)%?$/;

/** Whether the run has this word in its names, or fulfils this comparison. */
function matches(row: RunRow, word: string): boolean {
  const [, name, sign, number] = CONDITION.exec(word) ?? [];
  if (name === undefined) return `${row.name} ${row.folder} ${row.recipe} ${row.state} ${row.mechanism}`.toLowerCase().includes(word);
  const column = COLUMNS.find((each) => each.name === (name === "ε" || name === "eps" ? "epsilon" : name))!;
  const found = column.value(row);
  if (typeof found !== "number") return false;
  const value = name === "accuracy" ? 100 * found : found;
  const asked = Number(number);
  switch (sign) {
    case "<":
      return value < asked;
    case "<=":
      return value <= asked;
    case ">":
      return value > asked;
    case ">=":
      return value >= asked;
    default:
      return value === asked;
  }
}

/** The later of two states of a run. */
export function newer(row: RunRow, other: RunRow | null | undefined): RunRow {
  return other && other.version > row.version ? other : row;
}

export async function runsPage(main: HTMLElement, _parameters: string[], signal: AbortSignal): Promise<void> {
  const rows = new Map<string, RunRow>();
  const chosen = new Set<string>();
  // What changed since the table was asked for: it may be newer than the table, which arrives later.
  const changed = new Map<string, RunRow>();
  let sort = { column: "created", down: true };
  let folders: string[] = [];

  const find = h("input", { type: "search", id: "find", placeholder: "name, recipe, ε<4…", oninput: () => draw() });
  const state = h("select", { id: "state", onchange: () => draw() }, h("option", { value: "" }, "all"), STATES.map((each) => h("option", {}, each)));
  // A phone shows cards and no heads of columns, so it sorts by a choice.
  const order = h("select", { id: "order", onchange: () => ((sort = { column: order.value, down: COLUMNS.find((each) => each.name === order.value)?.number ?? false }), draw()) }, COLUMNS.map((each) => h("option", { value: each.name, selected: each.name === sort.column }, each.label)));
  const group = h("select", { id: "group", onchange: () => draw() }, Object.keys(GROUPS).map((each) => h("option", {}, each)));
  const compare = h("button", { class: "primary", disabled: true, onclick: () => (location.hash = `#/compare/${[...chosen].join("/")}`) }, "Compare");
  const count = h("p", { class: "quiet", role: "status" });
  const body = h("div", { class: "table-frame", role: "region", "aria-label": "Table of runs", tabindex: "0" });
  put(
    main,
    h("h1", {}, "Runs"),
    h(
      "div",
      { class: "tools" },
      field("Find", find),
      field("State", state),
      field("Group by", group),
      field("Sort by", order, "sort-phone"),
      compare,
    ),
    count,
    body,
  );

  async function load(isFirst = false): Promise<void> {
    changed.clear();
    const table = await get<RunTable>("/api/runs", signal);
    folders = table.folders;
    rows.clear();
    lines.clear(); // a board that was started again counts versions anew
    for (const row of table.runs) rows.set(row.key, newer(row, changed.get(row.key)));
    for (const [key, row] of changed) if (!rows.has(key)) rows.set(key, row);
    for (const key of chosen) if (!rows.has(key)) chosen.delete(key);
    if (isFirst && rows.size > FIRST_LINES) {
      draw(FIRST_LINES);
      await shownNow();
      if (signal.aborted) return;
    }
    drawAndLayOut();
  }

  function shownRows(): RunRow[] {
    const words = find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const column = COLUMNS.find((each) => each.name === sort.column) ?? COLUMNS[0]!;
    return [...rows.values()]
      .filter((row) => state.value === "" || row.state === state.value)
      .filter((row) => words.every((word) => matches(row, word)))
      .sort((one, other) => compareValues(column.value(one), column.value(other), sort.down) || one.name.localeCompare(other.name));
  }

  /** Draw the table, or only its first lines. */
  function draw(most = Infinity): void {
    const shown = shownRows();
    const groupOf = GROUPS[group.value] ?? (() => "");
    const groups = new Map<string, RunRow[]>();
    for (const row of shown.slice(0, most)) {
      const name = groupOf(row);
      groups.set(name, [...(groups.get(name) ?? []), row]);
    }
    put(count, rows.size === 0 ? "" : `${whole(shown.length)} of ${whole(rows.size)} runs`);
    compare.disabled = chosen.size < 2;
    compare.textContent = chosen.size === 0 ? "Compare" : `Compare ${chosen.size}`;
    if (rows.size === 0) {
      put(body, h("p", { class: "empty" }, `No runs in ${folders.join(", ")} yet: `, h("code", {}, "tacit train"), " makes one."));
      return;
    }
    const focused = document.activeElement instanceof HTMLElement && body.contains(document.activeElement) ? placeOf(document.activeElement) : null;
    put(
      body,
      h(
        "table",
        { class: "runs" },
        h("thead", {}, h("tr", {}, h("th", {}, h("span", { class: "hidden" }, "Chosen")), COLUMNS.map(head))),
        [...groups].map(([name, members]) =>
          h("tbody", {}, name !== "" && h("tr", { class: "group" }, h("th", { colspan: COLUMNS.length + 1, scope: "rowgroup" }, `${name} `, h("span", { class: "quiet" }, String(members.length)))), members.map(line)),
        ),
      ),
    );
    if (focused !== null) body.querySelector<HTMLElement>(focused)?.focus({ preventScroll: true });
  }

  /** Where to find this control of the table after it was drawn again. */
  function placeOf(control: HTMLElement): string | null {
    const row = control.closest<HTMLElement>("tr[data-key]")?.dataset.key;
    if (row !== undefined) return `tr[data-key="${row}"] ${control.tagName.toLowerCase()}`;
    return control.dataset.sort === undefined ? null : `[data-sort="${control.dataset.sort}"]`;
  }

  function head(column: Column): HTMLElement {
    const sorted = sort.column === column.name;
    const press = () => {
      sort = { column: column.name, down: sorted ? !sort.down : column.number };
      draw();
      body.querySelector<HTMLElement>(`[data-sort="${column.name}"]`)?.focus();
    };
    return h(
      "th",
      { scope: "col", class: `${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`, "aria-sort": sorted ? (sort.down ? "descending" : "ascending") : "none" },
      h("button", { class: "sort", "data-sort": column.name, onclick: press }, column.label, h("span", { "aria-hidden": "true", class: "arrow" }, sorted ? (sort.down ? " ↓" : " ↑") : "")),
    );
  }

  // A line whose run has not changed is used again, so that a thousand runs are drawn at once.
  const lines = new Map<string, { version: string; element: HTMLElement }>();
  function line(row: RunRow): HTMLElement {
    const version = `${row.version}/${row.state}/${ago(row.created)}`;
    const known = lines.get(row.key);
    if (known?.version === version) return known.element;
    const element = newLine(row);
    lines.set(row.key, { version, element });
    return element;
  }

  function newLine(row: RunRow): HTMLElement {
    const box = h("input", {
      type: "checkbox",
      "aria-label": `Choose ${row.name}`,
      checked: chosen.has(row.key),
      onchange: () => {
        if (box.checked) chosen.add(row.key);
        else chosen.delete(row.key);
        compare.disabled = chosen.size < 2;
        compare.textContent = chosen.size === 0 ? "Compare" : `Compare ${chosen.size}`;
      },
    });
    return h(
      "tr",
      { "data-key": row.key },
      h("td", {}, box),
      COLUMNS.map((column) => h("td", { class: `${column.number ? "number" : ""} ${column.wide ? "wide" : ""}`, "data-label": column.label }, column.cell(row))),
    );
  }

  let waiting = 0;
  let took = 0;
  const drawAndLayOut = () => {
    const began = performance.now();
    draw();
    void body.offsetHeight;
    took = performance.now() - began;
  };
  onChange((event) => {
    if (event.kind === "again") {
      void load().catch(() => undefined);
      return;
    }
    if (event.kind === "gone") {
      rows.delete(event.key);
      chosen.delete(event.key);
      changed.delete(event.key);
    } else {
      rows.set(event.row.key, event.row);
      changed.set(event.row.key, event.row);
    }
    // Many rows may change at once: the table is drawn once for all of them, and takes a tenth of the time at most.
    if (waiting === 0) waiting = window.setTimeout(() => ((waiting = 0), signal.aborted || drawAndLayOut()), Math.min(3000, Math.max(150, 10 * took)));
  }, signal);
  const minutes = window.setInterval(() => draw(), 60_000); // "5 min ago" goes on
  signal.addEventListener("abort", () => clearInterval(minutes));
  await load(true);
}

// What fits on no screen is drawn right after the first lines are on it: with a thousand runs, nobody waits for lines far below.
const FIRST_LINES = 100;

/** Wait until the browser has shown what was drawn; not for long, because it shows nothing in a tab that nobody sees. */
function shownNow(): Promise<void> {
  return new Promise((done) => {
    setTimeout(done, 200);
    requestAnimationFrame(() => setTimeout(done));
  });
}

function field(label: string, control: HTMLElement, more = ""): HTMLElement {
  return h("div", { class: `field ${more}` }, h("label", { for: control.id }, label), control);
}

function compareValues(one: number | string | null, other: number | string | null, down: boolean): number {
  if (one === null || other === null) return one === other ? 0 : one === null ? 1 : -1; // what is not known comes last
  const order = typeof one === "string" || typeof other === "string" ? String(one).localeCompare(String(other), "en", { numeric: true }) : one - other || 0;
  return down ? -order : order;
}
