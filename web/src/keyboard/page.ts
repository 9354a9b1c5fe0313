// The keyboard's page: it loads the models, locks itself, and then only listens to keys.
import "../style.css";
import "./style.css";
import { sentenceOf } from "../api";
import { h, put } from "../dom";
import { LINKS, markCurrent, shell } from "../shell";
import { BytesSent } from "./bytes_sent";
import { type Card, badge, card, refusedCard } from "./cards";
import { Layout } from "./layout";
import { counted, percent } from "./numbers";
import { type Loaded, type Offer, MOST_MODELS, askOffer, chosenOf, load } from "./offer";
import { phone } from "./phone";
import { runChooser } from "./run_chooser";
import { proof } from "./proof";
import type { Reader } from "./reader";
import { nextWords } from "./suggestions";
import { tokenize } from "./tokens";
import { Typing } from "./typing";

const sent = new BytesSent();
const isPartOfBoard = location.pathname !== "/";
const { main } = shell(isPartOfBoard ? LINKS : [{ href: "/", label: "Keyboard" }]);
markCurrent(location.pathname);

void open();

async function open(): Promise<void> {
  const asked = new URLSearchParams(location.search);
  put(main, h("h1", {}, "Keyboard"), h("p", { class: "quiet", role: "status" }, "The models are loading …"));
  try {
    if (isPartOfBoard && !asked.has("run")) return put(main, h("h1", {}, "Keyboard"), await runChooser());
    const offer = await askOffer(asked.getAll("run"));
    const chosen = chosenOf(offer.models, asked.getAll("model"));
    draw(offer, await Promise.all(chosen.map(load)));
  } catch (error) {
    put(main, h("h1", {}, "Keyboard"), h("p", { class: "problem", role: "alert" }, sentenceOf(error)));
  }
}

function draw(offer: Offer, loaded: readonly Loaded[]): void {
  const ready = loaded.filter((each): each is Loaded & { reader: Reader } => each.reader !== undefined);
  const failed = [
    ...loaded.filter((each) => each.problem !== undefined).map((each) => refusedCard(each.about, each.problem!)),
    ...offer.models.filter((each) => each.problem !== null).map((each) => refusedCard(each, each.problem!)),
  ];
  if (ready.length === 0) {
    put(main, h("h1", {}, "Keyboard"), failed);
    return;
  }
  const layout = new Layout(offer.rules);
  const typing = new Typing(layout);
  const cards = ready.map((each, number) => card(each, layout, number));
  const own = h("p", { class: "own small", id: "own-keys" });
  let shows = false;
  let queued = 0;
  const device = phone(typing, layout, () => {
    own.textContent = ownKeys(typing);
    queued++;
    later([...cards], queued);
  });

  const use = (number: number) => {
    cards.forEach((each, at) => each.mark(at === number));
    device.use(cards[number]!.reader);
  };
  const switches = h(
    "fieldset",
    { class: "switch" },
    h("legend", {}, "Type on"),
    ready.map(({ about }, number) =>
      h(
        "label",
        {},
        h("input", { type: "radio", name: "model", value: number, checked: number === 0, onchange: () => use(number) }),
        h("span", { class: "name" }, about.name),
        badge(about),
      ),
    ),
  );
  const options = h(
    "div",
    { class: "options small" },
    toggle("Probabilities", false, (on) => {
      shows = on;
      device.showProbabilities(on);
    }),
    toggle("Correct words", true, (on) => {
      typing.corrects = on;
      device.showProbabilities(shows);
    }),
    h("button", { type: "button", onclick: () => device.clear() }, "Start again"),
  );
  put(
    main,
    h("h1", {}, "Keyboard"),
    h(
      "div",
      { class: "keyboard" },
      h("div", { class: "left" }, switches, device.node, own, options, howTo()),
      h(
        "div",
        { class: "right" },
        proof(sent, ready.reduce((sum, each) => sum + each.bytes, 0)),
        h("section", { class: "models", "aria-labelledby": "models" }, h("h2", { id: "models" }, "After the same text"), cards.map((each) => each.node), failed),
        chooser(offer, ready),
      ),
    ),
  );
  use(0);
  device.focus();
  for (const model of ready) hook(model);

  /** The cards, one after the other, so that a key that comes in between is answered first. */
  function later(waiting: Card[], turn: number): void {
    setTimeout(() => {
      const next = waiting.shift();
      if (turn !== queued || next === undefined) return;
      next.refresh(typing, shows);
      later(waiting, turn);
    });
  }
}

function ownKeys(typing: Typing): string {
  const { characters, presses } = typing;
  if (characters === 0) return "Keys that you have pressed are counted here.";
  const saved = characters - presses;
  const share = saved > 0 ? `: ${percent(saved / characters)} saved` : "";
  return `You: ${counted(presses, "key")} for ${counted(characters, "character")}${share}.`;
}

function toggle(label: string, on: boolean, change: (on: boolean) => void): HTMLElement {
  const box = h("input", { type: "checkbox", checked: on, onchange: () => change(box.checked) });
  return h("label", {}, box, " ", label);
}

function howTo(): HTMLElement {
  return h(
    "details",
    { class: "small how", id: "how-to-type" },
    h("summary", {}, "How to type"),
    h(
      "ul",
      {},
      h("li", {}, "Tap the keys, or type on your own keyboard. A tap counts where it lands, so sloppy typing is understood."),
      h("li", {}, "Take a suggestion by a tap, or with Alt+1, Alt+2 and Alt+3."),
      h("li", {}, "Take the phrase in grey with Tab, the right arrow, a tap on it, or a swipe to the right. Escape hides it."),
      h("li", {}, "A space commits the word. A wrong correction is taken back by Backspace."),
      h("li", {}, "Enter sends the message to nobody, and a new one begins: models read one message at a time."),
    ),
  );
}

/** Other models that this address can show; the page is then opened again, and locks itself again. */
function chooser(offer: Offer, ready: readonly Loaded[]): HTMLElement | null {
  const models = offer.models.filter((each) => each.problem === null);
  if (models.length <= ready.length) return null;
  const boxes = models.map((each) =>
    h("input", { type: "checkbox", value: each.key, checked: ready.some(({ about }) => about.key === each.key), onchange: count }),
  );
  const go = h("button", { type: "button", onclick: reopen }, "Open the page with these");
  const node = h(
    "details",
    { class: "small" },
    h("summary", {}, `Other models (${ready.length} of ${models.length} are loaded)`),
    h("ul", { class: "choices" }, models.map((each, at) => h("li", {}, h("label", {}, boxes[at]!, ` ${each.name} `, badge(each))))),
    go,
  );
  return node;

  function count(): void {
    const number = boxes.filter((box) => box.checked).length;
    go.disabled = number < 1 || number > MOST_MODELS;
  }

  function reopen(): void {
    const address = new URLSearchParams(location.search);
    address.delete("model");
    for (const box of boxes) if (box.checked) address.append("model", box.value);
    location.assign(`?${address}`);
  }
}

/** For tests and benchmarks: the tokens of a text, and what a model suggests after it, as `tacit predict` says it. */
function hook({ about, reader }: Loaded & { reader: Reader }): void {
  const all = ((globalThis as Record<string, any>)["tacitKeyboard"] ??= { tokens: tokenize }) as Record<string, unknown>;
  all[about.name] = (text: string, count: number) =>
    nextWords(reader, reader.context(tokenize(text)), count).map(({ word, probability }) => ({ word, probability }));
}
