// The page: which query is followed, what it shows of it, and the state of the connection.

import { Follower, hasToken, ofQuery, request, useToken } from "./connection.js";
import { ChangesTable } from "./answers/changes_table.js";
import { Curves } from "./curves.js";
import { emptyStage } from "./answers/empty_stage.js";
import { GraphModel } from "./graph/model.js";
import { GraphView } from "./graph/view.js";
import { DrawnAnswers, LiveAnswers, MAX_ANSWERS } from "./answers/live_answers.js";
import { Playback } from "./playback.js";
import { QueryList } from "./queries/list.js";
import { usualWindow } from "./queries/options.js";
import { QueryWriter } from "./queries/writer.js";
import { startTheme } from "./theme.js";
import { WitnessPanel } from "./answers/witness_panel.js";
import { nameElement, nameText, shownMessage, shownText } from "./names.js";
import { byId, count, streamTime } from "./words.js";

const CHOOSE_EVERY = 250; // Milliseconds between two choices of what is drawn.
const WITNESS_EVERY = 2000;

const model = new GraphModel();
const drawn = new DrawnAnswers();
let answers = new LiveAnswers();
let follower = null;
let isRead = false; // Whether the answers were read: until then the server alone knows their number.
let reading = null; // Changes that came while answers are read anew, or null.
let turn = 0; // Of the query that is followed: what arrives for an earlier one is ignored.
let chosen = null; // {key, values, witness, error, left, reveal, at}
let statistics = null;
let before = null; // The statistics a second ago.
let differs = 0; // How often in a row the server counted other answers than the page.
let playbackThere = true;
let listening = false; // Whether the stream of changes is open.
let newestTime = null; // Of the stream, as far as the page knows.

const unit = () => statistics?.time_unit ?? null;
const isTime = () => unit() !== null || typeof statistics?.time === "string";

const view = new GraphView(byId("graph"), model, {
  onChoose: choose,
  onAgain: () => readWitness(),
  onSize: (size) => byId("canvas-box").style.setProperty("--vertex-size", size.toFixed(2)),
});
const table = new ChangesTable({ onChoose: (values) => chooseValues(values), unit });
const panel = new WitnessPanel({ onFind: find, unit });
const curves = new Curves(byId("curves"));
const list = new QueryList({ onChoose: follow, onCount: countAnswers, onError: tell, unit });
const writer = new QueryWriter({ onRegistered: registered, usual: () => usualWindow(list.current, isTime(), unit()) });
const playback = new Playback({ onError: tell, isTime });

// --- the query that is followed -----------------------------------------------------------------------------

function follow(query) {
  turn += 1;
  follower?.stop();
  follower = null;
  reading = null;
  answers = new LiveAnswers();
  isRead = false;
  drawn.clear();
  model.clear();
  choose(null);
  curves.clear("answers");
  table.clear(query?.columns ?? []);
  byId("graph-title").replaceChildren(query ? nameElement(query.name) : "Answers");
  if (query) {
    const mine = turn;
    follower = new Follower(query.name, {
      onState: (state, detail) => mine === turn && connectionState(state, detail),
      onOpen: (resumed) => mine === turn && !resumed && readAnswers(),
      onEvent: (event) => mine === turn && take(event),
    });
  }
  showCount();
}

/** Read the answers. Changes that come meanwhile wait, and are applied unless the answers contain them already. */
async function readAnswers() {
  const mine = turn;
  const waiting = [];
  reading = waiting;
  try {
    const response = await request("GET", ofQuery(list.chosen, `/answers?limit=${MAX_ANSWERS}`));
    if (mine !== turn || reading !== waiting) return;
    reading = null;
    answers.load(response);
    if (!isRead) table.setHeld(response.rows, response.total);
    isRead = true;
    for (const change of waiting) apply(change);
  } catch (error) {
    if (mine !== turn || reading !== waiting) return;
    reading = null;
    if (error.status === 404) await list.refresh().catch(tell);
    else if (error.status) tell(error);
    // Where nothing answered, the stream ends too, and its return reads the answers.
    else follower?.forget();
  }
  later();
}

function take({ type, data }) {
  if (type === "gap") {
    // The server no longer has the changes in between: the answers contain their effect.
    say("Some changes were missed; the answers are read anew.");
    readAnswers();
  } else if (type === "end") {
    follower.forget();
    say(`The server ended the stream of changes: ${data.reason}`);
  } else if (type === "start") {
    newestTime = null; // A server that was started anew may be behind.
    showTime(data.time);
  } else if (type === "changes") {
    if (reading) reading.push(data);
    else apply(data);
    later();
  }
}

function apply({ position, time, changes }) {
  if (time !== undefined && time !== null) showTime(time);
  const mine = changes.filter(({ query }) => query === list.chosen);
  table.add(mine);
  if (position <= answers.position) return;
  for (const change of mine) answers.apply(change, performance.now());
}

