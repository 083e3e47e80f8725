"""The contract in plain words: every rule that a query and an algorithm must keep, in the order of the report."""

from __future__ import annotations

RULES = {
    "protocol": "it has every method and attribute that Recoup calls.",
    "frozen": "it is a value: nothing in it can change after it is made.",
    "json": "its JSON, read back by its registered name, is the same thing to the last bit.",
    "sizes": "the sizes that it declares are those of its contributions and of its blocks.",
    "finite": "every record of the domain contributes finite numbers.",
    "sensitivity": "one record moves each block by at most what `sensitivity` declares, in both norms.",
    "claims": "what a block claims about every record (`ones`, `total`) is true of every record.",
    "purity": "`contribution` gives the same for the same records, whatever was asked before, and leaves them alone.",
    "one by one": "what a record contributes does not depend on the other records of a call, to the last bit.",
    "integer total": "`integer_total` is the sum over records of trunc(contribution * factor), exactly.",
    "silence": "`contribution` neither warns nor prints: whatever it says would tell about records.",
    "requests": "`next_request` asks for queries over the domain's columns, splits them over their blocks, and ends.",
    "budget": "the rounds ask for at most the whole budget, and each divides at most its own share over its blocks.",
    "whole budget": "the rounds ask for all of the budget: what is left would be paid for and never used.",
    "next request": "`next_request` is a function of the context, the rounds and the generator alone.",
    "equal draws": "with equal noisy answers, neighbouring tables are asked the same and as much noise is drawn.",
    "estimate": "`estimate` is finite whatever the table, an empty one too, and the same for the same rounds.",
    "support": "`support` gives as many points of the domain as were asked for, the same for the same generator.",
    "refit": "`refit` is finite, shaped like `estimate`, and the same for the same generator.",
    "weights": "`refit` gives the same where a weighted point is split into two of half its weight.",
    "inference": "a transcript can be inferred from and refitted, in the user's units.",
}
