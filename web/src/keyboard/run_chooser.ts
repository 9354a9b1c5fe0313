// On a board: which runs to type on.
import { get } from "../api";
import { h } from "../dom";
import type { RunRow, RunTable } from "../types";
import { epsilonText } from "../words";

// As many as the server takes (tacit/web/keyboard/routes.py).
const MOST_RUNS = 4;

export async function runChooser(): Promise<HTMLElement> {
  const { runs } = await get<RunTable>("/api/runs");
  const ready = runs.filter((run) => run.kind === "training" && run.problem === null && run.rounds > 0).sort((a, b) => b.created.localeCompare(a.created));
  if (ready.length === 0) return h("p", {}, "There is no run with a model yet. Train one first: tacit train demo.");
  const boxes = ready.map((run) => h("input", { type: "checkbox", name: "run", value: run.key, onchange: count }));
  const go = h("button", { class: "primary", type: "submit", disabled: true }, "Type on them");
  return h(
    "form",
    { class: "card" },
    h("p", {}, `Choose one to ${MOST_RUNS} runs that learned to suggest words.`),
    h(
      "ul",
      { class: "choices" },
      ready.map((run, at) => h("li", {}, h("label", {}, boxes[at]!, ` ${run.name}: ${privacyOf(run)}`))),
    ),
    go,
  );

  function privacyOf(run: RunRow): string {
    if (run.infinite_because.length > 0) return "not private";
    return run.epsilon === null ? "its ε is not known yet" : `ε = ${epsilonText(run.epsilon)}`;
  }

  function count(): void {
    const number = boxes.filter((box) => box.checked).length;
    go.disabled = number < 1 || number > MOST_RUNS;
  }
}
