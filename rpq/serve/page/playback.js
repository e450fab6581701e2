// A file played back: play, pause, and how fast its time runs.

import { request } from "./connection.js";
import { byId, count, element } from "./words.js";

const OF_TIME = [60, 600, 3600, 21_600, 86_400, 604_800];
const OF_NUMBERS = [1, 10, 100, 1000, 10_000, 100_000];
const UNITS = [[604_800, "week"], [86_400, "day"], [3600, "h"], [60, "min"], [1, "s"]];

/** Return a speed in a readable unit: 43200 seconds a second are 12 h/s. */
function speedText(speed, isTime) {
  if (!isTime) return `${count(speed)}/s`;
  const [length, unit] = UNITS.find(([seconds]) => speed % seconds === 0) ?? [1, "s"];
  return `${count(speed / length)} ${unit}/s`;
}

/** The control, hidden if the server plays nothing back; `onError(error)` is called if it refuses a request. */
export class Playback {
  #state = null;
  #turn = 0; // A response to an earlier request must not set the control back.
  #seen = new Set();
  #choicesText = null; // The choices that the control shows, as JSON.

  constructor({ onError, isTime }) {
    this.onError = onError;
    this.isTime = isTime;
    this.root = byId("playback");
    this.button = byId("play");
    this.select = byId("speed");
    this.button.addEventListener("click", () => this.#change({ state: this.#state.state === "playing" ? "paused" : "playing" }));
    this.select.addEventListener("change", () => this.#change({ speed: this.select.value === "full" ? null : Number(this.select.value) }));
  }

  get there() {
    return this.#state !== null;
  }

  /** Read the state from the server. Return false if the server plays nothing back. */
  async refresh() {
    const turn = this.#turn;
    try {
      const state = await request("GET", "playback");
      if (turn === this.#turn) this.#show(state);
      return true;
    } catch (error) {
      if (error.status === 404) this.root.hidden = true;
      return error.status !== 404;
    }
  }

  async #change(wanted) {
    const turn = ++this.#turn;
    try {
      const state = await request("POST", "playback", { body: wanted });
      if (turn !== this.#turn) return;
      this.#turn += 1; // Requests sent meanwhile may have been answered before the change.
      this.#show(state);
    } catch (error) {
      this.onError(error);
    }
  }

  #show(state) {
    this.#state = state;
    this.root.hidden = false;
    const playing = state.state === "playing";
    this.button.dataset.playing = String(playing);
    this.button.disabled = state.state === "ended";
    this.button.setAttribute("aria-label", playing ? "Pause" : state.state === "ended" ? "The file has ended" : "Play");
    this.root.dataset.state = state.state;
    if (document.activeElement !== this.select) this.#speeds(state.speed);
  }

  #speeds(speed) {
    const isTime = this.isTime();
    if (speed !== null) this.#seen.add(speed); // One can go back to it.
    const speeds = new Set([...(isTime ? OF_TIME : OF_NUMBERS), ...this.#seen]);
    const choices = [...speeds].sort((a, b) => a - b).map((one) => [String(one), speedText(one, isTime)]);
    choices.push(["full", "full speed"]);
    const choicesText = JSON.stringify(choices);
    if (this.#choicesText !== choicesText) {
      this.#choicesText = choicesText;
      this.select.replaceChildren(...choices.map(([choice, text]) => element("option", { value: choice }, text)));
    }
    this.select.value = speed === null ? "full" : String(speed);
  }
}
