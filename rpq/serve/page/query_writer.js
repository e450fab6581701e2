// The dialog in which a query is written: understood while it is typed, errors underlined where they are.

import { request } from "./connection.js";
import { drawExplained } from "./explained.js";
import { askedQuery, rangeOf } from "./query_fields.js";
import { nameElement, shownMessage } from "./names.js";
import { byId, element } from "./words.js";

const PAUSE = 250;
const KINDS = { path: "path", pattern: "pattern", sparql: "SPARQL" };

/** Opens with `open()`; `onRegistered(query)` once the server has taken one. */
export class QueryWriter {
  #timer = 0;
  #asked = 0;
  #abort = null;

  constructor({ onRegistered, isTime }) {
    this.onRegistered = onRegistered;
    this.isTime = isTime;
    this.dialog = byId("writer");
    this.text = byId("expression");
    this.underlined = byId("underlined");
    this.error = byId("query-error");
    for (const id of ["expression", "window", "slide", "query-name"]) byId(id).addEventListener("input", () => this.#typed());
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
    const [window, slide] = this.isTime() ? ["10d", "1d"] : ["100", "10"];
    if (!byId("window").value) [byId("window").value, byId("slide").value] = [window, slide];
    if (!this.text.value) this.#show(null);
    this.dialog.showModal();
    this.text.focus();
    this.#typed();
  }

  #typed() {
    // What was told about another text is no longer true of this one, and what is still to come for it is let go of.
    this.#asked += 1;
    this.#abort?.abort();
    clearTimeout(this.#timer);
    this.#tell(null);
    if (!this.text.value.trim()) {
      this.#show(null);
      return;
    }
    this.#setChecking(true);
    this.dialog.classList.add("stale");
    this.#timer = setTimeout(() => this.#check(), PAUSE);
  }

  async #check() {
    const turn = this.#asked;
    this.#abort = new AbortController();
    try {
      const told = await request("POST", "check", { body: askedQuery(), signal: this.#abort.signal });
      if (turn !== this.#asked) return;
      this.#tell(null);
      this.#show(told);
    } catch (error) {
      if (turn !== this.#asked || error.name === "AbortError") return;
      this.#tell(error);
    }
  }

  #setChecking(checking) {
    byId("checking").hidden = !checking;
  }

  async #register() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#setChecking(false);
    const turn = ++this.#asked;
    if (!this.text.value.trim()) {
      this.#tell({ message: "Write a query first.", place: null });
      this.text.focus();
      return;
    }
    byId("register").disabled = true;
    try {
      const query = await request("POST", "queries", { body: askedQuery() });
      if (turn === this.#asked) {
        this.dialog.close();
        this.text.value = "";
        byId("query-name").value = "";
        this.#show(null);
        this.#tell(null);
      }
      // Who has written on meanwhile keeps the text, and the dialog in which it stands.
      this.onRegistered(query);
    } catch (error) {
      if (turn === this.#asked) {
        this.#tell(error);
        this.text.focus();
      }
    } finally {
      byId("register").disabled = false;
    }
  }

  /** Say what is wrong, and underline its place; null takes both away. Whatever is told, nothing is checked any more. */
  #tell(error) {
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

  /** Show how the query is understood; null where nothing is written. */
  #show(told) {
    this.dialog.classList.remove("stale");
    const tag = byId("language");
    tag.hidden = !told;
    if (told) tag.textContent = KINDS[told.language] ?? told.language;
    const columns = told?.columns ?? [];
    byId("columns").replaceChildren(
      ...(columns.length ? ["Answers have ", ...columns.flatMap((name, at) => [at ? ", " : "", element("b", {}, nameElement(name))])] : []),
    );
    byId("in-words").hidden = !told;
    byId("explained").textContent = shownMessage(told?.text ?? "");
    const drawing = told && drawExplained(told, `The ${KINDS[told.language] ?? "query"} drawn`);
    byId("drawing").replaceChildren(
      drawing ?? element("p", { class: "empty" }, told ? "No picture of this one: it is told in words." : "Its automaton or pattern is drawn here as you type."),
    );
  }
}
