// The keys on the screen. A finger's place counts, not only the key that it hit.
import { h } from "../dom";
import type { Layout, Point } from "./layout";

export interface KeyActions {
  letter(letter: string, tap?: Point): void;
  mark(mark: string): void;
  backspace(): void;
}

// The row below the letters: what a key types, what is on it, its name, and how many keys it is wide.
const LAST_ROW: readonly (readonly [string, string, string, number])[] = [
  [",", ",", "Comma", 1],
  ["'", "'", "Apostrophe", 1],
  [" ", "space", "Space", 4.5],
  [".", ".", "Full stop", 1],
  ["?", "?", "Question mark", 1],
  ["\n", "⏎", "Send, to nobody", 1.5],
];
const REPEAT_AFTER = 450;
const REPEAT_EVERY = 60;

/** The keys. One of them is reached by Tab, the others by the arrow keys. */
export function drawKeys(layout: Layout, actions: KeyActions): HTMLElement {
  const node = h("div", { class: "keys", role: "group", "aria-label": "Keys" });
  const widest = Math.max(...layout.rules.rows.map(([letters, shift]) => letters.length + shift));
  const rows = layout.rules.rows.map(([letters, shift], at) => {
    const row = h("div", { class: "key-row" });
    if (shift > 0) row.append(gap(shift));
    for (const letter of letters) row.append(letterKey(letter));
    const right = widest - shift - letters.length;
    if (at === layout.rules.rows.length - 1) row.append(backspaceKey(right));
    return row;
  });
  const last = h("div", { class: "key-row" }, LAST_ROW.map(([mark, shown, name, wide]) => markKey(mark, shown, name, wide)));
  node.append(...rows, last);
  node.style.setProperty("--across", String(widest));
  node.style.setProperty("--key-height", String(layout.rules.key_height));
  roving(node);
  return node;

  function key(shown: string, name: string, wide: number, press: (event: PointerEvent | undefined) => void): HTMLButtonElement {
    const button = h("button", { class: "letter-key", type: "button", tabindex: "-1", "aria-label": name }, h("span", {}, shown));
    button.style.setProperty("--wide", String(wide));
    // By a finger or a mouse a key acts when it goes down; a click without a pointer comes from a keyboard or a reading aid.
    button.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault(); // the caret stays in the text
      press(event);
    });
    button.addEventListener("click", (event) => {
      if (event.detail === 0) press(undefined);
    });
    return button;
  }

  function letterKey(letter: string): HTMLButtonElement {
    return key(letter, letter, 1, (event) => actions.letter(letter, event && pointOf(event)));
  }

  function markKey(mark: string, shown: string, name: string, wide: number): HTMLButtonElement {
    return key(shown, name, wide, () => (mark === "'" ? actions.letter(mark) : actions.mark(mark)));
  }

  function backspaceKey(wide: number): HTMLButtonElement {
    let timer = 0;
    const button = key("⌫", "Backspace", wide, (event) => {
      actions.backspace();
      if (!event) return;
      clearTimeout(timer);
      timer = window.setTimeout(function again() {
        actions.backspace();
        timer = window.setTimeout(again, REPEAT_EVERY);
      }, REPEAT_AFTER);
    });
    for (const name of ["pointerup", "pointerleave", "pointercancel"]) button.addEventListener(name, () => clearTimeout(timer));
    return button;
  }

  /** Where the finger came down, in key widths and key heights from the corner of the keys. */
  function pointOf(event: PointerEvent): Point {
    const box = node.getBoundingClientRect();
    const first = rows[0]!.getBoundingClientRect();
    const lower = rows[1]!.getBoundingClientRect();
    return {
      x: ((event.clientX - box.left) / box.width) * widest,
      y: (event.clientY - first.top) / (lower.top - first.top),
    };
  }
}

function gap(wide: number): HTMLElement {
  const node = h("span", { class: "gap" });
  node.style.setProperty("--wide", String(wide));
  return node;
}

function roving(node: HTMLElement): void {
  const all = [...node.querySelectorAll<HTMLButtonElement>("button")];
  all[0]!.tabIndex = 0;
  node.addEventListener("keydown", (event) => {
    const at = all.indexOf(document.activeElement as HTMLButtonElement);
    const to = at < 0 ? -1 : next(all, at, event.key);
    if (to < 0) return;
    event.preventDefault();
    all.forEach((key, each) => (key.tabIndex = each === to ? 0 : -1));
    all[to]!.focus();
  });
}

/** The key to the left or to the right, or the nearest one in the row above or below; -1 for another key of the keyboard. */
function next(all: readonly HTMLButtonElement[], at: number, pressed: string): number {
  if (pressed === "ArrowLeft" || pressed === "ArrowRight") return (at + (pressed === "ArrowRight" ? 1 : -1) + all.length) % all.length;
  if (pressed !== "ArrowUp" && pressed !== "ArrowDown") return -1;
  const row = all[at]!.parentElement!;
  const other = pressed === "ArrowUp" ? row.previousElementSibling : row.nextElementSibling;
  if (!other) return at;
  const middle = (key: Element) => key.getBoundingClientRect().left + key.getBoundingClientRect().width / 2;
  const here = middle(all[at]!);
  const nearest = [...other.querySelectorAll("button")].sort((a, b) => Math.abs(middle(a) - here) - Math.abs(middle(b) - here))[0]!;
  return all.indexOf(nearest);
}
