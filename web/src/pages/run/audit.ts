// The audit: the proven epsilon and what attacks could show on one axis, canaries' ranks, the measured noise of the gate.
import { get } from "../../api";
import { h, put, s, type Child } from "../../dom";
import { picture } from "../../picture";
import { sectionCard, tableOf, type Section } from "../../sections";
import { epsilonText, percent, short, whole } from "../../words";

interface Bound {
  epsilon: number;
  confidence: number;
  canaries: number;
  guesses: number;
  right: number;
  strongest: number;
}

interface AuditView {
  epsilon: number | null;
  delta: number;
  reasons_not_private: string[];
  owner: boolean;
  gate: {
    verdict: string;
    rounds: number;
    tests: { name: string; chance: number; alarm: boolean; what: string }[];
    scale: [number, number, number] | null;
    detectable_scale: number | null;
    epsilon: [number, number] | null;
  } | null;
  attack: {
    verdict: string;
    canaries: { number: number; setting: string; rank: number; candidates: number; exposure: number; place: number | null }[];
    lower_bounds: Record<string, Bound>;
    proven: { epsilon: number | null; delta: number } | null;
    strongest_possible: number;
  } | null;
}

const VERDICTS: Record<string, string> = {
  broken: "Something is broken: the attack got more out of the model than the proven epsilon allows. Do not use the model.",
  passed: "No lower bound exceeds the proven epsilon.",
  could_not_fail: "This audit could not have failed: with so few canary users no attack can reach the proven epsilon.",
  no_bound: "There were no canary users, so the attack gives no lower bound.",
};
/** n_u = 4, n_e = 14 in words: how many made-up devices hold the phrase, and how often each. */
function inWords(setting: string): string {
  const [, devices, copies] = /^n_u = (\d+), n_e = (\d+)$/.exec(setting) ?? [];
  if (devices === undefined) return setting;
  return `${devices} device${devices === "1" ? "" : "s"}, ${copies === "1" ? "once" : `${copies} times`}`;
}

const SCORES: Record<string, string> = { loss: "attacked, by loss", trajectory: "attacked, by trajectory" };

export async function auditTab(main: HTMLElement, key: string, sections: Section[], signal: AbortSignal): Promise<void> {
  put(main, h("p", { class: "quiet" }, "Reading the audit…"));
  const found = await get<AuditView>(`/api/runs/${key}/audit`, signal);
  put(main, axisCard(found), found.owner ? [canaries(found, signal), gate(found)] : h("p", { class: "note" }, "What the attacks found depends on who was in the data, so it is for the run's owner alone: tacit board --owner shows it."), sections.map((section) => sectionCard(section, signal)));
}

function axisCard(found: AuditView): HTMLElement {
  const marks: { label: string; low: number; high: number | null; kind: string }[] = [];
  const attack = found.attack;
  for (const [name, bound] of Object.entries(attack?.lower_bounds ?? {}))
    marks.push({ label: `${SCORES[name] ?? name}: at least ${short(Math.floor(bound.epsilon * 100) / 100)} (${percent(bound.confidence, 2)} confidence)`, low: bound.epsilon, high: null, kind: "attacked" });
  if (attack && attack.strongest_possible > 0) marks.push({ label: `an attacker who is always right: ${short(Math.floor(attack.strongest_possible * 100) / 100)}`, low: attack.strongest_possible, high: null, kind: "strongest" });
  const proven = attack?.proven ? attack.proven.epsilon : found.epsilon;
  const gate = found.gate?.epsilon;
  if (gate) marks.push({ label: `with the noise that the gate measured: at least ${short(Math.floor(gate[0] * 100) / 100)}`, low: gate[0], high: null, kind: "attacked" });
  if (proven !== null) marks.push({ label: `proven${attack?.proven ? " for a canary user" : ""}: at most ${epsilonText(proven)}`, low: proven, high: null, kind: "proven" });
  // Canary users may take part more often than others, and then have an epsilon of their own.
  const others = attack?.proven && found.epsilon !== null && epsilonText(found.epsilon) !== epsilonText(attack.proven.epsilon) ? found.epsilon : null;
  if (others !== null) marks.push({ label: `proven for everybody else: at most ${epsilonText(others)}`, low: others, high: null, kind: "proven" });
  const most = Math.max(...marks.map((mark) => mark.low), 0.1) * 1.15;
  return h(
    "figure",
    { class: "card" },
    h("figcaption", {}, h("h2", {}, "What is proven, and what attacks could show"), h("p", { class: "quiet" }, "An attack can only show that epsilon is at least something; the proof says that it is at most something. The attack must stay to the left of the proof for those whom it attacks.")),
    marks.length === 0 && h("p", {}, `No epsilon is proven: ${found.reasons_not_private.join("; ")}.`),
    marks.length > 0 && axis(marks, most),
    attack && h("p", { class: attack.verdict === "broken" ? "problem" : attack.verdict === "passed" ? "good" : "note" }, VERDICTS[attack.verdict] ?? attack.verdict),
    found.owner && !attack && h("p", { class: "quiet" }, "No attack on the model is on record: tacit audit run makes one, if canaries were planted."),
  );
}

