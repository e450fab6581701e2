// The options of a query in words, and the window that a new query begins with.

import { count, duration } from "../words.js";
import { shownText } from "../names.js";

const NAMED = 3; // Vertices that are named before the others are counted.
const WINDOWS = { s: ["10d", "1d"], ms: ["1h", "1m"], us: ["1m", "1s"], ns: ["1s", "100ms"] };
const PATHS = { simple: "no vertex twice", simple_cycle: "no vertex twice, but the last may be the first" };
const ORDERS = { increasing: "each edge later than the one before", non_decreasing: "no edge earlier than the one before" };
const REPORTS = { slide: "reported at slides", time: "reported at times" };

/** Return window and slide for a new query: those of a query that is there, or some that suit the times of the stream. */
export function usualWindow(query, isTime, unit) {
  const window = query?.window ?? null;
  if (window !== null) return [window, query.slide ?? ""].map((length) => String(unit ? duration(length, unit) : length));
  if (!isTime) return ["100", "10"];
  return WINDOWS[unit ?? "s"];
}

function vertices(names) {
  const shown = names.slice(0, NAMED).map(shownText).join(", ");
  return names.length > NAMED ? `${shown} and ${count(names.length - NAMED)} more` : shown || "no vertex";
}

/** Return the window of a query as a text; empty if it has none of its own. */
function windowText({ window, slide }, unit) {
  if (window === null || window === undefined || typeof window === "object") return "";
  const isTime = typeof window === "number"; // else the slide of a count is one of inserts
  return `${duration(window, unit)}${slide ? `, slide ${isTime ? duration(slide, unit) : duration(slide)}` : ""}`;
}

/** Return what a query has besides its text, in a list of phrases. */
export function optionTexts(query, unit) {
  const { order, max_gap: gap, max_span: span, sources, targets, filter, distinct, matching, select } = query.options ?? {};
  const { node_label: label, parameters, hold } = query.options ?? {};
  return [
    windowText(query, unit),
    PATHS[query.paths],
    ORDERS[order],
    gap !== undefined && `gaps up to ${duration(gap, unit)}`,
    span !== undefined && `at most ${duration(span, unit)} from first to last`,
    sources && `from ${vertices(sources)}`,
    targets && `to ${vertices(targets)}`,
    filter && `where ${shownText(filter)}`,
    matching,
    distinct && "distinct",
    select && `columns ${select.map(shownText).join(", ")}`,
    label && `labels of nodes by ${shownText(label)}`,
    parameters && Object.entries(parameters).map(([name, value]) => `$${shownText(name)} = ${shownText(JSON.stringify(value))}`).join(", "),
    REPORTS[query.report],
    hold !== undefined && `held for ${duration(hold, unit)}`,
  ].filter(Boolean);
}
