// The ledger as a timeline, and its chain checked here: every digest is computed again from the line that it stands for.
import { h, put, s } from "../../dom";
import { getText, sentenceOf } from "../../api";
import { picture } from "../../picture";
import { tableOf } from "../../sections";
import { whole } from "../../words";

export interface LedgerRecord {
  kind: string;
  seq: number;
  previous: string;
  digest: string;
  round?: number;
  rounds?: number;
  rounds_done?: number;
  attempt?: number;
  restart?: boolean;
  lost?: [number, number][];
  policy?: string;
  report_goal?: number;
  deadline_s?: number;
  outcome?: string;
  blocks?: Record<string, { bound: number | null; noise_multiplier: number }>;
}

export interface Checked {
  records: LedgerRecord[];
  /** What is wrong, in a sentence; null if every line follows the one before it. */
  problem: string | null;
  torn: boolean;
}

const NOTHING = "0".repeat(64);

/** The line as it was before its digest was added: the digest covers exactly these bytes. */
export function withoutDigest(line: string): string | null {
  let depth = 0;
  let quoted = false;
  for (let place = 0; place < line.length; place++) {
    const letter = line[place];
    if (quoted) {
      if (letter === "\\") place++;
      else if (letter === '"') quoted = false;
      continue;
    }
    if (letter === "{" || letter === "[") depth++;
    else if (letter === "}" || letter === "]") depth--;
    else if (letter === '"') {
      const found = depth === 1 ? /^"digest":"[0-9a-f]{64}",?/.exec(line.slice(place, place + 90)) : null;
      if (found !== null && (line[place - 1] === "," || line[place - 1] === "{")) {
        const last = !found[0].endsWith(",");
        return line.slice(0, last && line[place - 1] === "," ? place - 1 : place) + line.slice(place + found[0].length);
      }
      quoted = true;
    }
  }
  return null;
}

