// Text to tokens: the rules of tacit/data/text.py, which a test compares with this file.

const LETTER = "[\\p{L}\\p{N}]";
// The combining marks of the basic plane.
const MARKS = "(?:(?![\\u{10000}-\\u{10FFFF}])\\p{M})+";
const WORD = `${LETTER}+(?:${MARKS}${LETTER}*)*`;
const TOKEN = new RegExp(`${WORD}(?:'${WORD})*|[-.,!?;:]`, "gu");
const ONE_WORD = new RegExp(`^${WORD}(?:'${WORD})*$`, "u");

/** Composed characters and straight apostrophes, so that one word has one spelling. */
export function plain(text: string): string {
  return text.normalize("NFC").replaceAll("\u2019", "'");
}

/** The tokens of a text, in lower case. */
export function tokenize(text: string): string[] {
  return plain(text).toLowerCase().match(TOKEN) ?? [];
}

/** Whether the whole text is one word. */
export function isWord(text: string): boolean {
  return ONE_WORD.test(plain(text).toLowerCase());
}

export function isPunctuation(token: string): boolean {
  return /^[-.,!?;:]$/.test(token);
}

/** Tokens as a text: no space before a mark of punctuation. */
export function joined(tokens: readonly string[]): string {
  return tokens.reduce((text, token) => text + (text === "" || isPunctuation(token) ? "" : " ") + token, "");
}
