async function show(token) {
  const said = await fetched("/terms", token);
  const runs = (await fetched("/runs", token)).runs;
  const own = said.token, here = location.origin;
  const half = Number((number(own.left) / 2).toPrecision(3)).toString();
  const python = "import os\nimport recoup\n\ntable = recoup.connect(" + JSON.stringify(here) + ', token=os.environ["RECOUP_TOKEN"])\n' +
    "model = recoup.PrivateKMeans(n_clusters=5, epsilon=" + half + ").fit(table)\nprint(model.cluster_centers_)\n" +
    'model.report("report.html")';
  const shell = "export RECOUP_TOKEN=...   # the token that you were given\nrecoup cluster " + here + " -k 5 --epsilon " + half + " -o out";
  const seconds = said.answer_seconds;
  return [
    el("section", {}, el("h2", {}, "What is left for " + own.name),
      tiles([["left, of epsilon " + shown(own.epsilon), shown(own.left)], ["spent", shown(own.spent)], ["delta", shown(own.delta)]]),
      el("p", {}, meter(own.left, own.epsilon, "what is left of the budget"))),
    el("section", {}, el("h2", {}, "The terms"), el("p", { class: "promise" }, promise(said)),
      terms([["table", said.table], ["hidden is", said.unit], ["records, as a public guess", said.n_records === null ? "not said" : said.n_records],
        ["an answer leaves after", seconds.base + " s, and " + seconds.per_value + " s for each number of the question and its answer"],
        ["ledger", said.ledger], ["Recoup", said.recoup]]),
      table("Columns and their public bounds", ["column", "bounds"], columns(said.domain))),
    el("section", {}, el("h2", {}, "Start a run"), el("h3", {}, "In Python"), el("pre", { tabindex: "0" }, el("code", {}, python)),
      el("h3", {}, "In a shell"), el("pre", { tabindex: "0" }, el("code", {}, shell))),
    el("section", {}, el("h2", {}, "Your runs"), runs.length ? table("Runs, the oldest first", ["run", "day", "purpose", "epsilon", "of it spent"],
      runs.map((run) => [run.run.slice(0, 8), run.day, run.purpose || "not given", shown(run.epsilon), (100 * number(run.share_spent)).toFixed(0) + "%"])) :
      el("p", {}, "None yet.")),
  ];
}
