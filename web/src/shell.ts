// What every page has: header, navigation, the switch of the theme, the place for the content, and a line for what is wrong.
import { h, put } from "./dom";

export interface Link {
  href: string;
  label: string;
}

/** The pages in the navigation. A page of its own has an ordinary path, a part of the board begins with "/#". */
export const LINKS: Link[] = [
  { href: "/#/runs", label: "Runs" },
  { href: "/#/plan", label: "Plan" },
  { href: "/#/inspect", label: "Inspect" },
  { href: "/keyboard", label: "Keyboard" },
  { href: "/#/fleet", label: "Fleet" },
  { href: "/#/papers", label: "Papers" },
];

const THEMES = ["system", "light", "dark"] as const;

function themeSwitch(): HTMLElement {
  const chosen = document.documentElement.dataset.theme ?? "system";
  const select = h(
    "select",
    {
      id: "theme",
      onchange: () => {
        const theme = select.value;
        if (theme === "system") delete document.documentElement.dataset.theme;
        else document.documentElement.dataset.theme = theme;
        try {
          if (theme === "system") localStorage.removeItem("tacit-theme");
          else localStorage.setItem("tacit-theme", theme);
        } catch {
          // No storage: the choice holds for this page.
        }
        document.dispatchEvent(new Event("tacit-theme"));
      },
    },
    THEMES.map((theme) => h("option", { value: theme, selected: theme === chosen }, theme)),
  );
  return h("label", { class: "theme" }, h("span", { class: "quiet" }, "Theme"), select);
}

/** Build the frame of a page with these links; returns where its content goes and where its state of connection is said. */
export function shell(links: Link[] = LINKS): { main: HTMLElement; status: HTMLElement } {
  const main = h("main", { id: "content", tabindex: "-1" });
  const status = h("div", { class: "status", role: "status", "aria-live": "polite" });
  put(
    document.body,
    h("a", { class: "skip", href: "#content", onclick: skip }, "Skip to the content"),
    h(
      "header",
      { class: "top" },
      h("a", { class: "brand", href: links[0]?.href ?? "/" }, "Tacit"),
      h(
        "nav",
        { "aria-label": "Pages" },
        links.map((link) => h("a", { href: link.href, "data-href": link.href }, link.label)),
      ),
      themeSwitch(),
    ),
    status,
    main,
  );
  return { main, status };

  function skip(event: Event): void {
    event.preventDefault(); // the address says which part of the board is shown
    main.focus();
  }
}

/** Mark the page in the navigation that is shown now. */
export function markCurrent(href: string): void {
  for (const link of document.querySelectorAll<HTMLAnchorElement>("nav [data-href]")) {
    if (link.dataset.href === href) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}
