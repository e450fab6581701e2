// Light or dark: as the system says until somebody chooses.

import { byId } from "./words.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

function chosen() {
  try {
    return localStorage.getItem("rpq-theme");
  } catch {
    return null;
  }
}

/** Apply the chosen theme, and let the button switch it; `onChange()` is called when the colours have changed. */
export function startTheme(onChange) {
  const button = byId("theme");
  const apply = (theme) => {
    const now = theme ?? (dark.matches ? "dark" : "light");
    document.documentElement.dataset.theme = now;
    button.setAttribute("aria-label", `Switch to the ${now === "dark" ? "light" : "dark"} theme`);
    onChange();
  };
  button.addEventListener("click", () => {
    const next = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    try {
      localStorage.setItem("rpq-theme", next);
    } catch {
      // Without storage it lasts as long as the page.
    }
    apply(next);
  });
  dark.addEventListener("change", () => apply(chosen()));
  apply(chosen());
}
