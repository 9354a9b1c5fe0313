// The planner: sliders on one side; epsilon, noise, days and MinS on the other, with the curves around the recommended row.
import { get, sentenceOf } from "../api";
import { lineChart, type Curve } from "../chart";
import { h, put, type Child } from "../dom";
import { epsilonText, short, whole } from "../words";

interface Row {
  mechanism: string;
  report_goal: number;
  noise_multiplier: number;
  noise_on_mean: number;
  min_separation: number | null;
  max_participation: number | null;
  capped: boolean;
  timer_in_hours: number | null;
  days: number | null;
  prefix_error: number;
  rho: number | null;
  epsilon: number | null;
  meets_target: boolean | null;
}

interface Plan {
  epsilon: number | null;
  delta: number;
  rho: number | null;
  adjacency: string;
  accountant: string;
  assumptions: string[];
  target: { epsilon: number } | null;
  recommended: Row;
  why: string;
  notes: string[];
  rows: Row[];
}

interface PlanCurve {
  name: string;
  own: boolean;
  points: [number, number | null][];
}

interface Picture {
  mechanism: string;
  by_mechanism: PlanCurve[];
  by_population: PlanCurve[];
  by_rounds: PlanCurve[];
}

interface Setting {
  name: string;
  label: string;
  low: number;
  high: number;
  value: number;
  whole?: boolean;
  help: string;
  /** Left out of the question when it is not used. */
  optional?: boolean;
}

const SETTINGS: Setting[] = [
  { name: "population", label: "Population", low: 100, high: 100_000_000, value: 1_000_000, whole: true, help: "how many users there are: a public estimate" },
  { name: "devices_per_round", label: "Report goal, at most", low: 1, high: 50_000, value: 6_500, whole: true, help: "how many reports a round can gather" },
  { name: "rounds", label: "Rounds", low: 1, high: 5_000, value: 1_500, whole: true, help: "how many rounds of training" },
  { name: "epsilon", label: "Target ε", low: 0.1, high: 50, value: 8, help: "the epsilon to stay at or below" },
  { name: "delta", label: "δ", low: 1e-12, high: 1e-4, value: 1e-10, help: "smaller than one over the population" },
  { name: "round_minutes", label: "Minutes a round", low: 1, high: 600, value: 20, help: "how long a round takes at least; gives the days", optional: true },
  { name: "noise_on_mean", label: "Noise that training endures", low: 1e-5, high: 0.1, value: 0.001, help: "noise multiplier / report goal with which a simulation learned well", optional: true },
];
const MECHANISMS: [string, string][] = [
  ["tree", "tree"],
  ["blt", "blt (buffered Toeplitz)"],
  ["gaussian", "gaussian (fresh noise)"],
  ["poisson", "poisson (sampled users)"],
];

