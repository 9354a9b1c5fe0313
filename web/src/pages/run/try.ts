// Suggestions of the run's model, as one types.
import { get, sentenceOf } from "../../api";
import { h, put } from "../../dom";
import { percent } from "../../words";

interface Suggested {
  text: string;
  suggestions: { word: string; probability: number }[];
}

export function tryTab(main: HTMLElement, key: string, kind: string, examples: Record<string, [string, number][]>, signal: AbortSignal): void {
  if (kind !== "training") {
    put(main, h("p", { class: "card" }, "This run is an inspection: its model suggests no next words. What it made up is on the page ", h("a", { href: `/#/inspect/${key}` }, "Inspect"), "."));
    return;
  }
  const words = h("div", { "aria-live": "polite" });
  let asked = 0;
  let waiting = 0;
  const field = h("input", { id: "try", class: "wide-field", autocomplete: "off", spellcheck: "false", maxlength: 500, oninput: () => ((clearTimeout(waiting), (waiting = window.setTimeout(() => void ask(), 120)))) });

  async function ask(): Promise<void> {
    const number = ++asked;
    try {
      const found = await get<Suggested>(`/api/runs/${key}/suggest?count=5&text=${encodeURIComponent(field.value)}`, signal);
      if (number === asked) put(words, list(found.suggestions));
    } catch (error) {
      if (!signal.aborted && number === asked) put(words, h("p", { class: "problem" }, sentenceOf(error)));
    }
  }

  function list(suggestions: Suggested["suggestions"]): HTMLElement {
    const most = Math.max(...suggestions.map((each) => each.probability), 1e-9);
    return h(
      "ul",
      { class: "words" },
      suggestions.map((each) => {
        const bar = h("div", { class: "bar" });
        bar.style.width = `${(100 * each.probability) / most}%`;
        const take = () => {
          field.value = `${field.value.replace(/\s*$/, "")} ${each.word} `.replace(/^ /, "");
          field.focus();
          void ask();
        };
        return h("li", { class: "suggestion" }, h("button", { onclick: take }, each.word), bar, h("span", {}, percent(each.probability)));
      }),
    );
  }

  put(
    main,
    h(
      "section",
      { class: "card" },
      h("label", { for: "try" }, "Type something; the model of the last checkpoint suggests the next word."),
      field,
      words,
      h("p", { class: "quiet small" }, "What you type goes to the process of the board and is not kept. Choose a word to go on with it."),
      h("p", {}, h("a", { href: `/keyboard?run=${encodeURIComponent(key)}` }, "Type on a phone's keyboard"), ": the model then runs in the page, and nothing that you type leaves it."),
    ),
    Object.keys(examples).length > 0 &&
      h(
        "section",
        { class: "card" },
        h("h2", {}, "When the run ended, it suggested"),
        h("ul", {}, Object.entries(examples).map(([typed, found]) => h("li", {}, h("em", {}, `${typed} … `), found.map(([word, share]) => `${word} ${percent(share, 0)}`).join(", ")))),
      ),
  );
  put(words, h("p", { class: "quiet" }, "Loading the model…"));
  void ask();
}