/** Each mark as a bar from 0, under its words, over one axis. */
function axis(marks: { label: string; low: number; kind: string }[], most: number): HTMLElement {
  const at = (epsilon: number) => `${((100 * epsilon) / most).toFixed(2)}%`;
  return h(
    "div",
    { class: "axis" },
    niceTicks(most).map((tick) => styled(h("div", { class: "tick", "aria-hidden": "true" }, h("span", {}, `ε ${short(tick)}`)), "left", at(tick))),
    h("ul", {}, marks.map((mark) => h("li", {}, h("span", {}, mark.label), styled(h("div", { class: `reach ${mark.kind}` }), "width", at(mark.low))))),
  );
}

function styled(element: HTMLElement, name: "left" | "width", value: string): HTMLElement {
  element.style[name] = value;
  return element;
}

function niceTicks(most: number): number[] {
  const step = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500].find((each) => most / each <= 6) ?? most;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, place) => place * step);
}

function canaries(found: AuditView, signal: AbortSignal): Child {
  const attacked = found.attack?.canaries ?? [];
  if (attacked.length === 0) return null;
  const settings = [...new Set(attacked.map((each) => each.setting))];
  const most = Math.max(...attacked.map((each) => each.candidates));
  const powers = Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, power) => 10 ** power);
  return h(
    "figure",
    { class: "card" },
    h("figcaption", {}, h("h2", {}, "Ranks of the canaries", h("span", { class: "mark owner" }, "owner only")), h("p", { class: "quiet" }, `Each dot is a planted phrase. Rank 1: the model prefers it to all ${whole(most - 1)} random endings, so it was memorised. By chance any rank is as likely. On the left: how many devices held the phrase, and how often each.`)),
    picture((width) => {
      // On a narrow screen the names stand above their lines.
      const narrow = width < 560;
      const [left, row] = narrow ? [12, 46] : [190, 34];
      const height = settings.length * row + 44;
      const x = (rank: number) => left + (Math.log10(Math.max(rank, 1)) / Math.log10(Math.max(most, 10))) * (width - left - 30);
      const marked = powers.filter((power) => !narrow || Math.log10(power) % 2 === 0);
      return s(
        "svg",
        { class: "picture", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Ranks of the canaries by how they were shared; the table below has them" },
        marked.map((power) => [s("line", { class: "rule", x1: x(power), x2: x(power), y1: 6, y2: height - 34 }), s("text", { class: "faint", x: x(power), y: height - 16, "text-anchor": "middle" }, whole(power))]),
        s("text", { class: "faint", x: width - 4, y: height - 2, "text-anchor": "end" }, "rank"),
        settings.map((setting, place) => {
          const y = (place + 1) * row - 12;
          return [
            s("text", narrow ? { x: left, y: y - 14 } : { x: left - 14, y: y + 4, "text-anchor": "end" }, inWords(setting)),
            attacked.filter((each) => each.setting === setting).map((each) => s("circle", { class: each.place === null ? "dot" : "dot lost", cx: x(each.rank), cy: y, r: 6, opacity: 0.75 }, s("title", {}, `canary ${each.number + 1}: rank ${whole(each.rank)}`))),
          ];
        }),
      );
    }, signal),
    h("ul", { class: "legend" }, h("li", { class: "key colour--one" }, "not found by the search"), h("li", { class: "key colour--two" }, "extracted by the search")),
    h("details", {}, h("summary", {}, "Figures"), tableOf(["canary", "shared by", "rank", "of", "exposure, bits", "extracted at"], attacked.map((each) => [String(each.number + 1), inWords(each.setting), whole(each.rank), whole(each.candidates), each.exposure.toFixed(1), each.place === null ? "no" : String(each.place)]))),
  );
}

function gate(found: AuditView): Child {
  const gate = found.gate;
  if (gate === null) return null;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, "The gate", h("span", { class: "mark owner" }, "owner only")),
    h("p", { class: gate.verdict === "passed" ? "good" : "problem" }, gate.verdict === "passed" ? `Clip and noise passed every test in ${whole(gate.rounds)} rounds.` : "Something is broken at the gate: the stated epsilon does not hold. Do not use the model."),
    gate.scale && h("p", {}, `The noise that was measured is ${short(gate.scale[1])} times the stated one (between ${short(gate.scale[0])} and ${short(gate.scale[2])}).`),
    h("details", { open: gate.verdict !== "passed" }, h("summary", {}, `All ${gate.tests.length} tests`), tableOf(["test", "chance if all is well", "result"], gate.tests.map((test) => [test.name, test.chance.toPrecision(2), test.alarm ? `ALARM: ${test.what}` : "passed"]))),
  );
}
