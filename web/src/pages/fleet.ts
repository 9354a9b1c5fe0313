// A running fleet as its administrator sees it: devices, rounds under way, what happened lately, alarms with what to do.
import { get, Problem, sentenceOf } from "../api";
import { lineChart, type Chart, type Curve } from "../chart";
import { h, put, type Child } from "../dom";
import { duration, epsilonText, whole } from "../words";

interface Sample {
  at: number;
  devices: number;
  selected: number;
  reported: number;
  committed: number;
  abandoned: number;
  dropouts: number;
  check_ins: number;
  reports: number;
  refused: number;
}

interface OpenRound {
  round: number;
  goal: number;
  places: number;
  selected: number;
  reported: number;
  seconds_left: number;
}

interface Task {
  name: string;
  active: boolean;
  paused: boolean;
  rounds: Record<string, number>;
  stage: string | null;
  under_way: OpenRound | null;
  could_come: number | null;
  last_abandoned: string | null;
  epsilon_spent: number | null;
  lost: number;
}

interface Fleet {
  server: string;
  devices: number;
  devices_by: Record<string, number>;
  dropouts: Record<string, number>;
  seconds_a_round: number | null;
  processes: Record<string, number>;
  tasks: Task[];
  alarms: { what: string; do: string }[];
  samples: Sample[];
}

const AGAIN_MS = 3_000;
const STAGES = ["selection", "reports", "sum, noise and server step"];
const ROLES: Record<string, string> = { all: "that does everything" };
const STATES: [string, string][] = [["working", "in a round"], ["ready", "ready"], ["quarantined", "in quarantine"], ["revoked", "revoked"]];

export async function fleetPage(main: HTMLElement, _parameters: string[], signal: AbortSignal): Promise<void> {
  const warned = h("div", { role: "alert" });
  let warnedOf = "";
  const now = h("div", {});
  const grid = h("div", { class: "grid" });
  const counts = h("div", { class: "grid" });
  const wrong = h("div", { role: "status" });
  const charts = new Map<string, Chart>();
  put(main, h("h1", {}, "Fleet"), wrong, warned, now, counts, grid);
  let first: Fleet;
  try {
    first = await get<Fleet>("/api/fleet", signal);
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 404) throw error;
    put(now, h("div", { class: "card" }, h("p", {}, error.sentence), h("pre", { class: "command" }, "tacit board --fleet https://localhost:8443 --admin-token runs/fleet-1/admin-token --ca runs/fleet-1/certificate.pem")));
    return;
  }
  draw(first);
  const timer = window.setInterval(() => void look(), AGAIN_MS);
  signal.addEventListener("abort", () => clearInterval(timer));

  async function look(): Promise<void> {
    try {
      draw(await get<Fleet>("/api/fleet", signal));
      put(wrong);
    } catch (error) {
      if (!signal.aborted) put(wrong, h("p", { class: "problem" }, sentenceOf(error)));
    }
  }

  function draw(fleet: Fleet): void {
    const alarm = JSON.stringify(fleet.alarms);
    if (alarm !== warnedOf) put(warned, alarms(fleet)); // the same alarm is not read out every few seconds
    warnedOf = alarm;
    put(now, facts(fleet), fleet.tasks.map(taskCard));
    const began = fleet.samples[0]?.at ?? 0;
    const of = (name: string, value: (sample: Sample) => number): Curve => ({ name, points: fleet.samples.map((sample) => [(sample.at - began) / 60, value(sample)]) });
    const rate = (name: string, value: (sample: Sample) => number): Curve => ({
      name,
      points: fleet.samples.slice(1).map((sample, place) => {
        const before = fleet.samples[place]!;
        const more = value(sample) - value(before);
        // A process that was started again counts from 0.
        return [(sample.at - began) / 60, more < 0 ? null : (60 * more) / Math.max(sample.at - before.at, 0.1)];
      }),
    });
    chart("In rounds under way", [of("selected devices", (sample) => sample.selected), of("reports", (sample) => sample.reported)]);
    chart("Requests a minute, at the process that answers", [rate("check-ins", (sample) => sample.check_ins), rate("reports", (sample) => sample.reports), rate("refused requests", (sample) => sample.refused)]);
    chart("Rounds", [of("committed", (sample) => sample.committed), of("abandoned", (sample) => sample.abandoned)]);
    chart("Devices enrolled, and places from which nothing came", [of("devices", (sample) => sample.devices), of("drop-outs so far", (sample) => sample.dropouts)]);
    put(counts, tally("Devices by state", STATES.map(([state, name]) => [name, fleet.devices_by[state] ?? 0]), "None yet."), tally("Drop-outs by what was missing", Object.entries(fleet.dropouts), "Every selected device has reported."));
  }

  function chart(title: string, curves: Curve[]): void {
    let known = charts.get(title);
    if (known === undefined) {
      known = lineChart({ title, x: "minutes since the board was started", group: "fleet", fromZero: true, empty: "A curve needs a few looks at the server." }, [], signal);
      charts.set(title, known);
      grid.append(known.element);
    }
    known.update(curves.some((curve) => curve.points.length > 1) ? curves : []);
  }
}

