// The newest changes of the chosen query, as a table of bounded length.

import { nameElement, nameText, shownText } from "../names.js";
import { byId, count, element, streamTime } from "../words.js";

const MOST_CHANGES = 500;
const SHOWN = 200;
const EVERY = 250; // Milliseconds between two drawings: nobody reads faster.

/** Rows newest first; `onChoose(values)` when one is chosen. While it is paused it does not change, and shows how many changes wait. */
export class ChangesTable {
  #changes = [];
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
    this.pause = byId("pause-changes");
    this.pause.addEventListener("click", () => this.#setPaused(!this.#paused));
    this.body.addEventListener("click", (event) => this.#chooseRow(event.target.closest("tr")));
    this.body.addEventListener("keydown", (event) => this.#key(event));
    this.clear([]);
  }

  /** Begin anew, with the columns of another query. */
  clear(columns) {
    this.columns = columns;
    this.#changes = [];
    this.#rows = [];
    this.body.replaceChildren();
    const titles = ["", "time", ...columns].map((name) => element("th", { scope: "col", title: name ? nameText(name) : null }, name ? nameElement(name) : ""));
    titles[0].append(element("span", { class: "unseen" }, "begins or ceases"));
    byId("changes-columns").replaceChildren(...titles);
    this.#setPaused(false);
    this.#draw();
  }

  add(changes) {
    const last = changes.length > MOST_CHANGES ? changes.slice(-MOST_CHANGES) : changes;
    this.#changes.push(...last);
    if (this.#changes.length > MOST_CHANGES) this.#changes.splice(0, this.#changes.length - MOST_CHANGES);
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
    byId("no-changes").hidden = this.#shown.length > 0;
    this.#shown.forEach((change, at) => this.#write(this.#rows[at] ?? this.#newRow(at), change));
    while (this.#rows.length > this.#shown.length) this.#rows.pop().row.remove();
  }

  #newRow(at) {
    const cells = Array.from({ length: 2 + this.columns.length }, () => element("td"));
    const row = element("tr", { tabindex: at === 0 ? "0" : "-1" }, ...cells);
    this.body.append(row);
    const line = { row, cells, change: null, marked: null };
    this.#rows.push(line);
    return line;
  }

  #write(line, change) {
    const marked = this.#chosen !== null && JSON.stringify(change.values) === this.#chosen;
    if (line.marked !== marked) {
      line.marked = marked;
      line.row.setAttribute("aria-selected", String(marked));
    }
    if (line.change === change) return;
    line.change = change;
    const begins = change.op === "+";
    line.row.className = begins ? "plus" : "minus";
    line.cells[0].textContent = begins ? "+" : "−";
    line.cells[0].setAttribute("aria-label", begins ? "begins" : "ceases");
    line.cells[1].textContent = shownText(streamTime(change.timestamp, this.unit()));
    this.columns.forEach((_, at) => {
      line.cells[2 + at].replaceChildren(nameElement(change.values[at]));
      line.cells[2 + at].title = nameText(change.values[at]);
    });
  }

  #chooseRow(row) {
    const line = this.#rows.find((one) => one.row === row);
    if (line) this.onChoose(line.change.values);
  }

  #key(event) {
    const at = this.#rows.findIndex(({ row }) => row === event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: this.#rows.length - 1 }[event.key];
    if (event.key === "Enter" || event.key === " ") this.#chooseRow(event.target);
    else if (to === undefined) return;
    else if (this.#rows[to]) {
      // Who walks through rows wants them to stand still.
      if (!this.#paused) this.#setPaused(true);
      this.#rows[at]?.row.setAttribute("tabindex", "-1");
      this.#rows[to].row.setAttribute("tabindex", "0");
      this.#rows[to].row.focus();
    }
    event.preventDefault();
  }
}
