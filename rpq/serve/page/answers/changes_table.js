// The newest changes of the chosen query, as a table of bounded length.

import { nameElement, nameText, shownText } from "../names.js";
import { byId, count, element, streamTime } from "../words.js";

const MAX_CHANGES = 500;
const SHOWN = 200;
const OPERATIONS = { "+": ["plus", "+", "begins"], "-": ["minus", "−", "ceases"], "=": ["held", "", "held"] };
const EVERY = 250; // Milliseconds between two drawings: nobody reads faster.

/**
 * Rows newest first, above the answers that held before; `onChoose(values)` when one is chosen. While it is paused it does not
 * change, and shows how many changes wait.
 */
export class ChangesTable {
  #changes = [];
  #held = [];
  #shown = [];
  #rows = [];
  #paused = false;
  #waiting = 0;
  #timer = 0;
  #chosen = null;

  constructor({ onChoose, unit }) {
    this.onChoose = onChoose;
    this.unit = unit;
    this.body = byId("changes-rows");
    this.heldBody = byId("held-rows");
    this.pause = byId("pause-changes");
    this.pause.addEventListener("click", () => this.#setPaused(!this.#paused));
    for (const body of [this.body, this.heldBody]) {
      body.addEventListener("click", (event) => this.#chooseRow(event.target.closest("tr")));
      body.addEventListener("keydown", (event) => this.#key(event));
    }
    this.clear([]);
  }

  /** Begin anew, with the columns of another query. */
  clear(columns) {
    this.columns = columns;
    this.#changes = [];
    this.#rows = [];
    this.#held = [];
    this.body.replaceChildren();
    this.heldBody.replaceChildren();
    byId("changes-table").style.setProperty("--columns", columns.length);
    byId("changes-table").classList.toggle("of-many", columns.length > 2);
    const titles = ["", "time", ...columns].map((name) => element("th", { scope: "col", title: name ? nameText(name) : null }, name ? nameElement(name) : ""));
    titles[0].append(element("span", { class: "unseen" }, "begins or ceases"));
    byId("changes-columns").replaceChildren(...titles);
    this.#setPaused(false);
    this.#draw();
  }

  /** Show answers, of `total`, that held before the first change. */
  setHeld(answers, total) {
    const shown = answers.slice(0, SHOWN);
    if (!shown.length) return;
    const number = shown.length < total ? `${count(shown.length)} of ${count(total)}` : count(total);
    const text = `${number} ${total === 1 ? "answer" : "answers"} held when the page read them; changes since then appear above.`;
    this.heldBody.replaceChildren(element("tr", {}, element("th", { scope: "rowgroup", colspan: 2 + this.columns.length }, text)));
    this.#held = shown.map((values, at) => {
      const line = this.#newLine(this.heldBody, at);
      this.#write(line, { op: "=", values });
      return line;
    });
    this.#draw();
  }

  add(changes) {
    const last = changes.length > MAX_CHANGES ? changes.slice(-MAX_CHANGES) : changes;
    this.#changes.push(...last);
    if (this.#changes.length > MAX_CHANGES) this.#changes.splice(0, this.#changes.length - MAX_CHANGES);
    if (this.#paused) this.#waiting += changes.length;
    this.#soon();
  }

  /** Mark the rows of an answer. */
  mark(key) {
    this.#chosen = key;
    this.#draw();
  }

  #setPaused(paused) {
    this.#paused = paused;
    this.#waiting = 0;
    this.pause.setAttribute("aria-pressed", String(paused));
    this.pause.textContent = paused ? "Go on" : "Pause";
    this.#soon();
  }

  #soon() {
    this.#timer ||= setTimeout(() => {
      this.#timer = 0;
      this.#draw();
    }, EVERY);
  }

  #draw() {
    byId("changes-waiting").textContent = this.#paused ? (this.#waiting ? `${count(this.#waiting)} wait` : "paused") : "";
    if (!this.#paused) this.#shown = this.#changes.slice(-SHOWN).reverse();
    byId("no-changes").hidden = this.#shown.length + this.#held.length > 0;
    this.#shown.forEach((change, at) => this.#write((this.#rows[at] ??= this.#newLine(this.body, at)), change));
    while (this.#rows.length > this.#shown.length) this.#rows.pop().row.remove();
    for (const line of this.#held) this.#write(line, line.change);
  }

  #newLine(body, at) {
    const cells = Array.from({ length: 2 + this.columns.length }, () => element("td"));
    const row = element("tr", { tabindex: at === 0 ? "0" : "-1" }, ...cells);
    body.append(row);
    return { row, cells, change: null, marked: null };
  }

  #write(line, change) {
    const marked = this.#chosen !== null && JSON.stringify(change.values) === this.#chosen;
    if (line.marked !== marked) {
      line.marked = marked;
      line.row.setAttribute("aria-selected", String(marked));
    }
    if (line.change === change) return;
    line.change = change;
    const [name, sign, meaning] = OPERATIONS[change.op];
    line.row.className = name;
    line.cells[0].textContent = sign;
    line.cells[0].setAttribute("aria-label", meaning);
    line.cells[1].textContent = change.op === "=" ? "" : shownText(streamTime(change.timestamp, this.unit()));
    this.columns.forEach((_, at) => {
      line.cells[2 + at].replaceChildren(nameElement(change.values[at]));
      line.cells[2 + at].title = nameText(change.values[at]);
    });
  }

  get #lines() {
    return [...this.#rows, ...this.#held];
  }

  #chooseRow(row) {
    const line = this.#lines.find((one) => one.row === row);
    if (line) this.onChoose(line.change.values);
  }

  #key(event) {
    const lines = this.#lines;
    const at = lines.findIndex(({ row }) => row === event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") this.#chooseRow(event.target);
    else if (to === undefined) return;
    else if (lines[to]) {
      // Who walks through rows wants them to stand still.
      if (!this.#paused) this.#setPaused(true);
      lines[at]?.row.setAttribute("tabindex", "-1");
      lines[to].row.setAttribute("tabindex", "0");
      lines[to].row.focus();
    }
    event.preventDefault();
  }
}