export function planPage(main: HTMLElement, _parameters: string[], signal: AbortSignal): void {
  const values = new Map<string, number>(SETTINGS.map((setting) => [setting.name, setting.value]));
  const used = new Set<string>(SETTINGS.filter((setting) => !setting.optional || setting.name === "round_minutes").map((setting) => setting.name));
  const mechanisms = new Set(["tree", "blt", "gaussian", "poisson"]);
  const invalid = new Set<string>();
  let sampling = false;
  const answer = h("div", { class: "plan-answer", "aria-live": "polite" });
  const why = h("div", {});
  const picture = h("div", {});
  const rows = h("div", {});
  put(
    main,
    h("h1", {}, "Plan a guarantee"),
    h("p", { class: "quiet" }, "What a fleet would have to do for a guarantee, before anybody trains. Nothing is read for it; tacit plan gives the same numbers."),
    h(
      "div",
      { class: "planner" },
      h("form", { class: "card", onsubmit: (event: Event) => event.preventDefault() }, SETTINGS.map(slider), checks(), h("label", { class: "small" }, h("input", { type: "checkbox", onchange: (event: Event) => ((sampling = (event.target as HTMLInputElement).checked), ask()) }), " Rounds can draw users uniformly and in secret")),
      answer,
      h("div", {}, why, picture, rows),
    ),
  );

  function slider(setting: Setting): HTMLElement {
    const steps = 1000;
    const toPlace = (value: number) => Math.round((Math.log(value / setting.low) / Math.log(setting.high / setting.low)) * steps);
    const toValue = (place: number) => round(setting.low * (setting.high / setting.low) ** (place / steps), setting.whole ?? false);
    const number = h("input", { type: "number", id: `plan-${setting.name}`, value: setting.value, step: "any", min: 0, disabled: !used.has(setting.name), "aria-describedby": `help-${setting.name}`, oninput: () => take(Number(number.value), false) });
    const range = h("input", { type: "range", min: 0, max: steps, value: toPlace(setting.value), disabled: !used.has(setting.name), "aria-label": `${setting.label}, slider`, oninput: () => take(toValue(Number(range.value)), true) });
    range.setAttribute("aria-valuetext", short(setting.value));

    function take(value: number, moved: boolean): void {
      const wrong = !Number.isFinite(value) || value <= 0;
      number.setAttribute("aria-invalid", String(wrong));
      if (wrong) invalid.add(setting.label);
      else {
        invalid.delete(setting.label);
        values.set(setting.name, value);
      }
      if (wrong) return ask();
      if (moved) number.value = String(value);
      else range.value = String(Math.min(steps, Math.max(0, toPlace(value))));
      range.setAttribute("aria-valuetext", short(value));
      ask();
    }

    const toggle = setting.optional
      ? h("input", {
          type: "checkbox",
          checked: used.has(setting.name),
          "aria-label": `Use: ${setting.label}`,
          onchange: () => {
            number.disabled = range.disabled = !toggle!.checked;
            if (toggle!.checked) {
              used.add(setting.name);
              take(Number(number.value), false);
            } else {
              used.delete(setting.name);
              invalid.delete(setting.label);
              ask();
            }
          },
        })
      : null;
    return h("div", { class: "slider" }, h("div", { class: "row" }, h("span", {}, toggle, toggle && " ", h("label", { for: `plan-${setting.name}` }, setting.label)), number), range, h("div", { class: "quiet small", id: `help-${setting.name}` }, setting.help));
  }

  function checks(): HTMLElement {
    return h(
      "fieldset",
      { class: "checks" },
      h("legend", {}, "Mechanisms"),
      MECHANISMS.map(([name, label]) => {
        const box = h("input", {
          type: "checkbox",
          checked: true,
          onchange: () => {
            if (box.checked) mechanisms.add(name);
            else mechanisms.delete(name);
            ask();
          },
        });
        return h("label", {}, box, ` ${label}`);
      }),
    );
  }

  function query(): string {
    const asked = new URLSearchParams();
    for (const setting of SETTINGS) if (used.has(setting.name)) asked.set(setting.name, String(values.get(setting.name)));
    for (const [name] of MECHANISMS) if (mechanisms.has(name)) asked.append("mechanism", name);
    if (sampling) asked.set("uniform_sampling", "true");
    return asked.toString();
  }

  // One question at a time: while an answer is computed, only the newest of the waiting ones is kept.
  let waiting = 0;
  let busy = false;
  let missed = false;
  function ask(): void {
    clearTimeout(waiting);
    waiting = window.setTimeout(() => void asked(), 150);
  }
  async function asked(): Promise<void> {
    if (busy) {
      missed = true;
      return;
    }
    if (invalid.size > 0) {
      refuse(`${[...invalid].join(", ")}: give a number above 0.`);
      drawn++;
      return;
    }
    busy = true;
    answer.classList.add("busy");
    const question = query();
    try {
      const found = await get<Plan>(`/api/plan?${question}`, signal);
      if (invalid.size === 0) {
        put(answer, factsOf(found));
        put(why, reasonOf(found));
        put(rows, rowsOf(found), notesOf(found, command(question)));
      }
      void draw(question, found);
    } catch (error) {
      if (!signal.aborted) refuse(plain(sentenceOf(error)));
    }
    answer.classList.remove("busy");
    busy = false;
    if (missed) {
      missed = false;
      void asked();
    }
  }

  function refuse(sentence: string): void {
    put(answer, h("p", { class: "problem", role: "alert" }, sentence));
    for (const each of [why, picture, rows]) put(each);
  }

  let drawn = 0;
  let charts = new AbortController();
  async function draw(question: string, plan: Plan): Promise<void> {
    const number = ++drawn;
    picture.classList.add("busy");
    // The curves take longer than the answer, so they wait until the sliders rest.
    await new Promise((resolve) => window.setTimeout(resolve, 400));
    if (number !== drawn || signal.aborted) return;
    try {
      const found = await get<Picture>(`/api/plan/picture?${question}`, signal);
      if (number !== drawn) return;
      charts.abort();
      charts = new AbortController();
      const row = plan.recommended;
      const grid = h("div", { class: "grid three" });
      put(picture, grid);
      const add = (title: string, curves: PlanCurve[], level: Curve[], format: (value: number) => string, dot?: [number, number]) => {
        const chart = lineChart({ title, x: "report goal", format, tick: short, log: true, logX: true, ...(dot ? { dot } : {}) }, [], charts.signal);
        grid.append(chart.element);
        chart.update([...curves.map((curve) => ({ name: curve.own ? `${curve.name} (this plan)` : curve.name, points: curve.points })), ...level]);
      };
      add("ε by mechanism, with equal noise in running sums", found.by_mechanism, targetOf(plan, found.by_mechanism), epsilonText, row.epsilon === null ? undefined : [row.report_goal, row.epsilon]);
      add(`ρ by population (${found.mechanism})`, found.by_population, [], short);
      add(`ρ by rounds (${found.mechanism})`, found.by_rounds, [], short);
    } catch (error) {
      if (!signal.aborted && number === drawn) put(picture, h("p", { class: "quiet" }, plain(sentenceOf(error))));
    }
    picture.classList.remove("busy");
  }
  signal.addEventListener("abort", () => charts.abort());
  put(answer, h("p", { class: "quiet" }, "Computing…"));
  void asked();
}

