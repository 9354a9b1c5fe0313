// The board: one page whose address after "#" says which part is shown.
import "./style.css";
import { sentenceOf } from "./api";
import { h, put } from "./dom";
import { listening, onChange, startLive } from "./live";
import { comparePage } from "./pages/compare";
import { fleetPage } from "./pages/fleet";
import { inspectPage } from "./pages/inspect";
import { papersPage } from "./pages/papers";
import { planPage } from "./pages/plan";
import { runPage } from "./pages/run";
import { runsPage } from "./pages/runs";
import { markCurrent, shell } from "./shell";

/** A part of the board. It draws into `main` and stops what it has begun when `signal` ends. */
export type Page = (main: HTMLElement, parameters: string[], signal: AbortSignal) => Promise<void> | void;

const PAGES: Record<string, { draw: Page; title: string; in: string }> = {
  runs: { draw: runsPage, title: "Runs", in: "/#/runs" },
  run: { draw: runPage, title: "A run", in: "/#/runs" },
  compare: { draw: comparePage, title: "Compare runs", in: "/#/runs" },
  plan: { draw: planPage, title: "Plan", in: "/#/plan" },
  inspect: { draw: inspectPage, title: "Inspect", in: "/#/inspect" },
  fleet: { draw: fleetPage, title: "Fleet", in: "/#/fleet" },
  papers: { draw: papersPage, title: "The papers", in: "/#/papers" },
};

const { main, status } = shell();
let shown = new AbortController();

async function show(): Promise<void> {
  shown.abort();
  shown = new AbortController();
  const signal = shown.signal;
  const [name = "runs", ...parameters] = location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map(decode);
  const page = PAGES[name];
  main.replaceChildren();
  markCurrent(page?.in ?? "");
  if (page === undefined) {
    put(main, h("h1", {}, "No such page"), h("p", {}, "Go to ", h("a", { href: "/#/runs" }, "the runs"), "."));
    return;
  }
  document.title = `${page.title} · Tacit`;
  try {
    await listening();
    if (signal.aborted) return;
    await page.draw(main, parameters, signal);
  } catch (error) {
    if (signal.aborted) return;
    put(main, h("h1", {}, page.title), h("p", { class: "problem", role: "alert" }, sentenceOf(error)));
    onChange((event) => event.kind === "again" && void show(), signal);
  }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

startLive((lost) => {
  put(status, lost ? h("p", { class: "problem" }, "The board does not answer. What is shown may be old; the page tries again.") : null);
});
window.addEventListener("hashchange", () => {
  void show().then(() => main.focus({ preventScroll: true }));
  window.scrollTo(0, 0);
});
void show();
