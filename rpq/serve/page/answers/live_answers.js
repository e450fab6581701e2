// The answers of one query that hold now, as far as the page keeps them, and which of them are drawn.

import { shownText } from "../names.js";

/** The largest number of answers that the page stores; beyond it, only their number is known. */
export const MAX_ANSWERS = 20_000;

const keyOf = (values) => JSON.stringify(values);

/**
 * Answers with how often each holds, in the order in which they came.
 *
 * `total` counts all answers that hold, stored or not. `position` is that of the last change that is included.
 */
export class LiveAnswers {
  #answers = new Map();
  total = 0;
  position = -1;

  get size() {
    return this.#answers.size;
  }

  has(key) {
    return this.#answers.has(key);
  }

  get(key) {
    return this.#answers.get(key);
  }

  /** Replace everything by the response of GET answers. */
  load({ rows, total, position }) {
    const before = this.#answers;
    this.#answers = new Map();
    for (const values of rows) {
      const key = keyOf(values);
      const known = this.#answers.get(key);
      if (known) known.times += 1;
      else this.#answers.set(key, { key, values, times: 1, timestamp: before.get(key)?.timestamp ?? null, since: before.get(key)?.since ?? null });
    }
    this.total = total;
    this.position = position;
  }

  /** Apply a change that came at `now`. Return its answer, whose `since` is null if the page did not see it begin. */
  apply({ op, values, timestamp }, now) {
    const key = keyOf(values);
    const known = this.#answers.get(key);
    if (op === "-") {
      this.total = Math.max(0, this.total - 1);
      if (known && --known.times <= 0) this.#answers.delete(key);
      return known ?? { key, values, times: 0, timestamp, since: null };
    }
    this.total += 1;
    if (known) {
      known.times += 1;
      known.timestamp = timestamp;
      return known;
    }
    const answer = { key, values, times: 1, timestamp, since: now };
    this.#answers.set(key, answer);
    if (this.#answers.size > MAX_ANSWERS) this.#answers.delete(this.#answers.keys().next().value);
    return answer;
  }

  /** Return up to `room` answers that `wanted` accepts, the newest first. */
  newest(room, wanted) {
    const all = [...this.#answers.values()];
    const found = [];
    for (let at = all.length - 1; at >= 0 && found.length < room; at -= 1) if (wanted(all[at])) found.push(all[at]);
    return found;
  }

  /** Return how many stored answers `wanted` accepts. */
  number(wanted) {
    let found = 0;
    for (const answer of this.#answers.values()) if (wanted(answer)) found += 1;
    return found;
  }
}

/**
 * A bounded choice among live answers that stays calm: drawn answers stay while they hold; those that leave make room
 * for the newest, and if there is no room, new ones replace the oldest, a few at a time.
 */
export class DrawnAnswers {
  #drawn = new Map();
  #search = "";
  limit = 300;
  /** The number of answers to choose from: those that match the search, or all. */
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

  /** Choose anew; the answer with the key `chosen` stays as long as it holds. Return the answers that came and the keys that went. */
  choose(answers, chosen) {
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
      if (!answers.has(key) || (key !== chosen && !matches(answer))) drop(key);
      else if (answers.get(key) !== answer) this.#drawn.set(key, answers.get(key));
    }
    if (chosen && answers.has(chosen) && !this.#drawn.has(chosen)) add(answers.get(chosen));
    while (this.#drawn.size > this.limit) drop(this.#oldest(chosen));
    // As many as can be drawn are considered; the others are older than all of these.
    const newest = answers.newest(this.limit, matches);
    let turn = Math.max(2, Math.round(this.limit / 60));
    for (const answer of newest) {
      if (this.#drawn.has(answer.key)) continue;
      if (this.#drawn.size >= this.limit) {
        if (turn-- <= 0) break;
        drop(this.#oldest(chosen));
      }
      add(answer);
    }
    this.among = search === "" ? answers.total : answers.number(matches);
    return { came, went };
  }

  #oldest(chosen) {
    for (const key of this.#drawn.keys()) if (key !== chosen) return key;
    return chosen;
  }
}
