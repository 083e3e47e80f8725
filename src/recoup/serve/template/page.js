"use strict";
// Text only ever becomes text: names come from analysts and operators.
const $ = (id) => document.getElementById(id);
function el(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) if (value !== null) made.setAttribute(key, value);
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}
// Exact fractions are text, and may be longer than a number holds: the digits that matter are enough to read.
function number(text) {
  const [above, below] = String(text).split("/").map((part) => BigInt(part));
  if (below === undefined) return Number(above);
  const digits = 10n ** 15n;
  return Number((above * digits) / below) / 1e15;
}
const shown = (text) => Number(number(text).toPrecision(4)).toString();
function terms(items) {
  return el("dl", { class: "numbers" }, ...items.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
function tiles(items) {
  return el("dl", { class: "tiles" }, ...items.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
function table(caption, header, rows) {
  const head = el("tr", {}, ...header.map((name) => el("th", { scope: "col" }, name)));
  const body = rows.map((row) => el("tr", {}, ...row.map((cell, i) => el(i ? "td" : "th", i ? {} : { scope: "row" }, cell))));
  const inner = el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...body));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, inner);
}
function meter(left, whole, words) {
  return el("meter", { class: "left", min: 0, max: number(whole) || 1, value: number(left), "aria-label": words });
}
function columns(domain) {
  if (domain.schema) {
    return Object.entries(domain.schema.columns || domain.schema).map(([name, said]) =>
      [name, said.values ? said.values.join(", ") : said.low + " to " + said.high]);
  }
  return domain.low.map((low, i) => [(domain.columns || [])[i] || "column " + (i + 1), low + " to " + domain.high[i]]);
}
function promise(said) {
  return "Whoever sees all answers learns hardly more than if " + said.unit + " were not in the table; the budget bounds by how much. " +
    "Noise is added to every answer, and every answer is paid for before it is made.";
}
async function fetched(path, token) {
  const reply = await fetch(path, { headers: { Authorization: "Bearer " + token }, cache: "no-store" });
  const value = await reply.json();
  if (!reply.ok) throw new Error(value.error.message);
  return value;
}
document.forms[0].addEventListener("submit", async (event) => {
  event.preventDefault();
  $("trouble").textContent = "";
  $("shown").hidden = true;
  try {
    const parts = await show($("token").value.trim());
    $("shown").replaceChildren(...parts);
    $("shown").hidden = false;
    $("shown").focus();
  } catch (error) {
    $("trouble").textContent = error.message;
  }
});
