// Curves: drawn by uPlot, in the colours of the theme, with the same figures in a table below for whoever cannot see them.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { h, put } from "./dom";
import { short } from "./words";

export interface Curve {
  name: string;
  points: [number, number | null][];
  /** Which colour, counted from 0; by default its place. */
  colour?: number;
  dashed?: boolean;
  /** Points that are not connected. */
  dots?: boolean;
  /** What each point is, if not all points are alike. */
  labels?: string[];
}

export interface ChartOptions {
  title: string;
  x: string;
  y?: string;
  format?: (value: number) => string;
  log?: boolean;
  logX?: boolean;
  /** How the axis says a value, if shorter than `format`. */
  tick?: (value: number) => string;
  /** A point that stands out, for example the recommended row. */
  dot?: [number, number];
  fromZero?: boolean;
  /** The axis reaches this value at least: charts side by side have one scale. */
  reach?: number;
  /** Charts of one group show the same place at the same time. */
  group?: string;
  height?: number;
  /** Whether the legend says each curve's last value; by default it does. */
  last?: boolean;
  /** What to say where there is nothing to draw yet. */
  empty?: string;
  /** A line below the title. */
  note?: string;
  /** A mark after the title, for example that only the owner may see this. */
  mark?: string;
}

export interface Chart {
  element: HTMLElement;
  update(curves: Curve[]): void;
}

