// The keys of letters and where they are: tacit/keyboard/taps.py says so, and the server sends it (`rules`).

/** What `tacit compare` assumes of a keyboard: tacit/keyboard/taps.py and tacit/keyboard/replay.py. */
export interface Rules {
  readonly rows: readonly (readonly [string, number])[]; // letters, and how many keys the row is shifted
  readonly key_height: number; // in key widths
  readonly spread: number;
  readonly reach: number;
  readonly language_weight: number;
  readonly confidence: number;
  readonly longest_phrase: number;
}

/** Where a finger came down, in key widths and key heights. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

export const LETTERS = "abcdefghijklmnopqrstuvwxyz";

export class Layout {
  readonly centres: readonly Point[];

  constructor(readonly rules: Rules) {
    const places = new Map<string, Point>();
    rules.rows.forEach(([letters, shift], row) => {
      [...letters].forEach((letter, column) => places.set(letter, { x: shift + column + 0.5, y: row + 0.5 }));
    });
    this.centres = [...LETTERS].map((letter) => places.get(letter)!);
  }

  centre(letter: string): Point {
    return this.centres[LETTERS.indexOf(letter)]!;
  }

  /** log p(tap | letter) of each of the 26 letters, up to a constant. */
  scores(tap: Point): Float32Array {
    const scale = -0.5 / this.rules.spread ** 2;
    return Float32Array.from(this.centres, ({ x, y }) => scale * ((tap.x - x) ** 2 + (tap.y - y) ** 2));
  }
}

/** The letters that type a word: users leave accents and apostrophes to the keyboard. Empty if a character has no key. */
export function lettersOf(word: string): string {
  const letters = word.normalize("NFD").replace(/\p{M}/gu, "").replaceAll("'", "");
  return /^[a-z]+$/.test(letters) ? letters : "";
}
