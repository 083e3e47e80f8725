// Names that readers give to clusters. They are kept in the address behind the anchor, as in #privacy&1=Commuters, and
// shown as text only.
const RecoupNames = (() => {
  const LONGEST = 60;
  const all = (selector) => [...document.querySelectorAll(selector)];
  const shown = all("[data-name]"), inputs = all("input[data-names]"), links = all('a[href^="#"]');
  const anchors = new Map(links.map((link) => [link, link.getAttribute("href").slice(1)]));
  const written = new Map(shown.map((node) => [node.dataset.name, node.textContent])); // by whoever made the page
  const names = new Map(written);
  const clean = (text) => text.replace(/\p{C}+/gu, "").slice(0, LONGEST);

  function address() {
    const text = window.location.hash.slice(1), at = text.indexOf("&");
    return { anchor: at < 0 ? text : text.slice(0, at), given: new URLSearchParams(at < 0 ? "" : text.slice(at + 1)) };
  }

  function behind() {
    const given = new URLSearchParams();
    for (const [label, name] of names) if (name !== written.get(label)) given.set(label, name);
    const text = given.toString();
    return text && `&${text}`;
  }

  function show() {
    const suffix = behind();
    for (const node of shown) node.textContent = names.get(node.dataset.name).trim();
    for (const input of inputs) if (input !== document.activeElement) input.value = names.get(input.dataset.names);
    for (const [link, anchor] of anchors) link.setAttribute("href", `#${anchor}${suffix}`);
    document.dispatchEvent(new Event("recoup-names"));
  }

  // What an address asks for: its names, and the place on the page, unfolded.
  function follow() {
    const { anchor, given } = address();
    for (const label of names.keys()) names.set(label, given.has(label) ? clean(given.get(label)) : written.get(label));
    show();
    const place = anchor && document.getElementById(anchor);
    if (!place) return;
    for (let at = place; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    place.scrollIntoView();
    if (place.hasAttribute("tabindex")) place.focus({ preventScroll: true });
  }

  for (const input of inputs) {
    input.addEventListener("input", () => {
      names.set(input.dataset.names, clean(input.value));
      const fragment = address().anchor + behind();
      window.history.replaceState(null, "", fragment ? `#${fragment}` : window.location.href.split("#")[0]);
      show();
    });
  }
  window.addEventListener("hashchange", follow);
  follow();
  return { of: (label) => (names.get(String(label)) || "").trim() };
})();