export const COLOURS = ["--one", "--two", "--three", "--four", "--five", "--six"];

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A chart that can be updated. It follows its width and the theme until `signal` ends it. */
export function lineChart(options: ChartOptions, curves: Curve[], signal: AbortSignal): Chart {
  const format = options.format ?? short;
  const tick = options.tick ?? format;
  const frame = h("div", { class: "chart-frame", role: "img", "aria-label": options.title });
  const legend = h("ul", { class: "legend" });
  const figures = h("div", { class: "figures", tabindex: "0", role: "group", "aria-label": `Figures: ${options.title}` });
  const details = h("details", { class: "small", ontoggle: () => table() }, h("summary", {}, "Figures"), figures);
  const element = h(
    "figure",
    { class: "card chart" },
    h("figcaption", {}, h("h2", {}, options.title, options.mark ? h("span", { class: "mark owner" }, options.mark) : null)),
    options.note ? h("p", { class: "quiet small" }, options.note) : null,
    legend,
    frame,
    details,
  );
  let plot: uPlot | null = null;
  let drawnFor = "";
  let namedFor = "";
  let shown = curves;
  const hidden = new Set<string>();

  function data(): uPlot.AlignedData {
    const tables = shown.map((curve) => [curve.points.map((point) => point[0]), curve.points.map((point) => point[1])] as uPlot.AlignedData);
    return tables.length === 0 ? [[]] : uPlot.join(tables);
  }

  function colourOf(curve: Curve, place: number): string {
    return COLOURS[(curve.colour ?? place) % COLOURS.length]!;
  }

  function draw(): void {
    const drawable = shown.some((curve) => curve.points.some((point) => point[1] !== null));
    frame.hidden = details.hidden = !drawable;
    if (drawable) name();
    else {
      namedFor = "";
      put(legend, h("li", { class: "quiet" }, options.empty ?? "Nothing has been measured yet."));
    }
    if (!drawable) {
      plot?.destroy();
      plot = null;
      return;
    }
    const width = Math.max(200, frame.clientWidth || 400);
    const now = `${shown.map((curve) => curve.name + curve.dashed + curve.dots).join("|")}|${variable("--text")}|${options.dot}`;
    if (plot === null || now !== drawnFor) {
      plot?.destroy();
      frame.replaceChildren();
      plot = new uPlot(settings(width), data(), frame);
      drawnFor = now;
    } else {
      plot.setData(data());
      if (plot.width !== width) plot.setSize({ width, height: options.height ?? 240 });
    }
    if (details.open) table();
  }

  /** The legend. Of several curves each is a button that hides it; the values change without making the buttons anew. */
  function name(): void {
    const now = shown.map((curve) => curve.name + curve.dashed).join("|");
    const value = (curve: Curve) => {
      const last = options.last === false || options.logX || curve.dots ? undefined : [...curve.points].reverse().find((point) => point[1] !== null);
      return last === undefined ? "" : ` ${format(last[1]!)}`;
    };
    if (now !== namedFor) {
      namedFor = now;
      put(
        legend,
        shown.map((curve, place) => {
          const look = `key colour${colourOf(curve, place)}${curve.dots ? " dots" : curve.dashed ? " dashed" : ""}`;
          const said = [curve.name, h("strong", {})];
          return h("li", {}, shown.length === 1 ? h("span", { class: look }, said) : h("button", { class: look, type: "button", "aria-pressed": String(!hidden.has(curve.name)), title: "Show or hide this curve", onclick: toggle(curve.name, place) }, said));
        }),
      );
    }
    legend.querySelectorAll("strong").forEach((strong, place) => (strong.textContent = value(shown[place]!)));
  }

  function toggle(name: string, place: number): (event: Event) => void {
    return (event) => {
      if (!hidden.delete(name)) hidden.add(name);
      (event.currentTarget as HTMLElement).setAttribute("aria-pressed", String(!hidden.has(name)));
      plot?.setSeries(place + 1, { show: !hidden.has(name) });
    };
  }

  function settings(width: number): uPlot.Options {
    const quiet = variable("--quiet");
    const line = variable("--line");
    const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui, sans-serif", labelFont: "12px system-ui, sans-serif", labelSize: 18 };
    return {
      width,
      height: options.height ?? 240,
      legend: { show: false },
      cursor: { sync: options.group ? { key: options.group } : undefined, points: { size: 8 }, drag: { x: true, y: false } } as uPlot.Cursor,
      scales: {
        x: options.logX ? { time: false, distr: 3, range: (_u, low, high) => [(low ?? 1) / 1.15, (high ?? 10) * 1.15] } : { time: false },
        y: options.log
          ? { distr: 3 }
          : { range: (_u, low, high) => padded(low, high === null || options.reach === undefined ? high : Math.max(high, options.reach), options.fromZero ?? false) },
      },
      axes: [
        { ...axis, label: options.x, size: 36, ...(inWholes() ? { incrs: WHOLE_STEPS } : {}), ...(options.logX ? { ...logarithmic, values: (_u: uPlot, splits: number[]) => splits.map(brief) } : {}) },
        { ...axis, size: (_u, values) => 20 + 8 * Math.max(2, ...(values ?? []).map((each) => String(each ?? "").length)), ...(options.log ? logarithmic : {}), values: (_u, splits) => splits.map((value) => (value === null || value === undefined ? "" : tick(value))) },
      ],
      series: [
        {},
        ...shown.map((curve, place) => ({
          label: curve.name,
          stroke: variable(colourOf(curve, place)),
          width: 2,
          show: !hidden.has(curve.name),
          spanGaps: true,
          dash: curve.dashed ? [6, 5] : undefined,
          paths: curve.dots ? () => null : undefined,
          points: { show: curve.dots || curve.points.length < 30, size: curve.dots ? 9 : 5, fill: variable(colourOf(curve, place)) },
        }) as uPlot.Series),
      ],
      plugins: [tooltip(options.x, format, labelAt), ...(options.dot ? [dotted(options.dot, variable("--text"), variable("--surface"))] : [])],
    };
  }

  /** Whether every x is a whole number, such as a round: the axis then has no mark between two. */
  function inWholes(): boolean {
    return shown.every((curve) => curve.points.every((point) => Number.isInteger(point[0])));
  }

  function labelAt(series: number, x: number): string | undefined {
    const curve = shown[series];
    return curve?.labels?.[curve.points.findIndex((point) => point[0] === x)];
  }

  function table(): void {
    if (!details.open) return;
    const [xs, ...columns] = data();
    const step = Math.max(1, Math.ceil((xs?.length ?? 0) / 200));
    const places = [...(xs ?? []).keys()].filter((place) => place % step === 0 || place === xs!.length - 1);
    put(
      figures,
      h(
        "table",
        {},
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, options.x), shown.map((curve) => h("th", { scope: "col", class: "number" }, curve.name)))),
        h(
          "tbody",
          {},
          places.map((place) =>
            h("tr", {}, h("td", {}, short(xs![place])), columns.map((column) => h("td", { class: "number" }, column[place] === null || column[place] === undefined ? "–" : format(column[place]!)))),
          ),
        ),
      ),
    );
  }

  const sized = new ResizeObserver(() => draw());
  sized.observe(frame);
  const themed = () => draw();
  document.addEventListener("tacit-theme", themed);
  const media = matchMedia("(prefers-color-scheme: dark)");
  media.addEventListener("change", themed);
  signal.addEventListener("abort", () => {
    sized.disconnect();
    document.removeEventListener("tacit-theme", themed);
    media.removeEventListener("change", themed);
    plot?.destroy();
    plot = null;
  });
  draw();
  return {
    element,
    update(next) {
      shown = next;
      draw();
    },
  };
}

