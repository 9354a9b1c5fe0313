// What the server offers, as tacit/web/keyboard/ sends it, and the files that the page loads.
import { Problem, get } from "../api";
import type { Rules } from "./layout";
import { type LoadedModel, loadModel } from "./models/load";
import { Reader } from "./reader";
import { ModelProblem } from "./safetensors";

export interface OfferedModel {
  readonly key: string;
  readonly run: string;
  readonly name: string;
  readonly kind: "trained" | "pretrained" | "ngram";
  readonly badge: string;
  readonly is_private: boolean;
  readonly statement: string;
  readonly meaning: string;
  readonly problem: string | null;
}

export interface Offer {
  readonly rules: Rules;
  readonly models: readonly OfferedModel[];
}

/** A model in the page, or why it is not there. */
export interface Loaded {
  readonly about: OfferedModel;
  readonly reader?: Reader;
  readonly problem?: string;
  readonly bytes: number;
}

/** More models than this are not compared at a glance. */
export const MOST_MODELS = 4;

export function askOffer(runs: readonly string[]): Promise<Offer> {
  return get<Offer>(`/api/keyboard?${new URLSearchParams(runs.map((run) => ["run", run]))}`);
}

/** The models to load: those that the address names, or each run's own, then the first run's others. */
export function chosenOf(models: readonly OfferedModel[], named: readonly string[]): OfferedModel[] {
  const ready = models.filter((model) => model.problem === null);
  const asked = ready.filter((model) => named.includes(model.key));
  if (asked.length > 0) return asked.slice(0, MOST_MODELS);
  const own = ready.filter((model) => model.kind === "trained");
  const others = ready.filter((model) => model.kind !== "trained" && model.run === (own[0] ?? ready[0])?.run);
  return [...own, ...others].slice(0, MOST_MODELS);
}

export async function load(about: OfferedModel): Promise<Loaded> {
  try {
    const response = await fetch(`/api/keyboard/models/${encodeURIComponent(about.key)}`);
    if (!response.ok) throw new Problem(((await response.json()) as { problem: string }).problem, response.status);
    const file = await response.arrayBuffer();
    const loaded: LoadedModel = loadModel(file);
    return { about, reader: new Reader(loaded), bytes: file.byteLength };
  } catch (error) {
    const known = error instanceof ModelProblem ? error.message : error instanceof Problem ? error.sentence : undefined;
    return { about, problem: known ?? `The model could not be loaded (${String(error)}).`, bytes: 0 };
  }
}
