// Requests to the server, and its stream of changes: one that ends is taken up again where it stopped.

const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;
const SILENCE = 40_000; // The server pings every 15 s: a stream silent for longer is dead.

/** A response with an error status; `place` has line, column and length if the error has a place. */
export class ServerError extends Error {
  constructor(status, error) {
    super(error.message || `the server answered with ${status}`);
    this.status = status;
    this.hint = error.hint ?? null;
    this.place = error.column ? { line: error.line || 1, column: error.column, length: error.length || 1 } : null;
  }
}

/** Return the token of `#token=…` in the address, which is removed from it at once, or the token that this tab used before. */
function tokenOfTheAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname + location.search);
    keepToken(given);
    return given;
  }
  try {
    return sessionStorage.getItem("rpq-token");
  } catch {
    return null;
  }
}

function keepToken(token) {
  try {
    sessionStorage.setItem("rpq-token", token);
  } catch {
    // Storage is switched off: the token lives as long as the page.
  }
}

let token = tokenOfTheAddress();

export const hasToken = () => Boolean(token);

export function useToken(given) {
  token = given;
  keepToken(given);
}

function headers(more) {
  return token ? { ...more, Authorization: `Bearer ${token}` } : more;
}

async function refuse(response) {
  let error = {};
  try {
    const body = await response.json();
    error = body.error || (typeof body.detail === "string" ? { message: body.detail } : {});
  } catch {
    // A proxy may answer with a page of its own.
  }
  throw new ServerError(response.status, error);
}

/** Send a request. Return the JSON of the response, or null if it has no body. Throws a `ServerError` for an error status. */
export async function request(method, path, { body, signal } = {}) {
  const options = { method, headers: headers({ Accept: "application/json" }), signal, cache: "no-store" };
  if (body !== undefined) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(path, options);
  if (!response.ok) await refuse(response);
  return response.status === 204 ? null : response.json();
}

/** Return the path of a query, or of a resource below it. */
export function ofQuery(name, below = "") {
  return `queries/${encodeURIComponent(name)}${below}`;
}

/** A parser of text/event-stream that receives the text in pieces. */
export class EventLines {
  #rest = "";
  #event = { type: "message", data: [] };
  lastId = null;

  /** Add a piece of text. Return the events that it completes. */
  take(text) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    const found = [];
    for (const line of lines) {
      if (line === "") {
        if (this.#event.data.length) found.push({ ...this.#event, data: this.#event.data.join("\n"), id: this.lastId });
        this.#event = { type: "message", data: [] };
      } else if (!line.startsWith(":")) {
        const colon = line.indexOf(":");
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + (line[colon + 1] === " " ? 2 : 1));
        if (field === "data") this.#event.data.push(value);
        else if (field === "event") this.#event.type = value;
        else if (field === "id") this.lastId = value;
      }
    }
    return found;
  }
}

/**
 * Follow the changes of one query until `stop()`.
 *
 * `onEvent({type, data, id})` gets events in order, data as JSON; `onState(state, detail)` one of "connecting", "live",
 * "waiting" (with seconds), "refused" (with the error: there is no point in trying again). `onOpen(resumed)` is
 * called whenever a stream begins, before its first event: `resumed` says whether it continues after the last event that was received.
 */
export class Follower {
  #stopped = false;
  #abort = null;
  #lastId = null;
  #wait = FIRST_WAIT;
  #wake = null;

  constructor(name, { onEvent, onState, onOpen }) {
    this.name = name;
    this.onEvent = onEvent;
    this.onState = onState;
    this.onOpen = onOpen;
    this.#run();
  }

  stop() {
    this.#stopped = true;
    this.#abort?.abort();
    this.#wake?.();
  }

  /** Reconnect now instead of waiting: the browser is online again, or the page is visible again. */
  hurry() {
    this.#wake?.();
  }

  /** Forget the last event: the next stream begins with new changes. */
  forget() {
    this.#lastId = null;
  }

  async #run() {
    while (!this.#stopped) {
      this.onState("connecting");
      try {
        await this.#readOnce();
      } catch (error) {
        if (this.#stopped) return;
        if (error instanceof ServerError && [401, 403, 404].includes(error.status)) {
          this.onState("refused", error);
          return;
        }
      }
      if (this.#stopped) return;
      this.onState("waiting", this.#wait / 1000);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, this.#wait);
        this.#wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
      this.#wake = null;
      this.#wait = Math.min(LONGEST_WAIT, this.#wait * 2);
    }
  }

  async #readOnce() {
    this.#abort = new AbortController();
    const resumed = this.#lastId !== null;
    const more = resumed ? { "Last-Event-ID": this.#lastId } : {};
    const response = await fetch(`changes?query=${encodeURIComponent(this.name)}`, {
      headers: headers({ Accept: "text/event-stream", ...more }),
      signal: this.#abort.signal,
      cache: "no-store",
    });
    if (!response.ok) await refuse(response);
    this.#wait = FIRST_WAIT;
    this.onState("live");
    this.onOpen(resumed);
    const lines = new EventLines();
    const text = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let silent = 0;
    const alarm = () => {
      clearTimeout(silent);
      silent = setTimeout(() => this.#abort.abort(), SILENCE);
    };
    try {
      for (;;) {
        alarm();
        const { value, done } = await text.read();
        if (done || this.#stopped) return;
        for (const event of lines.take(value)) {
          if (event.id !== null) this.#lastId = event.id;
          this.onEvent({ type: event.type, id: event.id, data: JSON.parse(event.data) });
        }
      }
    } finally {
      clearTimeout(silent);
    }
  }
}