/** A number that people would choose: two or three digits. */
function round(value: number, isWhole: boolean): number {
  const rounded = Number(value.toPrecision(value >= 1000 || value < 0.01 ? 2 : 3));
  return isWhole ? Math.max(1, Math.round(rounded)) : rounded;
}

/** The command that asks the same. */
function command(question: string): string {
  const words = [...new URLSearchParams(question)].map(([name, value]) => (value === "true" ? `--${name.replaceAll("_", "-")}` : `--${name.replaceAll("_", "-")} ${value}`));
  return `tacit plan ${words.join(" ")}`;
}

/** The sentence without the dashes of a command's options. */
function plain(sentence: string): string {
  return sentence.replace(/--([a-z][a-z-]*)/g, (_, name: string) => name.replaceAll("-", " "));
}

/** The target as a line, as far as the curves go. */
function targetOf(plan: Plan, curves: PlanCurve[]): Curve[] {
  if (plan.target === null) return [];
  const { epsilon } = plan.target;
  const goals = curves.flatMap((curve) => curve.points.map((point) => point[0]));
  return [{ name: `target ε = ${short(epsilon)}`, dashed: true, colour: 5, points: [Math.min(...goals), Math.max(...goals)].map((goal) => [goal, epsilon] as [number, number]) }];
}

function factsOf(found: Plan): Child {
  const row = found.recommended;
  const fact = (name: string, value: string, more: string) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value, h("small", {}, more)));
  return h(
    "dl",
    { class: "facts", id: "plan-facts" },
    fact("ε", epsilonText(found.epsilon), `at δ = ${found.delta.toExponential(0)}, ${found.adjacency}`),
    fact("Noise multiplier", ceil(row.noise_multiplier), `${row.mechanism}, report goal ${whole(row.report_goal)}`),
    fact("MinS", row.min_separation === null ? "–" : whole(row.min_separation), row.min_separation === null ? "users are sampled" : `rounds between two participations; MaxP ${whole(row.max_participation)}`),
    fact("Days", row.days === null ? "–" : short(Number(row.days.toPrecision(3))), row.timer_in_hours === null ? "say how long a round takes" : `a timer of ${short(Number(row.timer_in_hours.toPrecision(3)))} h on each device`),
  );
}

function reasonOf(found: Plan): Child {
  return h("p", { class: found.target !== null && found.recommended.meets_target === false ? "note" : "card" }, found.why);
}

function rowsOf(found: Plan): Child {
  const row = found.recommended;
  return h(
    "div",
    { class: "table-frame", tabindex: "0", role: "region", "aria-label": "Ways to train" },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, ["report goal", "mechanism", "noise multiplier", "error", "MinS", "MaxP", "ρ", "ε", "target"].map((name, place) => h("th", { scope: "col", class: place === 1 || place === 8 ? "" : "number" }, name)))),
      h(
        "tbody",
        {},
        found.rows.map((each) =>
          h(
            "tr",
            { class: each.mechanism === row.mechanism && each.report_goal === row.report_goal && each.min_separation === row.min_separation ? "chosen" : "" },
            [
              whole(each.report_goal),
              each.mechanism,
              ceil(each.noise_multiplier),
              short(Number(each.prefix_error.toPrecision(3))),
              each.min_separation === null ? "–" : `${whole(each.min_separation)}${each.capped ? "*" : ""}`,
              each.max_participation === null ? "–" : whole(each.max_participation),
              each.rho === null ? "–" : ceil(each.rho),
              each.epsilon === null ? "∞" : epsilonText(each.epsilon),
              each.meets_target === null ? "" : each.meets_target ? "met" : "missed",
            ].map((cell, place) => h("td", { class: place === 1 || place === 8 ? "" : "number" }, cell)),
          ),
        ),
      ),
    ),
  );
}

function notesOf(found: Plan, command: string): Child {
  return h("details", { class: "card small" }, h("summary", {}, "What to know before relying on this"), h("ul", {}, [...found.notes, ...found.assumptions].map((note) => h("li", {}, note))), h("pre", { class: "command" }, command));
}

/** Four digits, rounded up: noise and rho are never understated. */
function ceil(value: number): string {
  const step = 10 ** (Math.floor(Math.log10(value)) - 3);
  return String(Number((Math.ceil(value / step - 1e-9) * step).toPrecision(4)));
}
