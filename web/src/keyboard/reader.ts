// A model with the text that it has read: each beginning of a text is read once, and its answer is kept.

import { Lexicon } from "./lexicon";
import type { LoadedModel } from "./models/load";
import type { Stepwise } from "./models/stepwise";

// How many beginnings are kept; one holds a number for each word.
const KEPT = 96;

interface Reading {
  readonly state: unknown;
  logProbabilities?: Float32Array;
}

export class Reader {
  readonly lexicon: Lexicon;
  private readonly model: Stepwise;
  private readonly kept = new Map<string, Reading>();

  constructor(readonly loaded: LoadedModel) {
    this.model = loaded.model;
    this.lexicon = new Lexicon(loaded.words, loaded.reserved.firstWord);
  }

  /** The ids of a text that is typed: bos, then each token. */
  context(tokens: readonly string[]): number[] {
    const { bos, oov } = this.loaded.reserved;
    return [bos, ...tokens.map((token) => this.lexicon.idOf(token, oov))];
  }

  /** The log probability of each id after these ids. */
  after(ids: readonly number[]): Float32Array {
    const { longest } = this.model;
    const reading = this.read(longest === undefined ? ids : ids.slice(-longest));
    return (reading.logProbabilities ??= this.model.logProbabilities(reading.state));
  }

  private read(ids: readonly number[]): Reading {
    let known = ids.length;
    let reading: Reading | undefined;
    while (known > 0 && !(reading = this.kept.get(ids.slice(0, known).join()))) known--;
    reading ??= { state: this.model.begin() };
    for (; known < ids.length; known++) {
      reading = { state: this.model.read(reading.state, ids[known]!) };
      this.keep(ids.slice(0, known + 1).join(), reading);
    }
    return reading;
  }

  private keep(key: string, reading: Reading): void {
    this.kept.set(key, reading);
    if (this.kept.size > KEPT) this.kept.delete(this.kept.keys().next().value!);
  }
}
