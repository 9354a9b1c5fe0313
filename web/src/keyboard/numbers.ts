// Numbers as people read them.

/** A share as per cent: one decimal below ten, and never 0 for what is possible. */
export function percent(share: number): string {
  const value = 100 * share;
  if (value > 0 && value < 0.05) return "<0.1%";
  return value < 10 ? `${value.toFixed(1)}%` : `${Math.round(value)}%`;
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(1)} MB`;
}

export function counted(number: number, noun: string): string {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}
