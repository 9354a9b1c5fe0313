// The phone: the text, the phrase in grey, three suggestions, the keys. It works by touch, by mouse and by physical keys.
import { h, put } from "../dom";
import { drawKeys } from "./keys";
import type { Layout } from "./layout";
import type { Reader } from "./reader";
import { percent } from "./numbers";
import { joined } from "./tokens";
import type { Shown, Typing } from "./typing";

// A finger that moves so far to the right, and less than that up or down, takes the phrase.
const SWIPE = 40;

export interface Phone {
  readonly node: HTMLElement;
  /** The model that suggests and corrects from now on. */
  use(reader: Reader): void;
  showProbabilities(shows: boolean): void;
  clear(): void;
  focus(): void;
}

/** Draw the phone; `onChange` is called after everything that is typed, when the suggestions are in the page. */
export function phone(typing: Typing, layout: Layout, onChange: () => void): Phone {
  let reader: Reader | undefined;
  let shown: Shown | undefined;
  let words: string[] = [];
  let probabilities = false;

  const messages = h("ol", { class: "messages", "aria-label": "Messages that you have sent, to nobody" });
  const field = h("textarea", {
    id: "message",
    class: "field",
    rows: 3,
    inputmode: "none", // the keys below are the keyboard
    // Nothing of the browser may send or keep the text: some spelling checkers and writing aids ask a server.
    spellcheck: "false",
    autocomplete: "off",
    autocorrect: "off",
    autocapitalize: "off",
    writingsuggestions: "false",
    translate: "no",
    "data-gramm": "false",
    placeholder: "Type here, or tap the keys",
    "aria-describedby": "how-to-type",
  });
  const typed = h("span", { class: "typed", "aria-hidden": "true" });
  const grey = h("button", { class: "phrase", type: "button", tabindex: "-1", hidden: true, onclick: () => act(accept) });
  const mirror = h("div", { class: "mirror" }, typed, grey);
  const said = h("p", { class: "said", role: "status" });
  const strip = h("div", { class: "strip", role: "group", "aria-label": "Suggestions" });
  const slots = Array.from({ length: 3 }, (_, at) => {
    const slot = h("button", { class: "slot", type: "button", onclick: () => act(() => pick(at)) });
    slot.addEventListener("pointerdown", (event) => event.preventDefault()); // the caret stays in the text
    strip.append(slot);
    return slot;
  });
  grey.addEventListener("pointerdown", (event) => event.preventDefault());

  const keys = drawKeys(layout, {
    letter: (letter, tap) => act(() => typing.letter(letter, tap)),
    mark: (mark) => act(() => end(mark)),
    backspace: () => act(() => typing.backspace()),
  });
  const node = h(
    "section",
    { class: "phone", "aria-label": "Phone" },
    messages,
    h("label", { class: "hidden", for: "message" }, "Message"),
    h("div", { class: "writing" }, field, mirror),
    said,
    strip,
    keys,
  );

  field.addEventListener("beforeinput", beforeInput);
  field.addEventListener("input", follow);
  field.addEventListener("keydown", keyDown);
  document.addEventListener("selectionchange", () => {
    if (document.activeElement === field && field.selectionStart !== typing.caret) follow();
  });
  field.addEventListener("scroll", () => (mirror.scrollTop = field.scrollTop));
  swipes(node.querySelector<HTMLElement>(".writing")!, () => words.length > 0 && act(accept));

  return {
    node,
    use(chosen) {
      reader = chosen;
      refresh();
    },
    showProbabilities(shows) {
      probabilities = shows;
      refresh();
    },
    clear() {
      typing.clear();
      say("");
      refresh();
    },
    focus: () => field.focus(),
  };

  function act(what: () => void): void {
    if (reader === undefined) return;
    say("");
    // The caret may have moved a moment ago, and the browser has not told yet.
    if (field.value !== typing.text || field.selectionStart !== typing.caret) typing.become(field.value, field.selectionStart);
    what();
    refresh();
  }

  function accept(): void {
    typing.accept(words);
  }

  function pick(at: number): void {
    const suggestion = shown?.suggestions[at];
    if (suggestion) typing.pick(suggestion);
  }

  function end(mark: string): void {
    const done = typing.end(reader!, mark);
    if (done) say(`“${done.typed}” became “${done.word}”. Backspace takes it back.`);
  }

  function beforeInput(event: InputEvent): void {
    if (field.selectionStart !== field.selectionEnd || event.isComposing) return; // the browser changes the text itself
    const { inputType, data } = event;
    const one = inputType === "insertText" && data !== null && [...data].length === 1 ? data : "";
    let what: (() => void) | undefined;
    if (inputType === "insertLineBreak" || inputType === "insertParagraph") what = () => end("\n");
    else if (/^[ .,!?;:]$/.test(one)) what = () => end(one);
    else if (one !== "") what = () => typing.letter(one);
    else if (inputType === "deleteContentBackward") what = () => typing.backspace();
    if (what === undefined) return;
    event.preventDefault();
    act(what);
  }

  /** The text or the caret was changed by something else: the clipboard, a click, an arrow key. */
  function follow(): void {
    typing.become(field.value, field.selectionStart);
    say("");
    show();
  }

  function keyDown(event: KeyboardEvent): void {
    const slot = event.altKey ? ["Digit1", "Digit2", "Digit3"].indexOf(event.code) : -1;
    const atEnd = field.selectionStart === field.value.length;
    if (slot >= 0) act(() => pick(slot));
    else if (words.length > 0 && ((event.key === "Tab" && !event.shiftKey) || (event.key === "ArrowRight" && atEnd))) act(accept);
    else if (event.key === "Escape" && words.length > 0) showPhrase([]);
    else return;
    event.preventDefault();
  }

  function refresh(): void {
    if (reader === undefined) return;
    if (field.value !== typing.text) field.value = typing.text;
    if (field.selectionStart !== typing.caret || field.selectionEnd !== typing.caret) {
      field.setSelectionRange(typing.caret, typing.caret);
    }
    show();
  }

  function show(): void {
    if (reader === undefined) return;
    shown = typing.show(reader);
    slots.forEach((slot, at) => showSlot(slot, at));
    showPhrase(typing.phrase(reader));
    put(messages, typing.messages.map((message) => h("li", {}, message)));
    messages.scrollTop = messages.scrollHeight;
    onChange();
  }

  function showSlot(slot: HTMLButtonElement, at: number): void {
    const suggestion = shown!.suggestions[at];
    slot.disabled = suggestion === undefined;
    slot.classList.toggle("commits", suggestion !== undefined && shown!.correction?.toLowerCase() === suggestion.word);
    put(
      slot,
      h("span", { class: "word" }, suggestion?.word ?? ""),
      probabilities && suggestion ? h("span", { class: "probability" }, percent(suggestion.probability)) : null,
    );
  }

  function showPhrase(next: string[]): void {
    words = next;
    grey.hidden = words.length === 0;
    typed.textContent = field.value;
    grey.textContent = joined(words);
    grey.setAttribute("aria-label", `Accept the phrase: ${joined(words)}`);
    if (words.length > 0) grey.removeAttribute("tabindex");
    mirror.scrollTop = field.scrollTop;
  }

  function say(sentence: string): void {
    if (said.textContent !== sentence) said.textContent = sentence;
  }
}

function swipes(where: HTMLElement, take: () => void): void {
  let from: PointerEvent | undefined;
  where.addEventListener("pointerdown", (event) => (from = event));
  where.addEventListener("pointerup", (event) => {
    const moved = from && event.pointerType !== "mouse" && event.clientX - from.clientX > SWIPE;
    if (moved && Math.abs(event.clientY - from!.clientY) < SWIPE) take();
    from = undefined;
  });
}
