// What every model in the page has in common: it reads token by token, as a keyboard does.

/** The ids that are no words, and the first id that is one (`reserved` in docs/export.md). */
export interface Reserved {
  readonly bos: number;
  readonly eos: number;
  readonly oov: number;
  readonly firstWord: number;
}

export interface Stepwise<State = unknown> {
  /** The state before the first token. */
  begin(): State;
  /** The state after one more token; the state that was given stays as it is. */
  read(state: State, token: number): State;
  /** The log probability of every id as the next token. */
  logProbabilities(state: State): Float32Array;
  /** The model reads so many tokens at most, the last ones; undefined: all. */
  readonly longest?: number;
}
