// The words that can be typed, by their keys.

import { LETTERS, lettersOf } from "./layout";

export class Lexicon {
  /** Which letters type word i; empty for reserved entries and for words with a character that has no key. */
  readonly letters: readonly Uint8Array[];
  private readonly ids: ReadonlyMap<string, number>;

  constructor(
    readonly words: readonly string[],
    readonly firstWord: number,
  ) {
    this.letters = words.map((word, id) =>
      Uint8Array.from(id < firstWord ? "" : lettersOf(word), (letter) => LETTERS.indexOf(letter)),
    );
    this.ids = new Map(words.map((word, id) => [word, id]));
  }

  /** The id of a token, `unknown` if the vocabulary does not have it. */
  idOf(token: string, unknown: number): number {
    const id = this.ids.get(token);
    return id === undefined || id < this.firstWord ? unknown : id;
  }
}
