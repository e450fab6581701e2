// The fields of a new query, as the body of a request.

import { byId } from "../words.js";

/** Return a number if the text is one, undefined if it is empty, and otherwise the text. */
function numberOrText(text) {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  return /^\d+$/.test(trimmed) ? Number(trimmed) : trimmed;
}

/** Return whether a text begins like MATCH, whose nodes may have labels, and which may have parameters. */
export function isMatch(text) {
  return /^\s*(?:(?:optional\s+)?match(?:\s*\(|\s+[a-z])|(?:unwind|with)\s[^]*\bmatch\s*\()/i.test(text);
}

/** Return the object that a text is as JSON; any other text is returned as it is, so that the server refuses it. */
function objectOrText(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Return the body of POST queries and POST check. */
export function queryRequest() {
  // Answers that expire are changes too, so that the graph shows the answers that hold.
  const query = { expression: byId("expression").value, semantics: "explicit" };
  const window = numberOrText(byId("window").value);
  const slide = numberOrText(byId("slide").value);
  const name = byId("query-name").value.trim();
  if (window !== undefined) query.window = window;
  if (slide !== undefined) query.slide = slide;
  if (name) query.name = name;
  const paths = byId("paths").value;
  if (paths) query.paths = paths;
  const nodeLabel = byId("node-label").value.trim();
  if (nodeLabel && isMatch(query.expression)) query.node_label = nodeLabel;
  const parameters = byId("parameters").value.trim();
  if (parameters && isMatch(query.expression)) query.parameters = objectOrText(parameters);
  const order = byId("order").value;
  if (order) {
    query.order = order;
    const gap = numberOrText(byId("max-gap").value);
    const span = numberOrText(byId("max-span").value);
    if (gap !== undefined) query.max_gap = gap;
    if (span !== undefined) query.max_span = span;
  }
  return query;
}

/**
 * Return the range [start, end) of an error in a text, at least one UTF-16 unit long. Lines and columns count from 1, columns in
 * characters; a place behind the end of the text is its end.
 */
export function rangeOf(text, { line, column, length }) {
  const lines = text.split("\n");
  const row = Math.min(line, lines.length) - 1;
  const before = lines.slice(0, row).reduce((sum, one) => sum + one.length + 1, 0);
  const letters = Array.from(lines[row]);
  const start = before + letters.slice(0, column - 1).join("").length;
  const rest = Array.from(text.slice(start)).slice(0, length).join("").length;
  return [start, start + Math.max(1, rest)];
}
