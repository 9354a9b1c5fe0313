// What a model would have spared the user of the text that they have typed: the same text for every model.

import { type Layout, lettersOf } from "./layout";
import type { Reader } from "./reader";
import { nextWords, wordsFor } from "./suggestions";
import { tokenize } from "./tokens";

export interface Savings {
  readonly words: number; // of the text, marks of punctuation included, as `tacit compare` counts them
  readonly top3: number; // how many of them were among the three suggestions before their first letter
  readonly keys: number; // to type every word in full, with a space behind it
  readonly needed: number; // for a user who takes a word as soon as it is among the three
}

const NONE: Savings = { words: 0, top3: 0, keys: 0, needed: 0 };

/** Counts a model's savings, and remembers what it has counted. */
export class SavingsCounter {
  private readonly counted = new Map<string, Savings>();

  constructor(
    private readonly reader: Reader,
    private readonly layout: Layout,
  ) {}

  /** The savings on all words of these messages. */
  of(messages: readonly string[]): Savings {
    return messages.flatMap((message) => this.ofMessage(tokenize(message))).reduce(add, NONE);
  }

  private ofMessage(tokens: readonly string[]): Savings[] {
    return tokens.map((token, place) => {
      const key = tokens.slice(0, place + 1).join(" ");
      let found = this.counted.get(key);
      if (!found) this.counted.set(key, (found = this.ofWord(tokens.slice(0, place), token)));
      return found;
    });
  }

  private ofWord(before: readonly string[], word: string): Savings {
    const context = this.reader.context(before);
    const keys = word.length + 1;
    const isNext = nextWords(this.reader, context).some((each) => each.word === word);
    const counts = { words: 1, top3: isNext ? 1 : 0, keys };
    const letters = lettersOf(word);
    let needed = isNext ? 1 : keys;
    for (let typed = 1; !isNext && typed < letters.length; typed++) {
      const taps = [...letters.slice(0, typed)].map((letter) => this.layout.centre(letter));
      if (wordsFor(this.reader, this.layout, context, taps).some((each) => each.suggestion.word === word)) {
        needed = Math.min(keys, typed + 1);
        break;
      }
    }
    return { ...counts, needed };
  }
}

function add(one: Savings, other: Savings): Savings {
  return {
    words: one.words + other.words,
    top3: one.top3 + other.top3,
    keys: one.keys + other.keys,
    needed: one.needed + other.needed,
  };
}
