// The models side by side: what each suggests after the same text, what it would have saved, and what it promises.
import { h, put } from "../dom";
import type { Layout } from "./layout";
import { counted, percent } from "./numbers";
import type { Loaded, OfferedModel } from "./offer";
import type { Reader } from "./reader";
import { SavingsCounter } from "./savings";
import { nextWords, type Suggestion } from "./suggestions";
import type { Typing } from "./typing";

// How many candidates a card lists when probabilities are shown.
const LISTED = 5;

export interface Card {
  readonly node: HTMLElement;
  readonly reader: Reader;
  refresh(typing: Typing, showsProbabilities: boolean): void;
  mark(isUsed: boolean): void;
}

export function card(loaded: Loaded & { reader: Reader }, layout: Layout, number: number): Card {
  const { about, reader } = loaded;
  const list = h("ol", { class: "candidates", "aria-label": `What ${about.name} suggests` });
  const saved = h("dd", {});
  const found = h("dd", {});
  const used = h("span", { class: "used small", hidden: true }, "in use");
  const savings = new SavingsCounter(reader, layout);
  const id = `model-${number}`;
  const node = h(
    "article",
    { class: "card model", "aria-labelledby": id },
    h("header", {}, h("h3", { id }, about.name), badge(about), used),
    h("p", { class: "small meaning" }, about.meaning),
    list,
    h(
      "dl",
      { class: "savings small" },
      h("div", {}, h("dt", {}, "Keystrokes it would have saved"), saved),
      h("div", {}, h("dt", {}, "Your words among its first three"), found),
    ),
    h("details", { class: "small" }, h("summary", {}, "The statement"), h("p", {}, about.statement)),
  );
  return {
    node,
    reader,
    refresh(typing, showsProbabilities) {
      const count = showsProbabilities ? LISTED : 3;
      const suggestions = typing.word === "" ? nextWords(reader, reader.context(typing.before), count) : typing.show(reader, count).suggestions;
      put(list, suggestions.map((each) => candidate(each, showsProbabilities)));
      const { words, top3, keys, needed } = savings.of([...typing.messages, finished(typing)]);
      saved.textContent = keys === 0 ? "–" : `${percent((keys - needed) / keys)} (${needed} instead of ${keys})`;
      found.textContent = words === 0 ? "–" : `${percent(top3 / words)} of ${counted(words, "word")}`;
    },
    mark(isUsed) {
      used.hidden = !isUsed;
      node.classList.toggle("in-use", isUsed);
    },
  };
}

/** A model that the page cannot run, with the reason. */
export function refusedCard(about: OfferedModel, problem: string): HTMLElement {
  return h("article", { class: "card model" }, h("header", {}, h("h3", {}, about.name)), h("p", { class: "quiet small" }, problem));
}

export function badge(about: OfferedModel): HTMLElement {
  return h("span", { class: `badge ${about.is_private ? "good" : "bad"}` }, about.badge);
}

function candidate(suggestion: Suggestion, showsProbability: boolean): HTMLElement {
  if (!showsProbability) return h("li", {}, suggestion.word);
  const bar = h("span", { class: "share-bar", "aria-hidden": "true" });
  bar.style.setProperty("--share", String(suggestion.probability));
  return h("li", {}, h("span", {}, suggestion.word), bar, h("span", { class: "probability" }, percent(suggestion.probability)));
}

/** The text without the word that is still typed. */
function finished(typing: Typing): string {
  return typing.text.slice(0, typing.caret - typing.word.length) + typing.text.slice(typing.caret);
}
