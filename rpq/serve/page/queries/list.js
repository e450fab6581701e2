// The registered queries: one is followed; it can be explained and dropped.

import { ofQuery, request } from "../connection.js";
import { drawExplained } from "./explained.js";
import { optionTexts } from "./options.js";
import { nameElement, nameText, shownMessage } from "../names.js";
import { byId, count, element } from "../words.js";

const KINDS = { path: "path", pattern: "pattern", sparql: "SPARQL", gql: "MATCH (GQL)", cypher: "MATCH (Cypher)" };

/**
 * The list; `onChoose(query | null)` when another one is followed, `onCount(name, answers)` when the server reports a number,
 * `onError(error)` when the server refuses; `unit()` returns the unit of times.
 */
export class QueryList {
  queries = [];
  chosen = null;
  #items = new Map();
  #dropping = null;
  #explaining = 0; // A response to an earlier request is ignored.
  #reading = 0;
  #isAbsent = false; // Whether the chosen query was not in the list yet when it was chosen.

  constructor({ onChoose, onCount, onError, unit }) {
    this.unit = unit;
    this.onCount = onCount;
    this.onChoose = onChoose;
    this.onError = onError;
    this.list = byId("query-list");
    byId("keep").addEventListener("click", () => byId("dropping").close());
    byId("drop").addEventListener("click", () => this.#drop());
    byId("reader-close").addEventListener("click", () => byId("reader").close());
    this.list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      const buttons = [...this.list.querySelectorAll(".query-choose")];
      const at = buttons.indexOf(event.target);
      if (!step || at < 0) return;
      buttons[at + step]?.focus();
      event.preventDefault();
    });
  }

  get current() {
    return this.queries.find(({ name }) => name === this.chosen) ?? null;
  }

  async refresh() {
    const turn = ++this.#reading;
    const { queries } = await request("GET", "queries");
    if (turn === this.#reading) this.show(queries);
  }

  show(queries) {
    this.queries = queries;
    byId("no-queries").hidden = queries.length > 0;
    const names = new Set(queries.map(({ name }) => name));
    for (const [name, item] of this.#items) {
      if (!names.has(name)) {
        item.root.remove();
        this.#items.delete(name);
      }
    }
    for (const query of queries) {
      if (!this.#items.has(query.name)) this.#add(query);
      this.onCount(query.name, query.answers);
    }
    if (!this.current) this.choose(queries[0]?.name ?? null);
    else if (this.#isAbsent) this.choose(this.chosen);
    else this.#mark();
  }

  choose(name) {
    const changed = name !== this.chosen || name === null || this.#isAbsent;
    this.chosen = name;
    this.#isAbsent = name !== null && !this.current;
    this.#mark();
    if (changed) this.onChoose(this.current);
  }

  /** Show the number of answers of a query. */
  setAnswers(name, answers) {
    const item = this.#items.get(name);
    if (!item || answers === null || answers === undefined) return;
    item.number = answers;
    item.answers.textContent = count(answers);
  }

  /** Return the number of answers of a query, or null if it is not known. */
  answersOf(name) {
    return this.#items.get(name)?.number ?? null;
  }

  #add(query) {
    const answers = element("span", { class: "figure query-answers" });
    const choose = element(
      "button",
      { type: "button", class: "query-choose", "aria-pressed": "false" },
      element("span", { class: "query-name" }, nameElement(query.name)),
      answers,
      ...(query.expression === query.name ? [] : [element("code", {}, nameElement(query.expression))]),
      element("span", { class: "query-kind muted" }, [KINDS[query.language] ?? query.language, ...optionTexts(query, this.unit())].join(" · ")),
    );
    choose.addEventListener("click", () => this.choose(query.name));
    const explain = element("button", { type: "button", class: "quiet" }, "Explain");
    explain.addEventListener("click", () => this.#explain(query));
    const drop = element("button", { type: "button", class: "quiet" }, "Drop");
    drop.addEventListener("click", () => {
      this.#dropping = query.name;
      byId("dropping-title").textContent = `Drop ${nameText(query.name)}?`;
      byId("dropping").showModal();
    });
    for (const [button, verb] of [[explain, "Explain"], [drop, "Drop"]]) button.setAttribute("aria-label", `${verb} ${nameText(query.name)}`);
    const root = element("li", {}, choose, element("div", { class: "query-tools" }, explain, drop));
    this.#items.set(query.name, { root, choose, answers, number: null });
    this.list.append(root);
  }

  #mark() {
    for (const [name, { root, choose }] of this.#items) {
      root.classList.toggle("chosen", name === this.chosen);
      choose.setAttribute("aria-pressed", String(name === this.chosen));
    }
  }

  async #explain(query) {
    const turn = ++this.#explaining;
    try {
      const explanation = await request("GET", ofQuery(query.name, "/explain"));
      if (turn !== this.#explaining) return;
      byId("reader-title").replaceChildren(nameElement(query.name));
      byId("reader-drawing").replaceChildren(drawExplained(explanation, `${nameText(query.name)} drawn`) ?? "");
      byId("reader-text").textContent = shownMessage(explanation.text);
      byId("reader").showModal();
    } catch (error) {
      this.onError(error);
    }
  }

  async #drop() {
    byId("dropping").close();
    try {
      await request("DELETE", ofQuery(this.#dropping));
    } catch (error) {
      // Another user was faster.
      if (error.status !== 404) this.onError(error);
    }
    await this.refresh().catch(this.onError);
  }
}
