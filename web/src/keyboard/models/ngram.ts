// The back-off n-gram model of tacit/keyboard/ngram.py. Its file holds the n-grams of each order as a tree: the n-grams that
// go on from context i of order k are those from starts[i] to starts[i + 1] of order k + 1, ordered by their last word.

import type { Tensor } from "../safetensors";
import { ModelProblem } from "../safetensors";
import type { Stepwise } from "./stepwise";

interface Level {
  readonly starts: Float32Array; // for each context of the order below, and the end
  readonly lastWords: Float32Array;
  readonly logProbabilities: Float32Array;
  readonly logBackoff: Float32Array; // of each context of the order below
}

/** The index of the n-gram of the last 1, 2, … tokens; -1 for one that was not seen. */
export type Contexts = readonly number[];

export class Ngram implements Stepwise<Contexts> {
  private readonly singles: Float32Array;
  private readonly levels: readonly Level[];

  constructor(tensors: ReadonlyMap<string, Tensor>, order: number) {
    const need = (name: string): Float32Array => {
      const found = tensors.get(name);
      if (!found) throw new ModelProblem(`The model's file is damaged: the array ${name} is missing.`);
      return found.data;
    };
    this.singles = need("log_probabilities.1");
    this.levels = Array.from({ length: order - 1 }, (_, k) => ({
      starts: need(`starts.${k + 2}`),
      lastWords: need(`last_words.${k + 2}`),
      logProbabilities: need(`log_probabilities.${k + 2}`),
      logBackoff: need(`log_backoff.${k + 1}`),
    }));
  }

  begin(): Contexts {
    return this.levels.map(() => -1);
  }

  read(state: Contexts, token: number): Contexts {
    return this.levels.map((_, k) => (k === 0 ? token : this.find(this.levels[k - 1]!, state[k - 1]!, token)));
  }

  logProbabilities(state: Contexts): Float32Array {
    const pieces: { level: Level; context: number; beyond: number }[] = [];
    let beyond = 0; // log of the back-off weights of all longer contexts
    for (let k = this.levels.length - 1; k >= 0; k--) {
      const level = this.levels[k]!;
      const context = state[k]!;
      if (context < 0 || level.logBackoff.length === 0) continue;
      pieces.push({ level, context, beyond });
      beyond += level.logBackoff[context]!;
    }
    const out = this.singles.map((value) => value + beyond);
    for (const { level, context, beyond } of pieces.reverse()) {
      for (let at = level.starts[context]!; at < level.starts[context + 1]!; at++) {
        out[level.lastWords[at]!] = level.logProbabilities[at]! + beyond;
      }
    }
    return out;
  }

  private find(level: Level, context: number, token: number): number {
    if (context < 0) return -1;
    let low = level.starts[context]!;
    let high = level.starts[context + 1]!;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (level.lastWords[middle]! < token) low = middle + 1;
      else high = middle;
    }
    return low < level.starts[context + 1]! && level.lastWords[low] === token ? low : -1;
  }
}
