async function show(token) {
  const all = await fetched("/operator/status", token);
  const said = all.terms, budget = all.budget;
  const analysts = all.tokens.filter((one) => one.kind === "analyst");
  const left = (one) => String(Math.max(0, number(one.epsilon) - number(one.spent)));
  return [
    el("section", {}, el("h2", {}, "The budget of " + said.table),
      tiles([["left, of epsilon " + shown(budget.epsilon), shown(budget.left)], ["spent", shown(budget.spent)], ["delta", shown(budget.delta)],
        ["runs", all.runs.length]]),
      el("p", {}, meter(budget.left, budget.epsilon, "what is left of the table's budget"))),
    el("section", {}, el("h2", {}, "The promise"), el("p", { class: "promise" }, promise(said)),
      el("p", {}, "All analysts together spend at most epsilon " + shown(budget.epsilon) + (number(budget.delta) ? " at delta " + shown(budget.delta) : "") +
        ", whatever their own budgets add up to.")),
    el("section", {}, el("h2", {}, "Tokens"), analysts.length ? table("Analysts, and what each has left of a budget of its own",
      ["token", "since", "state", "epsilon", "spent", "left"],
      analysts.map((one) => {
        const rest = Number(left(one)).toPrecision(4);
        const bar = el("meter", { class: "left", min: 0, max: number(one.epsilon) || 1, value: left(one), "aria-label": "left of " + one.name });
        return [one.name, one.day, one.revoked ? "revoked" : "valid", shown(one.epsilon), shown(one.spent), el("span", {}, Number(rest).toString() + " ", bar)];
      })) : el("p", {}, "None yet: recoup serve token create NAME --epsilon 1 --state FOLDER makes one.")),
    el("section", {}, el("h2", {}, "Runs"), all.runs.length ? table("Runs, the newest first", ["run", "token", "day", "purpose", "epsilon", "of it spent"],
      all.runs.reverse().map((run) => [run.run.slice(0, 8), run.token, run.day, run.purpose || "not given", shown(run.epsilon),
        (100 * number(run.share_spent)).toFixed(0) + "%"])) : el("p", {}, "None yet.")),
    el("section", {}, el("h2", {}, "Columns"), table("Columns and their public bounds", ["column", "bounds"], columns(said.domain))),
  ];
}
