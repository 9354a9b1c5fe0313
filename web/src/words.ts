// Numbers as people read them. An epsilon is never rounded down.

export function percent(share: number | null | undefined, digits = 1): string {
  return share === null || share === undefined ? "–" : `${(100 * share).toFixed(digits)}%`;
}

export function whole(value: number | null | undefined): string {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US");
}

/** Epsilon with three digits, rounded up. */
export function epsilonText(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  const shown = Number(value.toFixed(Math.min(digits, 12)));
  const step = 10 ** -digits;
  return (shown < value * (1 - 1e-12) ? shown + step : shown).toFixed(Math.min(digits, 12));
}

export function short(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e12) return value.toExponential(2);
  return Number.isInteger(value) ? whole(value) : String(Number(value.toPrecision(4)));
}

/** How long ago, in words. */
export function ago(iso: string, now = Date.now()): string {
  const then = Date.parse(iso);
  if (Number.isNaN(then)) return "–";
  const minutes = Math.max(0, (now - then) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${Math.floor(minutes)} min ago`;
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return `${Math.floor(minutes / 1440)} days ago`;
}

/** A duration that nobody takes for exact. */
export function duration(seconds: number): string {
  if (seconds < 90) return `${Math.max(1, Math.round(seconds))} s`;
  if (seconds < 120 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 72 * 3600) return `${(seconds / 3600).toFixed(1)} h`;
  return `${Math.round(seconds / 86400)} days`;
}
