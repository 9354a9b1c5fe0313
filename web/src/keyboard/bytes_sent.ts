// How much this page has sent since it opened. Loading asks for files and sends nothing else; afterwards the page locks itself.

/** A way out of a page, and what goes through it. */
interface Sent {
  requests: number;
  bytes: number;
}

type Listener = (sent: Readonly<Sent>) => void;

const encoder = new TextEncoder();

// Connections that no Content-Security-Policy of today's browsers refuses. The page takes them away from all its code.
const UNGOVERNED = ["RTCPeerConnection", "webkitRTCPeerConnection"];

/** Counts what leaves the page: it wraps every call that can send, and asks the browser what it has fetched. */
export class BytesSent {
  private readonly sent: Sent = { requests: 0, bytes: 0 };
  private isCounting = false;
  private readonly listeners: Listener[] = [];

  constructor(where: typeof globalThis = globalThis) {
    const count = (body: unknown, address: unknown = "") => this.count(sizeOf(body) + sizeOf(String(address)));
    const { fetch: fetched, WebSocket: Socket, EventSource: Source } = where;
    const { open, send } = XMLHttpRequest.prototype;
    const beacon = Navigator.prototype.sendBeacon;
    where.fetch = (input, init) => {
      const address = input instanceof Request ? input.url : input;
      count(init?.body, address);
      return fetched.call(where, input, init);
    };
    const addresses = new WeakMap<XMLHttpRequest, string>();
    XMLHttpRequest.prototype.open = function (this: XMLHttpRequest, method: string, url: string | URL, ...rest: never[]) {
      addresses.set(this, String(url));
      return (open as (...all: unknown[]) => void).call(this, method, url, ...rest);
    } as typeof open;
    XMLHttpRequest.prototype.send = function (this: XMLHttpRequest, body) {
      count(body, addresses.get(this));
      return send.call(this, body);
    };
    Navigator.prototype.sendBeacon = function (this: Navigator, url, body) {
      count(body, url);
      return beacon.call(this, url, body);
    };
    where.WebSocket = class extends Socket {
      constructor(url: string | URL, protocols?: string | string[]) {
        count("", url);
        super(url, protocols);
      }
      override send(data: string | ArrayBufferLike | Blob | ArrayBufferView): void {
        count(data);
        super.send(data as string);
      }
    };
    where.EventSource = class extends Source {
      constructor(url: string | URL, options?: EventSourceInit) {
        count("", url);
        super(url, options);
      }
    };
    for (const name of UNGOVERNED) {
      class Refused {
        constructor() {
          count("", name);
          throw new DOMException(`${name} is refused: nothing leaves this page.`, "SecurityError");
        }
      }
      Object.defineProperty(where, name, { value: Refused, writable: false, configurable: false });
    }
    // What nothing above has seen: pictures, styles, scripts, frames.
    new PerformanceObserver((list) => {
      for (const entry of list.getEntries() as PerformanceResourceTiming[]) {
        if (!["fetch", "xmlhttprequest", "beacon"].includes(entry.initiatorType)) this.count(sizeOf(entry.name), entry.startTime);
      }
    }).observe({ type: "resource" });
  }

  /** From here on everything counts. */
  start(listener: Listener): void {
    this.isCounting = true;
    this.startedAt = performance.now();
    this.listeners.push(listener);
    listener(this.sent);
  }

  private startedAt = Infinity;

  private count(bytes: number, at = Infinity): void {
    if (!this.isCounting || at < this.startedAt) return;
    this.sent.requests++;
    this.sent.bytes += bytes;
    for (const listener of this.listeners) listener(this.sent);
  }
}

/**
 * Forbid every connection from here on, whatever code of this page asks for it. A page can make its policy stricter and never
 * milder, so nothing can take this back before the page is loaded again.
 */
export function lock(): void {
  const policy = document.createElement("meta");
  policy.httpEquiv = "Content-Security-Policy";
  policy.content =
    "default-src 'none'; connect-src 'none'; img-src 'none'; font-src 'none'; media-src 'none'; frame-src 'none'; " +
    "worker-src 'none'; script-src 'none'; form-action 'none'";
  document.head.append(policy);
}

function sizeOf(body: unknown): number {
  if (body === null || body === undefined) return 0;
  if (typeof body === "string") return encoder.encode(body).length;
  if (body instanceof Blob) return body.size;
  if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return body.byteLength;
  if (body instanceof URLSearchParams || body instanceof URL) return encoder.encode(String(body)).length;
  return 1; // of a form or a stream nobody knows the size: it was not nothing
}
