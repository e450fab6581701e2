// The dialog in which a query is written: it is checked and explained while it is typed, and errors are underlined.

import { request } from "../connection.js";
import { drawExplained } from "./explained.js";
import { isMatch, queryRequest, rangeOf } from "./fields.js";
import { nameElement, shownMessage } from "../names.js";
import { byId, element } from "../words.js";

const PAUSE = 250;
const KINDS = { path: "path", pattern: "pattern", sparql: "SPARQL", gql: "MATCH (GQL)", cypher: "MATCH (Cypher)" };

/** The dialog; `open()` opens it with the window and slide of `usual()`, and `onRegistered(query)` is called with a new query. */
export class QueryWriter {
  #timer = 0;
  #turn = 0;
  #abort = null;
  #proposed = ["", ""]; // Window and slide, as long as nobody edits them.

  constructor({ onRegistered, usual }) {
    this.onRegistered = onRegistered;
    this.usual = usual;
    this.dialog = byId("writer");
    this.text = byId("expression");
    this.underlined = byId("underlined");
    this.error = byId("query-error");
    const fields = ["expression", "window", "slide", "query-name", "paths", "order", "max-gap", "max-span", "node-label", "parameters"];
    for (const id of fields) byId(id).addEventListener("input", () => this.#typed());
    byId("order").addEventListener("input", () => this.#showBounds());
    this.text.addEventListener("scroll", () => this.#scroll());
    byId("writer-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#register();
    });
    this.dialog.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        this.#register();
      }
    });
    for (const id of ["writer-close", "writer-cancel"]) byId(id).addEventListener("click", () => this.dialog.close());
    for (const button of document.querySelectorAll("[data-example]")) {
      button.addEventListener("click", () => {
        this.text.value = button.dataset.example;
        this.text.focus();
        this.#typed();
      });
    }
  }

  open() {
    if (this.dialog.open) return;
    const fields = [byId("window"), byId("slide")];
    if (fields.every(({ value }, at) => !value || value === this.#proposed[at])) {
      this.#proposed = this.usual();
      fields.forEach((field, at) => (field.value = this.#proposed[at]));
    }
    if (!this.text.value) this.#show(null);
    this.dialog.showModal();
    this.text.focus();
    this.#typed();
  }

  /** Show the fields for a gap and a span where there is an order. */
  #showBounds() {
    for (const field of document.querySelectorAll(".of-order")) field.hidden = !byId("order").value;
  }

  #typed() {
    for (const field of document.querySelectorAll(".of-match")) field.hidden = !isMatch(this.text.value);
    // Messages and pending responses are about the text before this one.
    this.#turn += 1;
    this.#abort?.abort();
    clearTimeout(this.#timer);
    this.#showError(null);
    if (!this.text.value.trim()) {
      this.#show(null);
      return;
    }
    this.#setChecking(true);
    this.dialog.classList.add("stale");
    this.#timer = setTimeout(() => this.#check(), PAUSE);
  }

  async #check() {
    const turn = this.#turn;
    this.#abort = new AbortController();
    try {
      const explanation = await request("POST", "check", { body: queryRequest(), signal: this.#abort.signal });
      if (turn !== this.#turn) return;
      this.#showError(null);
      this.#show(explanation);
    } catch (error) {
      if (turn !== this.#turn || error.name === "AbortError") return;
      this.#showError(error);
    }
  }

  #setChecking(checking) {
    byId("checking").hidden = !checking;
  }

  async #register() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#setChecking(false);
    const turn = ++this.#turn;
    if (!this.text.value.trim()) {
      this.#showError({ message: "Write a query first.", place: null });
      this.text.focus();
      return;
    }
    byId("register").disabled = true;
    try {
      const query = await request("POST", "queries", { body: queryRequest() });
      if (turn === this.#turn) {
        this.dialog.close();
        this.text.value = "";
        for (const id of ["query-name", "paths", "order", "max-gap", "max-span", "node-label", "parameters"]) byId(id).value = "";
        this.#showBounds();
        this.#show(null);
        this.#showError(null);
      }
      // If the text was edited meanwhile, the dialog stays open with it.
      this.onRegistered(query);
    } catch (error) {
      if (turn === this.#turn) {
        this.#showError(error);
        this.text.focus();
      }
    } finally {
      byId("register").disabled = false;
    }
  }

  /** Show an error and underline its place, or clear both if it is null; the indicator of a running check goes out. */
  #showError(error) {
    this.#setChecking(false);
    // An error without a status came from the network.
    const given = error === null ? "" : error.status || !(error instanceof Error) ? error.message.split("\n")[0] : "The server does not answer.";
    const hint = error?.hint && !given.includes(error.hint) ? `; ${error.hint}` : "";
    const message = shownMessage(given + hint);
    if (this.error.textContent !== message) this.error.textContent = message;
    this.#mark(error?.place ?? null);
    this.text.setAttribute("aria-invalid", String(error !== null));
  }

  #mark(place) {
    const text = this.text.value;
    if (!place) {
      this.underlined.replaceChildren();
      return;
    }
    const [start, end] = rangeOf(text, place);
    // At the end of the text, or of a line, a blank is underlined.
    const wrong = text.slice(start, end).replace("\n", "");
    const mark = element("mark", { "data-testid": "underlined" }, wrong || "\u00a0");
    this.underlined.replaceChildren(text.slice(0, start), mark, wrong ? text.slice(end) : `${text.slice(start)}`);
    this.#scroll();
  }

  #scroll() {
    this.underlined.scrollTop = this.text.scrollTop;
    this.underlined.scrollLeft = this.text.scrollLeft;
  }

  /** Show the explanation of the query, or none if it is null. */
  #show(explanation) {
    this.dialog.classList.remove("stale");
    const tag = byId("language");
    tag.hidden = !explanation;
    if (explanation) tag.textContent = KINDS[explanation.language] ?? explanation.language;
    const columns = explanation?.columns ?? [];
    byId("columns").replaceChildren(
      ...(columns.length ? ["Answers have ", ...columns.flatMap((name, at) => [at ? ", " : "", element("b", {}, nameElement(name))])] : []),
    );
    byId("in-words").hidden = !explanation;
    byId("explained").textContent = shownMessage(explanation?.text ?? "");
    const drawing = explanation && drawExplained(explanation, `The ${KINDS[explanation.language] ?? "query"} drawn`);
    byId("drawing").replaceChildren(
      drawing ?? element("p", { class: "empty" }, explanation ? "No picture of this one: the text explains it." : "Its automaton or pattern is drawn here as you type."),
    );
  }
}
