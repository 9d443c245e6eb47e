/** Files that the browser is to keep. A link would carry no key. */

/** Hands `content` to the user as a file. */
export function saveAs(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser has taken it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** RFC 4180. */
export function csv(rows: readonly (readonly (string | number | boolean | null)[])[]): Blob {
  const cell = (value: string | number | boolean | null) => {
    const text = value === null ? "" : String(value);
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const text = rows.map((row) => row.map(cell).join(",")).join("\r\n");
  return new Blob([text, "\r\n"], { type: "text/csv" });
}

export function json(value: unknown): Blob {
  return new Blob([JSON.stringify(value, undefined, 2)], { type: "application/json" });
}

/** From the style sheet, which a file does not have. */
const STYLES = [
  ...["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "opacity"],
  ...["font-family", "font-size", "font-weight", "text-anchor", "display", "visibility"],
];

/** The picture as it looks now, on the page's ground. */
export function svg(picture: SVGSVGElement): Blob {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  const from = [picture, ...picture.querySelectorAll("*")];
  for (const [i, to] of [copy, ...copy.querySelectorAll("*")].entries()) {
    const style = getComputedStyle(from[i]!);
    for (const name of STYLES) to.setAttribute(name, style.getPropertyValue(name));
    to.removeAttribute("class");
  }
  const { x, y, width, height } = picture.viewBox.baseVal;
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ x, y, width, height })) {
    ground.setAttribute(name, String(value));
  }
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return new Blob([new XMLSerializer().serializeToString(copy)], { type: "image/svg+xml" });
}
