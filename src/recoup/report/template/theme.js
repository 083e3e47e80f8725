"use strict";
// Light or dark: the reader's system decides until the button is used. The choice is kept where the browser allows it.
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const changed = () => document.dispatchEvent(new Event("recoup-theme"));
  const shown = () => root.dataset.theme || (dark.matches ? "dark" : "light");
  const tell = () => button.setAttribute("aria-pressed", String(shown() === "dark"));
  try {
    const kept = window.localStorage.getItem("recoup-theme");
    if (kept === "light" || kept === "dark") root.dataset.theme = kept;
  } catch (error) { /* a page opened from a file may have no storage */ }
  tell();
  dark.addEventListener("change", () => { tell(); changed(); });
  button.addEventListener("click", () => {
    root.dataset.theme = shown() === "dark" ? "light" : "dark";
    try {
      window.localStorage.setItem("recoup-theme", root.dataset.theme);
    } catch (error) { /* see above */ }
    tell();
    changed();
  });
})();
