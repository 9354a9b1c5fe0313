// Elements from code. Text is always a text node, so nothing that a run is named can become markup.

export type Child = Node | string | number | null | undefined | false | Child[];
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: any) => void)>;

function fill(node: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "value" && "value" in node) (node as HTMLInputElement).value = String(value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
}

function append(node: Element, children: Child[]): void {
  for (const child of children) {
    if (Array.isArray(child)) append(node, child);
    else if (child !== null && child !== undefined && child !== false) node.append(child instanceof Node ? child : String(child));
  }
}

/** An HTML element. An attribute that begins with "on" is a listener. */
export function h<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const node = document.createElement(tag);
  fill(node, attributes, children);
  return node;
}

/** An SVG element. */
export function s<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[Tag] {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(node, attributes, children);
  return node;
}

/** Replace what is in `node`. */
export function put(node: Element, ...children: Child[]): void {
  node.replaceChildren();
  append(node, children);
}
