"""What a served curator replies is the same for neighbours, apart from noise, names, date and length."""

from __future__ import annotations

from collections import Counter

from recoup_lab.audit.faults.children import child
from recoup_lab.audit.served.direct import Direct
from recoup_lab.audit.served.neighbours import compared, script
from recoup_lab.audit.served.planted import rows_in_a_header
from recoup_lab.audit.served.setting import application, prepared


def test_the_script_asks_what_is_answered_and_what_is_refused(tmp_path):
    client = Direct(application(prepared(tmp_path / "case")))
    statuses = Counter(reply.status for reply in script(client))
    client.close()
    assert statuses == {201: 1, 200: 12, 400: 3, 402: 2, 404: 1}


def test_neighbours_get_the_same_replies():
    assert [finding.result for finding in compared() if not finding.passed] == []


def test_a_number_of_rows_in_a_header_would_be_seen():
    def planted():
        rows_in_a_header()
        return [finding.passed for finding in compared()]

    passed = child(planted).said
    assert passed is not None
    assert not any(passed)
