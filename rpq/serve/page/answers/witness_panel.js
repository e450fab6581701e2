// The chosen answer in words: its values, and the path or the atoms behind it.

import { nameElement, shownMessage, shownText } from "../names.js";
import { byId, element, streamTime } from "../words.js";

/** The panel beside the graph; values are buttons that search for other answers with them through `onFind(value)`. */
export class WitnessPanel {
  constructor({ onFind, unit }) {
    this.root = byId("answer");
    this.onFind = onFind;
    this.unit = unit;
    this.clear();
  }

  clear() {
    this.root.replaceChildren(
      element("p", { class: "empty" }, "Choose an answer in the graph or in the table to see why it holds: the edges behind it are lit."),
    );
  }

  /** Show an answer with its `witness`, which is null while it is read, or with the `error` that came instead. */
  show({ columns, values, witness, error, left }) {
    const list = element("dl", { class: "values" });
    columns.forEach((column, at) => {
      const isBound = values[at] !== null && values[at] !== undefined;
      const button = element(isBound ? "button" : "span", isBound ? { type: "button", class: "link", title: "Find answers with it" } : {}, nameElement(values[at]));
      if (isBound) button.addEventListener("click", () => this.onFind(shownText(values[at])));
      list.append(element("div", {}, element("dt", {}, nameElement(column)), element("dd", {}, button)));
    });
    const parts = [list];
    if (left) parts.push(element("p", { class: "left" }, "It has ceased to hold."));
    if (error) parts.push(element("p", { class: "error" }, shownMessage(error)));
    else if (!witness) parts.push(element("p", { class: "muted" }, left ? "" : "reading the witness …"));
    else parts.push(...this.#paths(witness, values[0]));
    this.root.replaceChildren(...parts);
  }

  #paths({ edges, atoms }, first) {
    if (!edges?.length) return [element("p", { class: "muted" }, "No edges in the window stand behind it.")];
    if (!atoms?.length) return [this.#steps(edges, first)];
    const grouped = atoms.filter((atom) => atom.edges?.length);
    if (!grouped.length) return [this.#steps(edges, first)];
    return grouped.flatMap((atom) => [element("h3", { class: "atom" }, nameElement(atom.text ?? atom.atom ?? "")), this.#steps(atom.edges)]);
  }

  #steps(edges, first) {
    const list = element("ol", { class: "steps" });
    const stop = (name) => element("li", { class: "stop" }, nameElement(name, { class: "vertex" }));
    let before = first;
    edges.forEach(({ source, target, label, timestamp, properties }, at) => {
      // Walked against its direction (^label): the path goes on at the edge's source.
      const against = before !== source && before === target;
      const [from, to] = against ? [target, source] : [source, target];
      if (at === 0 || before !== from) list.append(stop(from));
      const when = timestamp === null || timestamp === undefined ? "static" : shownText(streamTime(timestamp, this.unit()));
      const name = element("span", { class: "edge-label" }, against ? "^" : "", nameElement(label));
      const known = Object.entries(properties ?? {}).map(([property, value]) => `${shownText(property)}: ${shownText(value)}`);
      const values = known.length ? [element("span", { class: "muted edge-values" }, known.join(", "))] : [];
      list.append(element("li", { class: "step" }, name, ...values, element("span", { class: "muted when" }, when)), stop(to));
      before = to;
    });
    return list;
  }
}