async function sha256(text: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Read a ledger and check its chain. A last line without an end is being written, and is left out. */
export async function checkChain(text: string): Promise<Checked> {
  const lines = text.split("\n");
  const torn = lines.pop() !== "";
  const records: LedgerRecord[] = [];
  let previous = NOTHING;
  for (const [number, line] of lines.entries()) {
    let record: LedgerRecord;
    try {
      record = JSON.parse(line);
    } catch {
      return { records, problem: `Line ${number + 1} is not JSON.`, torn };
    }
    const covered = withoutDigest(line);
    if (covered === null || (await sha256(covered)) !== record.digest)
      return { records, problem: `The digest of line ${number + 1} does not fit: the line was changed.`, torn };
    if (record.seq !== number) return { records, problem: `Line ${number + 1} has the number ${record.seq}: a line is missing, repeated or moved.`, torn };
    if (record.previous !== previous) return { records, problem: `Line ${number + 1} does not follow the line before it, which was exchanged.`, torn };
    previous = record.digest;
    records.push(record);
  }
  return { records, problem: null, torn };
}

// A run that trains has its ledger read again at most so often.
const AGAIN_MS = 3_000;

/** Show the ledger; returns what reads it again, for a run that goes on. */
export async function ledgerTab(main: HTMLElement, key: string, signal: AbortSignal): Promise<() => void> {
  let shown = new AbortController();
  let waiting = 0;
  signal.addEventListener("abort", () => clearTimeout(waiting));
  async function show(): Promise<void> {
    const next = new AbortController();
    signal.addEventListener("abort", () => next.abort());
    try {
      await readLedger(main, key, next.signal);
    } finally {
      shown.abort();
      shown = next;
    }
  }
  put(main, h("p", { class: "quiet" }, "Reading the ledger…"));
  await show();
  return () => {
    if (waiting !== 0) return;
    waiting = window.setTimeout(() => {
      waiting = 0;
      const reads = main.querySelector("details[open]") !== null;
      if (!signal.aborted && !reads) void show();
    }, AGAIN_MS);
  };
}

async function readLedger(main: HTMLElement, key: string, signal: AbortSignal): Promise<void> {
  let text: string;
  try {
    text = await getText(`/api/runs/${key}/ledger`, signal);
  } catch (error) {
    if (!signal.aborted) put(main, h("p", { class: "problem", role: "alert" }, sentenceOf(error)));
    return;
  }
  if (globalThis.crypto?.subtle === undefined) {
    put(main, h("p", { class: "note" }, "This browser checks digests only on this machine's own address or over HTTPS: open the board through 127.0.0.1, for example with ssh -L."));
    return;
  }
  const found = await checkChain(text);
  if (signal.aborted) return;
  put(main, verdict(found), legend(found), timeline(found.records, signal), events(found.records));
}

function verdict(found: Checked): HTMLElement {
  const head = found.records.at(-1)?.digest ?? NOTHING;
  if (found.problem !== null) return h("p", { class: "problem", role: "alert" }, `The chain is broken. ${found.problem}`);
  return h(
    "div",
    { class: "card" },
    h("p", { class: "good", id: "chain" }, `The chain holds: this page computed the digest of each of the ${whole(found.records.length)} records again, and each record names the one before it.`),
    h("p", { class: "break" }, "Head: ", h("code", {}, head), h("br"), h("span", { class: "quiet small" }, "Compare it with the head in the guarantee, or with one that was written down earlier. A chain proves an order, not an author.")),
    found.torn && h("p", { class: "note" }, "The last line has no end: it is being written, or a crash cut it short."),
  );
}

/** The [round, attempt] that no checkpoint in use holds. */
function lostOf(records: LedgerRecord[]): Set<string> {
  return new Set(records.flatMap((record) => (record.lost ?? []).map(([round, attempt]) => `${round}/${attempt}`)));
}

function legend(found: Checked): HTMLElement {
  const intents = found.records.filter((record) => record.kind === "intent");
  const lost = lostOf(found.records).size;
  const fact = (name: string, value: string, more = "") => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value, more && h("small", {}, more)));
  return h(
    "dl",
    { class: "facts" },
    fact("Releases accounted", whole(intents.length), "one for each intent"),
    fact("Lost attempts", whole(lost), lost > 0 ? "their rounds ran again, and both count" : "no round ran twice"),
    fact("Checkpoints named", whole(found.records.filter((record) => record.kind === "committed").length)),
    fact("Times resumed", whole(found.records.filter((record) => record.kind === "resumed").length)),
  );
}

const HEIGHT = 260;

