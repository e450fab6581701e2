// The server's drawing of a query, taken into the page: shapes and texts alone, whatever else it may hold.

const SVG = "http://www.w3.org/2000/svg";
const ELEMENTS = new Set(["svg", "g", "defs", "marker", "title", "path", "circle", "ellipse", "rect", "line", "polygon", "polyline", "text", "tspan"]);
const ATTRIBUTES = new Set(
  `viewBox width height d x y dx dy x1 y1 x2 y2 cx cy r rx ry points transform fill stroke stroke-width stroke-dasharray opacity
  text-anchor dominant-baseline font-size font-style unicode-bidi class role aria-label refX refY markerWidth markerHeight orient`.split(/\s+/),
);
const REFERENCE = /^url\(#([\w-]+)\)$/;

let drawings = 0;

/** Return a new SVG element with the harmless parts of a text and new names; null if the text is no drawing. */
export function drawExplained({ svg }, title) {
  if (!svg) return null;
  const read = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  if (read.localName !== "svg" || read.namespaceURI !== SVG) return null;
  drawings += 1;
  const drawn = copied(read, `drawing-${drawings}-`);
  drawn.setAttribute("aria-label", title);
  return drawn;
}

function copied(element, prefix) {
  const made = document.createElementNS(SVG, element.localName);
  for (const { name, value } of element.attributes) {
    const reference = REFERENCE.exec(value);
    if (name === "id") made.setAttribute("id", prefix + value);
    else if (reference && ["marker-end", "marker-start", "fill"].includes(name)) made.setAttribute(name, `url(#${prefix}${reference[1]})`);
    else if (ATTRIBUTES.has(name) && !value.includes("url(")) made.setAttribute(name, value);
  }
  for (const child of element.childNodes) {
    if (child.nodeType === Node.TEXT_NODE) made.append(child.data);
    else if (child.nodeType === Node.ELEMENT_NODE && child.namespaceURI === SVG && ELEMENTS.has(child.localName)) made.append(copied(child, prefix));
  }
  return made;
}
