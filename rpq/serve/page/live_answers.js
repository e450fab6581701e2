// The answers of one query that hold now, as far as the page keeps them, and which of them are drawn.

import { shownText } from "./names.js";

/** So many answers are kept by value; of more only the number is known. */
export const KEPT = 20_000;

const keyOf = (values) => JSON.stringify(values);

/**
 * Answers with how often each holds, in the order in which they came.
 *
 * `total` counts all rows that hold, kept or not. `position` is that of the last change which is in it.
 */
export class LiveAnswers {
  #kept = new Map();
  total = 0;
  position = -1;

  get size() {
    return this.#kept.size;
  }

  has(key) {
    return this.#kept.has(key);
  }

  get(key) {
    return this.#kept.get(key);
  }

  /** Begin anew with what GET answers has told. */
  load({ rows, total, position }) {
    const before = this.#kept;
    this.#kept = new Map();
    for (const values of rows) {
      const key = keyOf(values);
      const known = this.#kept.get(key);
      if (known) known.times += 1;
      else this.#kept.set(key, { key, values, times: 1, timestamp: before.get(key)?.timestamp ?? null, since: before.get(key)?.since ?? null });
    }
    this.total = total;
    this.position = position;
  }

  /** Apply one change that came at `now`; the answer that it is about. `since` is null where nobody saw it begin. */
  apply({ op, values, timestamp }, now) {
    const key = keyOf(values);
    const known = this.#kept.get(key);
    if (op === "-") {
      this.total = Math.max(0, this.total - 1);
      if (known && --known.times <= 0) this.#kept.delete(key);
      return known ?? { key, values, times: 0, timestamp, since: null };
    }
    this.total += 1;
    if (known) {
      known.times += 1;
      known.timestamp = timestamp;
      return known;
    }
    const answer = { key, values, times: 1, timestamp, since: now };
    this.#kept.set(key, answer);
    if (this.#kept.size > KEPT) this.#kept.delete(this.#kept.keys().next().value);
    return answer;
  }

  /** The newest answers first, as long as `wanted` likes them and there is room. */
  newest(room, wanted) {
    const all = [...this.#kept.values()];
    const found = [];
    for (let at = all.length - 1; at >= 0 && found.length < room; at -= 1) if (wanted(all[at])) found.push(all[at]);
    return found;
  }

  /** How many kept answers `wanted` likes. */
  number(wanted) {
    let found = 0;
    for (const answer of this.#kept.values()) if (wanted(answer)) found += 1;
    return found;
  }
}

/**
 * A bounded choice among live answers that stays calm: what is drawn stays while it holds; what leaves makes room for the newest,
 * and where all room is taken, new ones take the place of the oldest a few at a time.
 */
export class DrawnAnswers {
  #drawn = new Map();
  #search = "";
  limit = 300;
  /** Of how many answers these were chosen: those that match what is searched, or all. */
  among = 0;

  get keys() {
    return this.#drawn.keys();
  }

  get size() {
    return this.#drawn.size;
  }

  get searching() {
    return this.#search !== "";
  }

  values() {
    return this.#drawn.values();
  }

  has(key) {
    return this.#drawn.has(key);
  }

  search(text) {
    this.#search = text.trim().toLowerCase();
  }

  clear() {
    this.#drawn.clear();
  }

  /** Choose anew; `kept` is a key that stays as long as it holds. Returns the answers that came and the keys that went. */
  choose(answers, kept) {
    const search = this.#search;
    const matches = search === "" ? () => true : ({ values }) => values.some((value) => value !== null && shownText(value).toLowerCase().includes(search));
    const went = [];
    const came = [];
    const drop = (key) => {
      this.#drawn.delete(key);
      went.push(key);
    };
    const add = (answer) => {
      this.#drawn.set(answer.key, answer);
      came.push(answer);
    };
    for (const [key, answer] of [...this.#drawn]) {
      if (!answers.has(key) || (key !== kept && !matches(answer))) drop(key);
      else if (answers.get(key) !== answer) this.#drawn.set(key, answers.get(key));
    }
    if (kept && answers.has(kept) && !this.#drawn.has(kept)) add(answers.get(kept));
    while (this.#drawn.size > this.limit) drop(this.#oldest(kept));
    // Looked at are as many as could be drawn: the others are older than all of these.
    const newest = answers.newest(this.limit, matches);
    let turn = Math.max(2, Math.round(this.limit / 60));
    for (const answer of newest) {
      if (this.#drawn.has(answer.key)) continue;
      if (this.#drawn.size >= this.limit) {
        if (turn-- <= 0) break;
        drop(this.#oldest(kept));
      }
      add(answer);
    }
    this.among = search === "" ? answers.total : answers.number(matches);
    return { came, went };
  }

  #oldest(kept) {
    for (const key of this.#drawn.keys()) if (key !== kept) return key;
    return kept;
  }
}
