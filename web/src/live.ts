// What changes on the server, as it happens. When the board is gone the page says so, tries again, and loads everything anew.
// A page that nobody sees does not listen: a browser opens six connections to a server, so the seventh tab would wait for ever.
import type { RunRow } from "./types";

export type Listener = (event: { kind: "run"; row: RunRow } | { kind: "gone"; key: string } | { kind: "again" }) => void;

const QUIET_MS = 12_000;
const RETRY_MS = 1_000;
const FIRST_MS = 1_000;

class Live {
  private readonly listeners = new Set<Listener>();
  private source: EventSource | null = null;
  private heard = 0;
  private lost = false;
  private heardFirst = false;
  private late = false;
  private begun: () => void = () => undefined;
  /** Settled when changes arrive. What is loaded after it misses none; a page does not wait for it for long. */
  readonly ready = new Promise<void>((resolve) => (this.begun = resolve));

  constructor(private readonly say: (lost: boolean) => void) {
    if (!document.hidden) this.connect();
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : (this.source ?? this.connect())));
    window.setTimeout(() => {
      this.late ||= !this.heardFirst; // what was loaded before the first word is loaded again then
      this.begun();
    }, FIRST_MS);
    window.setInterval(() => {
      if (!document.hidden && Date.now() - this.heard > QUIET_MS) this.dropped();
    }, 2_000);
  }

  listen(listener: Listener, signal: AbortSignal): void {
    this.listeners.add(listener);
    signal.addEventListener("abort", () => this.listeners.delete(listener));
  }

  private connect(): void {
    this.heard = Date.now();
    const source = new EventSource("/api/events");
    this.source = source;
    const on = (kind: string, then: (data: any) => void) =>
      source.addEventListener(kind, (event) => {
        this.heard = Date.now();
        then(JSON.parse((event as MessageEvent).data));
      });
    on("hello", () => {
      this.say(false);
      this.heardFirst = true;
      this.begun();
      if (this.lost || this.late) this.tell({ kind: "again" });
      this.lost = this.late = false;
    });
    on("beat", () => undefined);
    on("run", (row) => this.tell({ kind: "run", row }));
    on("gone", ({ key }) => this.tell({ kind: "gone", key }));
    source.onerror = () => this.dropped();
  }

  private dropped(): void {
    this.source?.close();
    this.source = null;
    this.heard = Date.now();
    if (!this.lost) this.say(true);
    this.lost = true;
    window.setTimeout(() => document.hidden || (this.source ?? this.connect()), RETRY_MS);
  }

  private pause(): void {
    this.source?.close();
    this.source = null;
    this.late = true;
  }

  private tell(event: Parameters<Listener>[0]): void {
    for (const listener of [...this.listeners]) listener(event);
  }
}

let live: Live | null = null;

/** Begin to listen; `say` is called when the board goes away and when it is back. */
export function startLive(say: (lost: boolean) => void): void {
  live ??= new Live(say);
}

/** Wait until changes arrive, for a second at most. */
export function listening(): Promise<void> {
  return live?.ready ?? Promise.resolve();
}

/** Call `listener` with every change until `signal` ends it. */
export function onChange(listener: Listener, signal: AbortSignal): void {
  live?.listen(listener, signal);
}
