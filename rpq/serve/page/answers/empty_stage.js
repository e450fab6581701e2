// What stands where the graph would be while there are no answers: what to do next.

import { shownJson } from "../names.js";
import { byId } from "../words.js";

/** Return a label that a query reads, for an example of a tuple. */
function someLabel({ language, expression }) {
  if (!["path", "pattern"].includes(language)) return null;
  const words = expression.replace(/\?\w+|_:\w+/g, " ").match(/<[^>]+>|"[^"]+"|[A-Za-z_][\w:.-]*/g) ?? [];
  const name = words[language === "pattern" && words.length > 1 && !/^\s*[?_]/.test(expression) ? 1 : 0];
  return name ? name.replace(/^[<"]|[>"]$/g, "") : null;
}

function curl(query, statistics, hasToken) {
  const time = typeof statistics?.time === "number" ? statistics.time : 1;
  const tuple = shownJson({ source: "ann", target: "bob", label: someLabel(query) ?? "knows", timestamp: time });
  const address = new URL("tuples", document.baseURI).href;
  const token = hasToken ? ` \\\n  -H "Authorization: Bearer $RPQ_TOKEN"` : "";
  return `curl ${address} \\\n  -H 'Content-Type: application/x-ndjson'${token} \\\n  -d '${tuple.replaceAll("'", "'\\''")}'`;
}

/** Show the hint, or hide it if there is something to see. */
export function emptyStage({ query, empty, hasToken, statistics, loading }) {
  const root = byId("stage-empty");
  const shown = !query || (empty && !loading);
  if (root.hidden === shown) root.hidden = !shown;
  if (!shown || statistics === null) {
    root.hidden = true;
    return;
  }
  const silent = !statistics.tuples;
  const title = !query ? "Ask the stream something" : "No answers yet";
  const text = !query
    ? "Write a path such as knows/worksAt*, a pattern, SPARQL or MATCH. Its answers appear here, and move with the window."
    : silent
      ? "No tuple has come. Post one with this line:"
      : "Nothing in the window matches so far. Post tuples with this line:";
  if (byId("empty-title").textContent !== title) byId("empty-title").textContent = title;
  if (byId("empty-text").textContent !== text) byId("empty-text").textContent = text;
  byId("empty-new").hidden = Boolean(query);
  byId("empty-command").hidden = !query;
  if (query) {
    const command = curl(query, statistics, hasToken);
    if (byId("empty-code").textContent !== command) byId("empty-code").textContent = command;
  }
}

byId("copy-command").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(byId("empty-code").textContent);
    byId("copy-command").textContent = "Copied";
  } catch {
    // No right to the clipboard: select it, so that a key can copy it.
    getSelection().selectAllChildren(byId("empty-code"));
    byId("copy-command").textContent = "Selected";
  }
  setTimeout(() => (byId("copy-command").textContent = "Copy"), 2000);
});
