// A drawing that is made for the width that it has, so that its text is as large as the text around it.
import { h, put } from "./dom";

const NARROWEST = 260;

/** A frame with what `draw` makes of its width, drawn again when that changes, until `signal` ends it. */
export function picture(draw: (width: number) => SVGElement, signal: AbortSignal): HTMLElement {
  const frame = h("div", { class: "drawing" });
  let drawnAt = 0;
  const sized = new ResizeObserver(() => {
    const width = Math.max(NARROWEST, Math.floor(frame.clientWidth));
    if (width === drawnAt) return;
    drawnAt = width;
    put(frame, draw(width));
  });
  sized.observe(frame);
  signal.addEventListener("abort", () => sized.disconnect());
  return frame;
}
