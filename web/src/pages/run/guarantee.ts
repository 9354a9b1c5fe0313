// The guarantee as a page that a reviewer reads and prints.
import { get } from "../../api";
import { h, put } from "../../dom";

interface Guarantee {
  run_id: string;
  headline: string;
  epsilon: number | null;
  ledger_head: string;
  parts: { title: string; lines: { text: string; mark: string | null; code: string | null }[] }[];
}

export async function guaranteeTab(main: HTMLElement, key: string, signal: AbortSignal): Promise<void> {
  put(main, h("p", { class: "quiet" }, "Computing the cost from the ledger…"));
  const found = await get<Guarantee>(`/api/runs/${key}/guarantee`, signal);
  put(
    main,
    h("div", { class: "row noprint" }, h("button", { onclick: () => window.print() }, "Print"), h("span", { class: "quiet small" }, "The same statement: tacit guarantee. Nothing private is read for it.")),
    h(
      "article",
      { class: "card statement" },
      h("h2", {}, `The guarantee of run ${found.run_id}`),
      h("p", { class: `headline ${found.epsilon === null ? "problem" : "good"}` }, found.headline),
      h("p", { class: "break small" }, "Head of the ledger: ", h("code", {}, found.ledger_head)),
      found.parts.map((part) => [
        h("h3", {}, part.title),
        h(
          "ul",
          {},
          part.lines.map((line) => h("li", {}, line.mark && h("span", { class: `mark ${line.mark.split(" ")[0]}` }, line.mark), line.text, line.code && [" ", h("code", {}, line.code)])),
        ),
      ]),
    ),
  );
}
