// The board's JSON. A failure is a `Problem` with the server's sentence, or one that says that the board is gone.

export class Problem extends Error {
  constructor(
    readonly sentence: string,
    readonly status: number,
    readonly hint?: string,
  ) {
    super(sentence);
  }
}

async function ask(path: string, options: RequestInit): Promise<{ text: string; response: Response }> {
  try {
    const response = await fetch(path, { credentials: "same-origin", ...options });
    return { text: await response.text(), response };
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem("The board does not answer. Is tacit board still running?", 0);
  }
}

async function answer<T>(path: string, options: RequestInit): Promise<T> {
  const { text, response } = await ask(path, options);
  let body: any = null;
  try {
    body = JSON.parse(text);
  } catch {
    throw new Problem(`The board answered with something that is not JSON (${response.status}).`, response.status);
  }
  if (!response.ok) throw new Problem(body?.problem ?? `The board answered ${response.status}.`, response.status, body?.hint);
  return body as T;
}

/** A file of the board as it is. */
export async function getText(path: string, signal: AbortSignal): Promise<string> {
  const { text, response } = await ask(path, { signal });
  if (response.ok) return text;
  let sentence = `The board answered ${response.status}.`;
  try {
    sentence = JSON.parse(text).problem ?? sentence;
  } catch {
    // No sentence came with it.
  }
  throw new Problem(sentence, response.status);
}

export function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answer<T>(path, { signal: signal ?? null });
}

export function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return answer<T>(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
}

/** What to show of an error: one sentence. */
export function sentenceOf(error: unknown): string {
  return error instanceof Problem ? error.sentence : `The page could not be shown (${String(error)}).`;
}