function timeline(records: LedgerRecord[], signal: AbortSignal): HTMLElement {
  const lost = lostOf(records);
  const planned = records.reduce((most, record) => Math.max(most, record.rounds ?? 0, record.kind === "intent" ? record.round! + 1 : 0), 1);
  const last = Math.max(records.length - 1, 1);
  const y = (round: number) => HEIGHT - 34 - (round / planned) * (HEIGHT - 60);
  const runs: { lost: boolean; points: [number, number][] }[] = [];
  for (const record of records) {
    if (record.kind !== "intent") continue;
    const isLost = lost.has(`${record.round}/${record.attempt}`);
    const current = runs.at(-1);
    const follows = current !== undefined && current.lost === isLost && record.round! + 1 > current.points.at(-1)![1];
    if (follows) current.points.push([record.seq, record.round! + 1]);
    else runs.push({ lost: isLost, points: [[record.seq, record.round! + 1]] });
  }
  const dots = records.length <= 400;
  const ticks = [0, Math.round(planned / 2), planned];
  // Names that would stand on each other are left out: the list below has them all.
  let named = 0;
  const name = (record: LedgerRecord, at: number, width: number) => {
    const place = Math.min(at, width - 30);
    if (place - named < 64) return null;
    named = place;
    return s("text", { x: place, y: 16, "text-anchor": "middle" }, record.kind);
  };
  const draw = (width: number) => {
    named = 80; // where "rounds done" ends
    const x = (seq: number) => 46 + (seq / last) * (width - 66);
    return s(
      "svg",
      { class: "picture", viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `Timeline of ${records.length} records: rounds over the records of the ledger. The events are listed below.` },
      ticks.map((round) => [
        s("line", { class: "rule", x1: 46, x2: width - 20, y1: y(round), y2: y(round) }),
        s("text", { class: "faint", x: 40, y: y(round) + 4, "text-anchor": "end" }, whole(round)),
      ]),
      s("text", { class: "faint", x: 46, y: HEIGHT - 8 }, "record 0"),
      s("text", { class: "faint", x: width - 20, y: HEIGHT - 8, "text-anchor": "end" }, `record ${whole(records.length - 1)}`),
      s("text", { class: "faint", x: 46, y: 14 }, "rounds done"),
      runs.map((run) => [
        s("polyline", { class: run.lost ? "track lost" : "track", points: run.points.map(([seq, round]) => `${x(seq).toFixed(1)},${y(round).toFixed(1)}`).join(" ") }),
        (dots || run.points.length === 1) && run.points.map(([seq, round]) => s("circle", { class: run.lost ? "dot lost" : "dot", cx: x(seq), cy: y(round), r: 3.5 }, s("title", {}, `record ${seq}: intent of round ${round}${run.lost ? ", lost and accounted" : ""}`))),
      ]),
      records.map((record) => {
        if (record.kind === "committed") return s("path", { class: "commit", d: `M${x(record.seq)} ${HEIGHT - 34} l-4 8 h8 z` }, s("title", {}, `record ${record.seq}: checkpoint after ${record.rounds_done} rounds`));
        if (record.kind === "resumed" || record.kind === "extended" || record.kind === "closed")
          return [s("line", { class: `event ${record.kind}`, x1: x(record.seq), x2: x(record.seq), y1: 22, y2: HEIGHT - 34 }), name(record, x(record.seq), width)];
        return null;
      }),
    );
  };
  return h(
    "figure",
    { class: "card" },
    h("figcaption", {}, h("h2", {}, "Timeline")),
    h("ul", { class: "legend" }, h("li", { class: "key colour--one" }, "an intent: a round that counts as released"), h("li", { class: "key colour--two" }, "a lost attempt, which counts as well"), h("li", { class: "key colour--three" }, "▲ a checkpoint")),
    picture(draw, signal),
  );
}

function events(records: LedgerRecord[]): HTMLElement {
  const rows = records.filter((record) => record.kind !== "intent").map((record) => [whole(record.seq), record.kind, said(record), record.digest.slice(0, 16)]);
  const intents = records.filter((record) => record.kind === "intent").map((record) => [whole(record.seq), whole(record.round! + 1), whole(record.attempt), blocks(record), record.digest.slice(0, 16)]);
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "Events"),
    tableOf(["record", "kind", "what it says", "digest"], rows, "", true),
    h("details", {}, h("summary", {}, `All ${whole(intents.length)} intents`), tableOf(["record", "round", "attempt", "bound and noise", "digest"], intents.slice(-2000), "", true)),
  );
}

function said(record: LedgerRecord): string {
  switch (record.kind) {
    case "opened":
      return `${whole(record.rounds)} rounds are planned`;
    case "committed":
      return `a checkpoint holds ${whole(record.rounds_done)} rounds`;
    case "resumed": {
      const lost = record.lost?.length ?? 0;
      return `goes on with round ${whole(record.round! + 1)} (${record.policy}); ${lost === 0 ? "nothing was lost" : `${whole(lost)} attempts were lost, and count`}`;
    }
    case "extended":
      return `from here on ${whole(record.rounds)} rounds are planned`;
    case "adjusted":
      return `from round ${whole(record.round! + 1)} on, a round waits for ${whole(record.report_goal)} reports, ${whole(record.deadline_s)} s at most`;
    case "closed":
      return `${record.outcome} after ${whole(record.round)} rounds`;
    default:
      return "";
  }
}

function blocks(record: LedgerRecord): string {
  return Object.entries(record.blocks ?? {})
    .map(([name, block]) => `${name}: bound ${block.bound ?? "none"}, noise ${block.noise_multiplier}`)
    .join("; ");
}
