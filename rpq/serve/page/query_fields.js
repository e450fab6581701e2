// What the fields of a new query say, as the body of a request.

import { byId } from "./words.js";

/** A number where one is written, else the text; undefined where nothing is. */
function numberOrText(text) {
  const trimmed = text.trim();
  if (trimmed === "") return undefined;
  return /^\d+$/.test(trimmed) ? Number(trimmed) : trimmed;
}

/** What POST queries and POST check take. */
export function askedQuery() {
  // Answers that expire are told as changes too: what is drawn is what holds.
  const asked = { expression: byId("expression").value, semantics: "explicit" };
  const window = numberOrText(byId("window").value);
  const slide = numberOrText(byId("slide").value);
  const name = byId("query-name").value.trim();
  if (window !== undefined) asked.window = window;
  if (slide !== undefined) asked.slide = slide;
  if (name) asked.name = name;
  return asked;
}

/**
 * Where an error is in a text: [start, end) in UTF-16 units, at least one. Lines and columns count from 1, columns in
 * characters; a place behind the end is the end.
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
