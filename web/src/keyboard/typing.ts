// A text that is being typed: what each key does to it, and how many keys were pressed. Nothing here knows of the page.

import type { Layout, Point } from "./layout";
import { lettersOf } from "./layout";
import type { Reader } from "./reader";
import {
  committed,
  nextWords,
  phrase,
  SHOWN,
  type Suggestion,
  withCaseOf,
  wordsBeginning,
  wordsFor,
} from "./suggestions";
import { isPunctuation, tokenize } from "./tokens";

const LAST_WORD = /[\p{L}\p{N}][\p{L}\p{N}\p{M}'\u2019]*$/u;
const WORD_FOLLOWS = /^[\p{L}\p{N}\p{M}'\u2019]/u;

export interface Shown {
  /** "next": before a word. "word": while a word is typed. */
  readonly kind: "next" | "word";
  readonly suggestions: readonly Suggestion[];
  /** What a space would make of the word that is typed, if that is not what was typed. */
  readonly correction?: string;
}

/** A text, where the caret is in it, and where the fingers came down for the letters of the word before the caret. */
export class Typing {
  text = "";
  caret = 0;
  corrects = true;
  presses = 0;
  messages: string[] = [];
  private taps: Point[] = [];
  private tapped = ""; // the word that `taps` are for
  private corrected?: { at: number; typed: string; word: string }; // what a backspace takes back
  private keptAs = ""; // a word that is not corrected again, because its correction was taken back
  private spaceIsOurs = false; // the space before the caret came with a suggestion

  constructor(private readonly layout: Layout) {}

  /** The word before the caret; empty before a word and inside one. */
  get word(): string {
    if (WORD_FOLLOWS.test(this.text.slice(this.caret))) return "";
    return LAST_WORD.exec(this.text.slice(0, this.caret))?.[0] ?? "";
  }

  /** The tokens before the word that is typed. */
  get before(): string[] {
    return tokenize(this.text.slice(0, this.caret - this.word.length));
  }

  /** All characters that were typed, those of messages that were sent included. */
  get characters(): number {
    return this.messages.reduce((sum, message) => sum + message.length + 1, this.text.length);
  }

  show(reader: Reader, count = SHOWN): Shown {
    const context = reader.context(this.before);
    const { word } = this;
    if (word === "") return { kind: "next", suggestions: nextWords(reader, context, count) };
    const taps = this.tapsOf(word);
    if (taps.length === 0) return { kind: "word", suggestions: wordsBeginning(reader, context, word.toLowerCase(), count) };
    const found = wordsFor(reader, this.layout, context, taps, { count }).map((each) => each.suggestion);
    const correction = this.correctionOf(reader, word);
    if (correction === undefined) return { kind: "word", suggestions: found };
    // The word that a space commits is always among those that are shown.
    const at = found.findIndex((each) => withCaseOf(word, each.word) === correction);
    if (at < 0) {
      const same = wordsFor(reader, this.layout, context, taps, { count: 1, same: true })[0]!.suggestion;
      found.splice(count - 1, 1, same);
    }
    return { kind: "word", suggestions: found, correction };
  }

  /** The phrase in grey: before a word, at the end of the text. */
  phrase(reader: Reader): string[] {
    if (this.word !== "" || this.caret !== this.text.length || !/(^|\s)$/.test(this.text)) return [];
    return phrase(reader, this.layout, reader.context(this.before));
  }

  /** A letter by a tap at this point, or by a key that has no place. */
  letter(letter: string, tap?: Point): void {
    const { word } = this;
    const taps = this.tapsOf(word);
    this.insert(letter);
    const keys = [...lettersOf(letter.toLowerCase())];
    if (this.word === word + letter && lettersOf(word.toLowerCase()).length === taps.length) {
      this.taps = [...taps, ...keys.map((key) => tap ?? this.layout.centre(key))];
      this.tapped = this.word;
    }
    this.presses++;
  }

  /** A space, a mark of punctuation, or the end of the message ("\n"): the word before it is committed. */
  end(reader: Reader, mark: string): { typed: string; word: string } | undefined {
    this.presses++;
    const done = this.commit(reader);
    if (isPunctuation(mark) && this.spaceIsOurs && this.text[this.caret - 1] === " ") {
      this.replace(this.caret - 1, this.caret, mark + " ");
      this.spaceIsOurs = true;
      return done;
    }
    if (mark === "\n") {
      if (this.text.trim() !== "") this.messages.push(this.text.trim());
      this.become("", 0);
      return done;
    }
    if (mark === " " && this.spaceIsOurs && this.text[this.caret - 1] === " ") {
      this.spaceIsOurs = false; // a suggestion has brought the space already
      return done;
    }
    const { corrected } = this;
    this.insert(mark);
    this.corrected = done ? corrected : undefined;
    return done;
  }

  /** Take back the last correction, or the character before the caret. */
  backspace(): void {
    this.presses++;
    const last = this.corrected;
    if (last && this.caret === last.at + last.word.length + 1 && this.text.startsWith(last.word, last.at)) {
      this.replace(last.at, last.at + last.word.length + 1, last.typed);
      this.keptAs = last.typed;
      return;
    }
    const taps = this.tapsOf(this.word);
    const character = [...this.text.slice(0, this.caret)].at(-1);
    if (character === undefined) return;
    this.replace(this.caret - character.length, this.caret, "");
    if (this.word !== "" && taps.length > 1) {
      this.taps = taps.slice(0, -1);
      this.tapped = this.word;
    }
  }

  /** A suggestion is taken: it replaces the word that is typed, and a space follows. */
  pick(suggestion: { readonly word: string }): void {
    this.presses++;
    this.put(suggestion.word);
  }

  /** The phrase in grey is taken. */
  accept(words: readonly string[]): void {
    this.presses++;
    for (const word of words) this.put(word);
  }

  /** The text was changed by something else: another keyboard, the clipboard, a click. */
  become(text: string, caret: number): void {
    const grown = text.length - this.text.length;
    this.presses += grown > 0 ? grown : grown < 0 ? 1 : 0;
    this.text = text;
    this.caret = caret;
    this.corrected = undefined;
    this.spaceIsOurs = false;
  }

  clear(): void {
    this.become("", 0);
    this.messages = [];
    this.presses = 0;
  }

  private put(suggested: string): void {
    const { word } = this;
    const start = this.caret - word.length;
    if (isPunctuation(suggested) && word === "" && this.text[start - 1] === " ") {
      this.replace(start - 1, this.caret, `${suggested} `);
    } else {
      const gap = word === "" && /\S$/.test(this.text.slice(0, start)) ? " " : "";
      this.replace(start, this.caret, `${gap}${word === "" ? suggested : withCaseOf(word, suggested)} `);
    }
    this.spaceIsOurs = true;
  }

  private commit(reader: Reader): { typed: string; word: string } | undefined {
    const typed = this.word;
    const word = this.correctionOf(reader, typed);
    if (word === undefined) return undefined;
    const at = this.caret - typed.length;
    this.replace(at, this.caret, word);
    this.corrected = { at, typed, word };
    return { typed, word };
  }

  private correctionOf(reader: Reader, typed: string): string | undefined {
    if (!this.corrects || typed === "" || typed === this.keptAs) return undefined;
    const word = committed(reader, this.layout, reader.context(this.before), typed, this.tapsOf(typed));
    return word === typed ? undefined : word;
  }

  /** Where the fingers came down for this word; the middle of each key where nobody knows. */
  private tapsOf(word: string): readonly Point[] {
    if (word !== this.tapped) {
      this.tapped = word;
      this.taps = [...lettersOf(word.toLowerCase())].map((letter) => this.layout.centre(letter));
    }
    return this.taps;
  }

  private insert(text: string): void {
    this.replace(this.caret, this.caret, text);
  }

  private replace(from: number, to: number, text: string): void {
    this.text = this.text.slice(0, from) + text + this.text.slice(to);
    this.caret = from + text.length;
    this.corrected = undefined;
    this.spaceIsOurs = false;
    if (this.keptAs !== "" && !this.text.includes(this.keptAs)) this.keptAs = "";
  }
}