// --- what is drawn of it ------------------------------------------------------------------------------------

let timer = 0;

function later() {
  timer ||= setTimeout(() => {
    timer = 0;
    redraw();
  }, CHOOSE_EVERY);
}

function redraw() {
  const now = performance.now();
  const { came, went } = drawn.choose(answers, chosen?.key ?? null);
  for (const key of went) model.remove(key, now);
  for (const answer of came) model.add(answer, now);
  if (chosen && !chosen.left && !answers.has(chosen.key) && answers.size >= Math.min(answers.total, MAX_ANSWERS)) {
    chosen.left = true;
    showChosen();
  }
  showCount();
  view.redraw();
  // Where the newest take the places of older ones, a few at a time, there is more to do.
  if (came.length && drawn.size >= drawn.limit) later();
}

/** Store the number of answers of a query in the list, from where all others read it. */
function countAnswers(name, number) {
  // The page itself counts the answers of the query that is followed, change by change.
  list.setAnswers(name, name === list.chosen && isRead ? answers.total : number);
}

function showCount() {
  const query = list.current;
  if (query && isRead) {
    countAnswers(query.name);
    curves.setNow("answers", answers.total);
  }
  const total = query ? list.answersOf(query.name) : null;
  byId("graph-count").textContent = total === null ? "" : countText(total);
  byId("canvas-box").dataset.answers = String(isRead ? answers.total : 0);
  byId("canvas-box").dataset.vertices = String(model.vertices.size);
  byId("canvas-box").dataset.new = String(model.numberOfNew(performance.now()));
  byId("legend-knot").hidden = !(query?.columns.length > 2);
  emptyStage({ query, empty: model.shapes.size === 0 && !(drawn.searching && total), hasToken: hasToken(), statistics, loading: !isRead });
}

function countText(total) {
  const found = drawn.searching ? drawn.among : total;
  const what = drawn.searching ? "found" : found === 1 ? "answer" : "answers";
  // An answer that holds several times is drawn once; one that has just come is drawn in a moment.
  const areAll = (drawn.searching ? found : answers.size) <= drawn.limit;
  return areAll || !isRead ? `${count(found)} ${what}` : `${count(drawn.size)} of ${count(found)} ${what} drawn`;
}

function find(text) {
  byId("find").value = text;
  drawn.search(text);
  redraw();
}

// --- the chosen answer --------------------------------------------------------------------------------------

/** Choose an answer, or none; `reveal` scrolls to the witness, which is below the graph on a narrow page. */
function choose(key, { reveal = false } = {}) {
  if (key === null && chosen === null) return;
  chosen = key === null ? null : { key, values: JSON.parse(key), witness: null, error: null, left: !answers.has(key), reveal };
  view.chosen = key;
  byId("let-go").hidden = key === null;
  table.mark(key);
  model.light(null, performance.now());
  if (chosen) {
    showChosen();
    if (reveal) revealWitness();
    readWitness();
    say(`Chosen: ${chosen.values.map(nameText).join(", ")}`);
  } else panel.clear();
  later();
  view.redraw();
}

function chooseValues(values) {
  choose(JSON.stringify(values), { reveal: true });
}

function revealWitness() {
  byId("witness").scrollIntoView({ block: "nearest", behavior: model.calm ? "auto" : "smooth" });
}

function showChosen() {
  panel.show({ columns: list.current?.columns ?? [], ...chosen });
}

async function readWitness() {
  const answer = chosen;
  const query = list.chosen;
  if (!answer || answer.left) return;
  answer.at = performance.now();
  const values = answer.values.map((value) => `value=${encodeURIComponent(value === null ? "" : value)}`).join("&");
  try {
    const witness = await request("GET", ofQuery(query, `/witness?${values}`));
    if (answer !== chosen) return;
    const same = JSON.stringify(witness) === JSON.stringify(answer.witness);
    answer.witness = witness;
    answer.error = null;
    if (!same) {
      model.light(witness.edges, performance.now());
      say(`Witness of ${witness.edges?.length ?? 0} edges`);
    }
  } catch (error) {
    if (answer !== chosen) return;
    if (error.status === 404) answer.left = true;
    else answer.error = error.message;
    model.light(null, performance.now());
  }
  showChosen();
  if (answer.reveal) revealWitness(); // Again, now that it has its height; not when it is read anew.
  answer.reveal = false;
  view.redraw();
}

// --- once a second ------------------------------------------------------------------------------------------

async function tick() {
  const begun = performance.now();
  try {
    if (document.visibilityState === "visible" || statistics === null) {
      const [response] = await Promise.all([request("GET", "statistics"), playbackThere ? playback.refresh().then((there) => (playbackThere = there)) : null]);
      await takeStatistics(response, begun);
    }
  } catch (error) {
    if (error.status === 401 || error.status === 403) return refused(error);
    if (!listening) connectionState("waiting", 1);
  }
  if (chosen && begun - (chosen.at ?? 0) > WITNESS_EVERY) readWitness();
  setTimeout(tick, Math.max(250, 1000 - (performance.now() - begun)));
}

