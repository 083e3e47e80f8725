// Folding: all cards at once; on paper nothing is folded.
(() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  const button = document.getElementById("fold"), cards = all("details.card");
  const opened = () => cards.every((card) => card.open);
  const tell = () => { button.textContent = opened() ? "Fold all cards" : "Open all cards"; };
  if (button) {
    button.addEventListener("click", () => {
      const open = !opened();
      for (const card of cards) card.open = open;
    });
    for (const card of cards) card.addEventListener("toggle", tell);
    tell();
  }
  let folded = [];
  window.addEventListener("beforeprint", () => {
    folded = all("details:not([open])");
    for (const fold of folded) fold.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const fold of folded) fold.open = false;
  });
})();
