// Names as they are shown: nothing in them is invisible, and none of them moves what stands beside it.

import { element } from "./words.js";

// Controls, what has a width of nothing, blanks other than the usual one, halves of surrogate pairs, and the blank of Braille.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Default_Ignorable_Code_Point}\u2800]|[^\S ]/u;
const LOOSE_BLANK = /^ | $| {2}/;
const TO_THE_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

// Where joiners and selectors belong to the writing: within an emoji, and between letters of scripts that join.
const JOINING = `Arabic Syriac Mongolian Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam Sinhala`;
const OF_A_SCRIPT = new RegExp(`[${JOINING.split(" ").map((script) => `\\p{Script=${script}}`).join("")}]`, "u");
const PICTURE = /\p{Extended_Pictographic}/u;
const OF_A_PICTURE = /[\p{Extended_Pictographic}\p{Emoji_Modifier}\ufe0f]/u;

const isPlain = (text) => text !== "" && !UNSEEN.test(text) && !LOOSE_BLANK.test(text);

function belongs(letter, before, after) {
  if (letter === "\ufe0f" || letter === "\ufe0e") return PICTURE.test(before);
  if (letter === "\u200d" && OF_A_PICTURE.test(before) && PICTURE.test(after)) return true;
  return (letter === "\u200c" || letter === "\u200d") && OF_A_SCRIPT.test(before) && OF_A_SCRIPT.test(after);
}

/** Return each letter of a value with whether it is written as an escape; a blank is escaped where it could not be seen or counted. */
function letters(value) {
  if (value === null || value === undefined) return [{ text: "unbound", isEscape: true }];
  const text = String(value);
  if (text === "") return [{ text: "‹empty›", isEscape: true }];
  if (!isPlain(text)) {
    const all = Array.from(text);
    return all.map((letter, at) => {
      const before = all[at - 1] ?? "";
      const after = all[at + 1] ?? "";
      const isBlank = letter === " " && (before === "" || before === " " || after === "");
      if (!isBlank && (!UNSEEN.test(letter) || belongs(letter, before, after))) return { text: letter, isEscape: false };
      return { text: `‹U+${letter.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}›`, isEscape: true };
    });
  }
  return Array.from(text, (letter) => ({ text: letter, isEscape: false }));
}

/** Return a value as parts {text, isEscape}, of at most `longest` letters: one that is longer is cut in its middle. */
export function nameParts(value, longest = Infinity) {
  let all = letters(value);
  if (all.length > longest) {
    const head = Math.ceil((longest - 1) / 2);
    all = [...all.slice(0, head), { text: "…", isEscape: false }, ...all.slice(all.length - (longest - 1 - head))];
  }
  const parts = [];
  for (const one of all) {
    if (parts.length && !one.isEscape && !parts.at(-1).isEscape) parts.at(-1).text += one.text;
    else parts.push({ ...one });
  }
  return parts;
}

/** Return a value as a text, with escapes for invisible characters; null is a variable without a value. */
export function shownText(value) {
  if (typeof value === "string" && isPlain(value)) return value;
  return nameParts(value).map(({ text }) => text).join("");
}

/** Return the same for a text with words around it, such as an attribute or a message: right-to-left text is isolated. */
export function nameText(value) {
  const text = shownText(value);
  return TO_THE_LEFT.test(text) ? `\u2068${text}\u2069` : text;
}

/** Return a value as an element that is isolated from its surroundings, with its escapes marked. */
export function nameElement(value, attributes = {}) {
  return element("bdi", attributes, ...nameNodes(value));
}

function nameNodes(value) {
  return nameParts(value).map(({ text, isEscape }) => (isEscape ? element("span", { class: "escape" }, text) : text));
}

/** Return a message or text in which names may occur, with escapes for invisible characters except line ends and blanks. */
export function shownMessage(text) {
  return Array.from(text, (letter) => (letter === "\n" || letter === " " || !UNSEEN.test(letter) ? letter : shownText(letter))).join("");
}

/** Return JSON in which invisible characters are written with \u, so that it can be read and copied. */
export function shownJson(value) {
  return JSON.stringify(value).replace(/./gsu, (letter) =>
    UNSEEN.test(letter) ? Array.from({ length: letter.length }, (_, at) => `\\u${letter.charCodeAt(at).toString(16).padStart(4, "0")}`).join("") : letter,
  );
}