async function takeStatistics(response, at) {
  const first = statistics === null;
  before = statistics && { ...statistics, at: statistics.at };
  statistics = { ...response, at };
  if (before && response.position < before.position) newestTime = null;
  showTime(response.time);
  hideNotice("refused");
  if (response.failure) notice(`The server takes nothing more: ${response.failure}`, "failure");
  else hideNotice("failure");
  const names = response.queries.map(({ name }) => name).join("\n");
  if (first || names !== list.queries.map(({ name }) => name).join("\n")) await list.refresh();
  for (const { name, answers: holding } of response.queries) countAnswers(name, holding);
  const mine = response.queries.find(({ name }) => name === list.chosen);
  const seconds = before ? (at - before.at) / 1000 : 0;
  curves.add({
    tuples: before && seconds > 0 ? Math.max(0, (response.tuples - before.tuples) / seconds) : null,
    answers: mine ? list.answersOf(mine.name) : null,
    latency: response.latency_ms?.p99 ?? null,
    memory: response.memory_bytes ?? null,
  }, at);
  // In windows that let answers expire in silence, the server's number is less than ours: read them anew.
  differs = mine && reading === null && typeof mine.answers === "number" && mine.answers !== answers.total ? differs + 1 : 0;
  if (differs >= 2 && listening) {
    differs = 0;
    readAnswers();
  }
  if (!list.chosen) connectionState("live");
  showCount();
}

/** Show the time of the stream, from events and statistics; an earlier time does not set it back. */
function showTime(time) {
  if (time === null || time === undefined) return;
  if (newestTime === null || typeof time !== typeof newestTime || time > newestTime) newestTime = time;
  byId("stream-time").textContent = shownText(streamTime(newestTime, unit()));
}

// --- messages ----------------------------------------------------------------------------------------------

function connectionState(state, detail) {
  listening = state === "live";
  const pill = byId("connection");
  const text = { connecting: "connecting", live: "live", waiting: `reconnecting`, refused: "refused" }[state];
  if (pill.dataset.state !== state || pill.textContent !== text) {
    pill.dataset.state = state;
    pill.textContent = text;
  }
  if (state === "refused") {
    if (detail.status === 404) list.refresh().catch(tell);
    else refused(detail);
  }
}

function refused(error) {
  connectionPill("refused");
  notice(hasToken() ? "The server does not know this token." : "This server asks for a token: it is in the address that rpq serve printed.", "refused");
  if (error.status === 401) {
    byId("token-form").hidden = false;
    byId("token").focus();
  } else notice(error.message, "refused");
}

function connectionPill(state) {
  byId("connection").dataset.state = state;
  byId("connection").textContent = state;
}

function tell(error) {
  notice(error.status ? error.message.split("\n")[0] : "The server does not answer; the page tries again by itself.", "error");
  setTimeout(() => hideNotice("error"), 8000);
}

function notice(text, kind) {
  byId("notice").dataset.kind = kind;
  byId("notice").hidden = false;
  byId("notice-text").textContent = shownMessage(text);
}

function hideNotice(kind) {
  if (byId("notice").dataset.kind === kind) byId("notice").hidden = true;
}

function say(text) {
  byId("said").textContent = text;
}

async function registered(query) {
  try {
    await list.refresh();
    list.choose(query.name);
    say(`Registered ${nameText(query.name)}`);
    byId("graph").focus();
  } catch (error) {
    tell(error);
  }
}

// --- begin -------------------------------------------------------------------------------------------------

startTheme(() => view.recolour());
const still = matchMedia("(prefers-reduced-motion: reduce)");
const stillness = () => {
  model.calm = still.matches;
  view.redraw();
};
still.addEventListener("change", stillness);
stillness();

for (const id of ["new-query", "empty-new"]) byId(id).addEventListener("click", () => writer.open());
byId("let-go").addEventListener("click", () => {
  choose(null);
  byId("graph").focus();
});
byId("find").addEventListener("input", () => find(byId("find").value));
byId("limit").addEventListener("change", () => {
  drawn.limit = Number(byId("limit").value);
  redraw();
});
byId("zoom-in").addEventListener("click", () => view.zoom(1.3));
byId("zoom-out").addEventListener("click", () => view.zoom(1 / 1.3));
byId("fit").addEventListener("click", () => view.fit());
byId("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  useToken(byId("token").value);
  byId("token").value = "";
  byId("token-form").hidden = true;
  hideNotice("refused");
  if (list.current) follow(list.current);
  tick();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && chosen && !document.querySelector("dialog[open]") && event.target.type !== "search") choose(null);
});
window.addEventListener("online", () => follower?.hurry());
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && follower?.hurry());

tick();
