// The page's proof that nothing leaves it: a counter of what was sent, and the lock on every connection.
import { h, put } from "../dom";
import type { BytesSent } from "./bytes_sent";
import { lock } from "./bytes_sent";
import { megabytes } from "./numbers";

/** Lock the page, and show from now on what it sends. Call it when everything is loaded. */
export function proof(sent: BytesSent, loaded: number): HTMLElement {
  const bytes = h("strong", { id: "bytes-sent" });
  const node = h(
    "section",
    { class: "card proof", "aria-labelledby": "proof" },
    h("h2", { id: "proof" }, "Nothing that you type leaves this page"),
    h("p", { class: "count" }, bytes, " sent since the models were loaded"),
    h(
      "ul",
      { class: "small" },
      h("li", {}, `The models (${megabytes(loaded)}) are in the page, and it computes every suggestion itself.`),
      h("li", {}, "It has locked itself: your browser now refuses every request that it makes, to anybody."),
      h("li", {}, "Try it: turn the network off, or end the command with Ctrl-C, and go on typing."),
      h("li", {}, "Nothing is stored: close the page, and the text is gone."),
    ),
  );
  lock();
  sent.start(({ bytes: count, requests }) => {
    put(bytes, `${count.toLocaleString("en")} bytes`);
    node.classList.toggle("leaks", requests > 0);
  });
  return node;
}