function alarms(fleet: Fleet): Child {
  if (fleet.alarms.length === 0) return h("p", { class: "good" }, "Nothing keeps this fleet from training.");
  return h("ul", { class: "alarms" }, fleet.alarms.map((alarm) => h("li", { class: "note" }, h("strong", {}, alarm.what), " ", alarm.do)));
}

function facts(fleet: Fleet): HTMLElement {
  const fact = (name: string, value: string, more: string) => h("div", { class: "fact" }, h("dt", {}, name), h("dd", {}, value, h("small", {}, more)));
  const total = (state: string) => fleet.tasks.reduce((sum, task) => sum + (task.rounds[state] ?? 0), 0);
  const under = fleet.tasks.flatMap((task) => (task.under_way === null ? [] : [task.under_way]));
  const ended = total("committed") + total("abandoned");
  return h(
    "dl",
    { class: "facts" },
    fact("Devices", whole(fleet.devices), "enrolled, not revoked"),
    fact("In rounds now", whole(under.reduce((sum, each) => sum + each.selected, 0)), `${whole(under.reduce((sum, each) => sum + each.reported, 0))} have reported`),
    fact("Rounds committed", whole(total("committed")), ended === 0 ? "none has ended yet" : `${whole(total("abandoned"))} abandoned, which release nothing`),
    fact("Pace", fleet.seconds_a_round === null ? "–" : `${duration(fleet.seconds_a_round)} a round`, fleet.seconds_a_round === null ? "no round has been committed yet" : "of committed rounds, on average"),
    fact("Processes", whole(Object.values(fleet.processes).reduce((sum, count) => sum + count, 0)), Object.entries(fleet.processes).map(([role, count]) => `${count} ${ROLES[role] ?? role}`).join(", ") || "none was seen recently"),
  );
}

function taskCard(task: Task): HTMLElement {
  const open = task.under_way;
  return h(
    "section",
    { class: "card" },
    h("h2", {}, task.name, " ", h("span", { class: `state ${task.paused ? "state-stopped" : task.active ? "state-running" : "state-finished"}` }, task.paused && task.active ? "paused" : task.active ? "active" : "ended")),
    task.active && h("ol", { class: "stages", "aria-label": "Stages of a round" }, STAGES.map((stage) => h("li", { "aria-current": stage === task.stage ? "step" : null }, stage))),
    open === null
      ? h("p", { class: "quiet" }, task.stage === null ? "No round is open." : "The round's reports are in.")
      : [
          h("p", {}, `Round ${whole(open.round)}: ${whole(open.selected)} of ${whole(open.places)} places taken, ${whole(open.reported)} of ${whole(open.goal)} reports, ${duration(open.seconds_left)} left.`, task.could_come !== null && ` About ${whole(task.could_come)} devices could come.`),
          h("progress", { max: open.goal, value: Math.min(open.reported, open.goal), "aria-label": `${open.reported} of ${open.goal} reports` }),
        ],
    h("p", {}, h("strong", {}, "Budget. "), task.epsilon_spent === null ? "ε so far is not known, or infinite: the run's page says which." : `ε so far = ${epsilonText(task.epsilon_spent)}, for what the ledger has.`, task.lost > 0 && (task.lost === 1 ? " A lost round is in it." : ` ${whole(task.lost)} lost rounds are in it.`)),
    Object.keys(task.rounds).length > 0 && h("p", { class: "quiet" }, `Rounds: ${Object.entries(task.rounds).map(([state, count]) => `${whole(count)} ${state}`).join(", ")}.`),
    task.last_abandoned !== null && h("p", { class: "quiet" }, `The last round that was abandoned: ${task.last_abandoned}`),
  );
}

/** Counts by name, as bars. */
function tally(title: string, counts: [string, number][], none: string): HTMLElement {
  const most = Math.max(...counts.map(([, count]) => count), 1);
  const bar = (count: number) => {
    const drawn = h("div", { class: "bar" });
    drawn.style.width = `${(100 * count) / most}%`;
    return drawn;
  };
  return h(
    "section",
    { class: "card" },
    h("h2", {}, title),
    counts.some(([, count]) => count > 0)
      ? h("ul", { class: "words" }, counts.map(([name, count]) => h("li", { class: "suggestion tally" }, h("span", {}, name), count > 0 ? bar(count) : h("span", {}), h("span", {}, whole(count)))))
      : h("p", { class: "quiet" }, none),
  );
}
