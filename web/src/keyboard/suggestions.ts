// What the keyboard shows. The rules are those of `tacit compare` (tacit/keyboard/replay.py and taps.py), plus completions.

import { Layout, LETTERS, type Point, lettersOf } from "./layout";
import type { Reader } from "./reader";

export interface Suggestion {
  readonly id: number; // that of an unknown word for what was typed itself
  readonly word: string;
  readonly probability: number; // of the word after the text, whatever has been typed of it
}

export const SHOWN = 3;

/** The likeliest next words: never a reserved entry, and among equals the smaller id first. */
export function nextWords(reader: Reader, context: readonly number[], count = SHOWN): Suggestion[] {
  const logs = reader.after(context);
  return best(logs, reader.loaded.reserved.firstWord, count).map((id) => suggestion(reader, logs, id));
}

/**
 * The words that may be meant by these taps: those with as many letters, and longer ones that begin so.
 *
 * A word's score is log p(taps | its first letters) + language_weight · log P(word | text). Words whose taps are less likely
 * than the best by more than `reach` are left out. `same`: only words with as many letters.
 */
export function wordsFor(
  reader: Reader,
  layout: Layout,
  context: readonly number[],
  taps: readonly Point[],
  { count = SHOWN, same = false } = {},
): { suggestion: Suggestion; score: number; isWhole: boolean }[] {
  const logs = reader.after(context);
  const { letters } = reader.lexicon;
  const byTap = taps.map((tap) => layout.scores(tap));
  const { reach, language_weight: weight } = layout.rules;
  const spatial = new Float32Array(letters.length).fill(-Infinity);
  let nearest = -Infinity;
  for (let id = 0; id < letters.length; id++) {
    const keys = letters[id]!;
    if (keys.length < taps.length || (same && keys.length !== taps.length)) continue;
    let sum = 0;
    for (let i = 0; i < byTap.length; i++) sum += byTap[i]![keys[i]!]!;
    spatial[id] = sum;
    if (sum > nearest) nearest = sum;
  }
  const total = spatial.map((sum, id) => (sum >= nearest - reach ? sum + weight * logs[id]! : -Infinity));
  return best(total, 0, count)
    .filter((id) => total[id]! > -Infinity)
    .map((id) => ({
      suggestion: suggestion(reader, logs, id),
      score: total[id]!,
      isWhole: letters[id]!.length === taps.length,
    }));
}

/**
 * The word that is committed for what was typed: `typed` itself, or the word that these taps more likely mean.
 *
 * Among the words of the vocabulary with as many letters the one with the best score, as in `tacit compare`. There, users only
 * type words that the vocabulary has; here, a word that it lacks is one candidate more, with the probability of an unknown
 * word, spread evenly over all spellings of this length.
 */
export function committed(
  reader: Reader,
  layout: Layout,
  context: readonly number[],
  typed: string,
  taps: readonly Point[],
): string {
  const word = typed.toLowerCase();
  const letters = lettersOf(word);
  if (letters === "" || letters.length !== taps.length) return typed;
  const { oov } = reader.loaded.reserved;
  const isKnown = reader.lexicon.idOf(word, oov) !== oov;
  if (isKnown && word !== letters) return typed; // an apostrophe or an accent was typed: it is meant
  const found = wordsFor(reader, layout, context, taps, { count: 1, same: true })[0];
  if (!found || found.suggestion.word === word) return typed;
  if (!isKnown) {
    const spatial = taps.reduce((sum, tap, i) => sum + layout.scores(tap)[LETTERS.indexOf(letters[i]!)]!, 0);
    const unknown = reader.after(context)[oov]! - taps.length * Math.log(LETTERS.length);
    const isNear = lettersOf(found.suggestion.word) === letters; // only an accent or an apostrophe is added
    if (!isNear && spatial + layout.rules.language_weight * unknown >= found.score) return typed;
  }
  return withCaseOf(typed, found.suggestion.word);
}

/** Smart Compose: the phrase that the model is sure of, of two words or more; empty if there is none. */
export function phrase(reader: Reader, layout: Layout, context: readonly number[]): string[] {
  const { eos, firstWord } = reader.loaded.reserved;
  const least = Math.log(layout.rules.confidence);
  const ids = [...context];
  const words: string[] = [];
  let soFar = 0;
  while (words.length < layout.rules.longest_phrase) {
    const logs = reader.after(ids);
    const id = best(logs, eos, 1)[0]!;
    soFar += logs[id]!;
    // The end of the sentence and an unknown word cannot be shown: the phrase ends here.
    if (id < firstWord || !(soFar >= least)) break;
    words.push(reader.loaded.words[id]!);
    ids.push(id);
  }
  return words.length >= 2 ? words : [];
}

/** For a script without keys here: the likeliest words that begin like this. */
export function wordsBeginning(
  reader: Reader,
  context: readonly number[],
  typed: string,
  count = SHOWN,
): Suggestion[] {
  const logs = reader.after(context);
  const { words } = reader.loaded;
  const fitting = logs.map((log, id) => (id >= reader.loaded.reserved.firstWord && words[id]!.startsWith(typed) ? log : -Infinity));
  return best(fitting, 0, count)
    .filter((id) => fitting[id]! > -Infinity)
    .map((id) => suggestion(reader, logs, id));
}

/** The places of the `count` largest numbers from `first` on, the largest first; among equals the smaller place. */
export function best(values: Float32Array, first: number, count: number): number[] {
  const found: number[] = [];
  for (let at = first; at < values.length; at++) {
    if (found.length === count && !(values[at]! > values[found[count - 1]!]!)) continue;
    let place = found.length;
    while (place > 0 && values[at]! > values[found[place - 1]!]!) place--;
    found.splice(place, 0, at);
    if (found.length > count) found.pop();
  }
  return found;
}

/** `word` with a capital if `typed` begins with one; all capitals if `typed` has nothing else. */
export function withCaseOf(typed: string, word: string): string {
  const small = typed.toLowerCase();
  if (typed.length > 1 && typed === typed.toUpperCase() && typed !== small) return word.toUpperCase();
  const isCapital = typed[0] !== small[0];
  return isCapital ? word[0]!.toUpperCase() + word.slice(1) : word;
}

function suggestion(reader: Reader, logs: Float32Array, id: number): Suggestion {
  return { id, word: reader.loaded.words[id]!, probability: Math.exp(logs[id]!) };
}
