// The guarantee as a page that a reviewer reads and prints, with what they can check it against.
import { get } from "../../api";
import { h, put, type Child } from "../../dom";
import { whole } from "../../words";

interface Guarantee {
  run_id: string;
  headline: string;
  paragraph: string;
  epsilon: number | null;
  ledger_head: string;
  parts: { title: string; lines: { text: string; mark: string | null; code: string | null }[] }[];
  witness: { name: string; public_key: string; required: boolean; records: number; signed: number | null; problem: string | null } | null;
  certificate: { file: string; records: number | null; whole: boolean; public_key: string | null; problem: string | null } | null;
}

export async function guaranteeTab(main: HTMLElement, key: string, folder: string, signal: AbortSignal): Promise<void> {
  put(main, h("p", { class: "quiet" }, "Computing the cost from the ledger…"));
  const found = await get<Guarantee>(`/api/runs/${key}/guarantee`, signal);
  put(
    main,
    h("div", { class: "row noprint before" }, h("button", { onclick: () => window.print() }, "Print"), h("span", { class: "quiet small" }, "The same statement: ", h("code", {}, "tacit guarantee"), ". Nothing private is read for it.")),
    h(
      "article",
      { class: "card statement" },
      h("h2", {}, `The guarantee of run ${found.run_id}`),
      h("p", { class: `headline ${found.epsilon === null ? "problem" : "good"}` }, found.headline),
      h("p", {}, found.paragraph),
      h("p", { class: "break small" }, "Head of the ledger: ", h("code", {}, found.ledger_head)),
      found.parts.map((part) => [
        h("h3", {}, part.title),
        h(
          "ul",
          {},
          part.lines.map((line) => h("li", {}, line.mark && h("span", { class: `mark ${line.mark.split(" ")[0]}` }, line.mark), withCode(line.text), line.code && [" ", h("code", {}, line.code)])),
        ),
      ]),
    ),
    evidence(found, key, folder),
  );
}

/** What somebody who does not believe the statement can compare it with. */
function evidence(found: Guarantee, key: string, folder: string): HTMLElement {
  const { witness, certificate } = found;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Witness and certificate"),
    witness === null
      ? h("p", {}, "No witness: nobody else has signed how far this ledger had got, so a ledger that was cut or written anew would not show. A recipe names a witness in ", h("code", {}, "[witness]"), ".")
      : [
          witness.problem !== null
            ? h("p", { class: "problem" }, witness.problem)
            : h("p", { class: witness.signed === witness.records ? "good" : "note" }, `The witness ${witness.name} has signed a head of this ledger with ${whole(witness.signed)} of its ${whole(witness.records)} records, and they agree.`),
          h("p", { class: "small break" }, `The witness is ${witness.required ? "required: the run stops where it does not sign" : "not required: the run goes on where it does not sign"}. To ask the witness itself: `, h("code", {}, `tacit witness check ${folder}`), h("br"), "Its key: ", h("code", {}, witness.public_key)),
        ],
    certificate === null
      ? h("p", { class: "break" }, "No certificate in the run's folder. To write one, from which others compute ε without Tacit: ", h("code", {}, `tacit certify ${folder} --out ${folder}/certificate.json`))
      : certificate.problem !== null
        ? h("p", { class: "problem" }, certificate.problem)
        : [
            h("p", {}, link(certificate.file, key), ` holds ${certificate.whole ? `all ${whole(certificate.records)} records of the ledger` : `the first ${whole(certificate.records)} records of the ledger, because the run went on since`}, and its signature fits its key. To compute ε from it without Tacit: `, h("code", {}, `python tacit_verify.py ${certificate.file}`)),
            h("p", { class: "small break" }, "Its key: ", h("code", {}, certificate.public_key)),
          ],
  );
}

function link(file: string, key: string): HTMLElement {
  return h("a", { href: `/api/runs/${key}/file?name=${encodeURIComponent(file)}`, download: file }, "The certificate");
}

/** Text in which `commands` stand between backticks. */
function withCode(text: string): Child {
  return text.split("`").map((part, place) => (place % 2 === 1 ? h("code", {}, part) : part));
}