const WHOLE_STEPS = Array.from({ length: 10 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

/** The marks of a logarithmic axis, every one of which has its number. */
const logarithmic: uPlot.Axis = {
  splits: (plot, axis, low, high) => marks(low, high, axis === 0 ? (plot.width - 70) / 44 : (plot.height - 60) / 28),
  filter: (_u, splits) => splits,
};

/** Within which factors a power of ten is marked, and how far apart two such marks are at least, in powers of ten. */
const WITHIN: [number[], number][] = [
  [[1, 2, 5], Math.log10(2)],
  [[1, 3], Math.log10(3)],
];

/** Where a logarithmic axis is marked that has room for so many numbers: as closely as they do not touch. */
function marks(low: number, high: number, room: number): number[] {
  const needed = Math.log10(high / low) / room; // what a number takes, in powers of ten
  const [within] = WITHIN.find(([, apart]) => apart >= needed) ?? [[1]];
  const step = Math.max(1, Math.ceil(needed));
  const found: number[] = [];
  for (let power = step * Math.floor(Math.log10(low) / step); power <= Math.log10(high); power += step) found.push(...within.map((each) => each * 10 ** power));
  const shown = found.filter((value) => value >= low && value <= high);
  return shown.length > 2 ? shown : evenMarks(low, high, needed) ?? shown;
}

/** Marks at even steps, for an axis that reaches over less than a power of ten or two. The two highest are the closest there. */
function evenMarks(low: number, high: number, needed: number): number[] | null {
  const smallest = 10 ** Math.floor(Math.log10(high - low) - 1);
  const step = [1, 2, 5, 10, 20, 50].map((each) => each * smallest).find((each) => each < high && Math.log10(high / (high - each)) >= needed);
  if (step === undefined) return null;
  const first = Math.ceil(low / step);
  const found = Array.from({ length: Math.floor(high / step) - first + 1 }, (_, place) => Number(((first + place) * step).toPrecision(12)));
  return found.length > 2 ? found : null;
}

/** 1,500 or 4.2M. */
export function brief(value: number): string {
  if (value >= 1e9) return value.toExponential(0);
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  return value >= 1e4 ? `${Number((value / 1e3).toPrecision(3))}k` : short(value);
}

function dotted([x, y]: [number, number], edge: string, fill: string): uPlot.Plugin {
  return {
    hooks: {
      draw: (plot) => {
        const left = plot.valToPos(x, "x", true);
        const top = plot.valToPos(y, "y", true);
        plot.ctx.save();
        plot.ctx.beginPath();
        plot.ctx.arc(left, top, 6 * devicePixelRatio, 0, 2 * Math.PI);
        plot.ctx.fillStyle = fill;
        plot.ctx.strokeStyle = edge;
        plot.ctx.lineWidth = 2.5 * devicePixelRatio;
        plot.ctx.fill();
        plot.ctx.stroke();
        plot.ctx.restore();
      },
    },
  };
}

function padded(low: number | null, high: number | null, fromZero: boolean): [number, number] {
  if (low === null || high === null) return [0, 1];
  const bottom = fromZero ? Math.min(0, low) : low;
  if (fromZero && low === 0 && high === 0) return [0, 1];
  const room = (high - bottom || Math.abs(high) || 1) * 0.08;
  return [fromZero && low >= 0 ? 0 : bottom - room, high + room];
}

function tooltip(x: string, format: (value: number) => string, labelAt: (series: number, x: number) => string | undefined): uPlot.Plugin {
  const box = h("div", { class: "tip", "aria-hidden": "true" });
  return {
    hooks: {
      init: (plot) => {
        plot.over.append(box);
        box.hidden = true;
      },
      setCursor: (plot) => {
        const place = plot.cursor.idx;
        if (place === null || place === undefined) {
          box.hidden = true;
          return;
        }
        const lines = plot.series.slice(1).flatMap((series, number) => {
          const value = plot.data[number + 1]?.[place];
          if (value === null || value === undefined || series.show === false) return [];
          const label = labelAt(number, plot.data[0][place]!);
          return [h("div", {}, `${String(series.label)}${label === undefined ? "" : ` (${label})`}: ${format(value)}`)];
        });
        if (lines.length === 0) {
          box.hidden = true;
          return;
        }
        put(box, h("div", {}, `${x} ${short(plot.data[0][place])}`), lines);
        box.hidden = false;
        const left = plot.cursor.left ?? 0;
        box.style.left = `${left > plot.over.clientWidth / 2 ? Math.max(0, left - box.offsetWidth - 12) : left + 12}px`;
        box.style.top = "4px";
      },
    },
  };
}
