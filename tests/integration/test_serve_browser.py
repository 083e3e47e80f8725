"""The pages of a served curator in a real browser: a token shows what it may, and nothing else is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from recoup.serve.running import on_loopback
from recoup_lab.audit.served.setting import OPERATOR, TOKENS, application, ask, prepared, question, run_body

AXE = Path(__file__).parents[2] / "build" / "axe-4.14.0" / "axe.min.js"
HOSTILE = "<script>window.hacked=1</script>"
PAGES = {"/": (TOKENS["ann"], "What is left for ann"), "/operator": (OPERATOR, "The budget of people")}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = prepared(tmp_path_factory.mktemp("served") / "case", epsilon=10, own=2)
    with on_loopback(application(folder)) as address:
        port, token = int(address.rpartition(":")[2]), TOKENS["ann"]
        run = ask(port, "POST", "/runs", token=token, key="r", body=run_body(purpose=HOSTILE)).value["run"]
        ask(port, "POST", f"/runs/{run}/answer", token=token, key="a", body=question("1/2"))
        yield address


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_what_its_token_may_see(browser, address, path, width, scheme):
    token, title = PAGES[path]
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, bypass_csp=False)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(address + path)
    page.fill("#token", token)
    page.click("button")
    page.wait_for_selector("#shown:not([hidden])")
    assert title in page.inner_text("main")
    assert HOSTILE in page.inner_text("main")
    assert page.evaluate("window.hacked") is None
    assert said == []
    assert all(url.startswith(address) or url == "data:," for url in asked)
    assert not any(token in url for url in [*asked, page.url])
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.activeElement.id") == "shown"
    context.close()


@pytest.mark.parametrize("path", PAGES)
def test_a_wrong_token_is_said_so_and_shows_nothing(browser, address, path):
    page = browser.new_page()
    page.goto(address + path)
    page.fill("#token", "wrong")
    page.press("#token", "Enter")
    page.wait_for_function("document.getElementById('trouble').textContent")
    assert not page.is_visible("#shown")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_the_pages_keep_the_rules_of_accessibility(browser, address, path, scheme):
    # The rules are a script that the page's own policy would rightly refuse.
    context = browser.new_context(color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(address + path)
    page.fill("#token", PAGES[path][0])
    page.click("button")
    page.wait_for_selector("#shown:not([hidden])")
    page.add_script_tag(path=str(AXE))
    found = page.evaluate("axe.run()")["violations"]
    assert [(one["id"], one["nodes"][0]["html"]) for one in found] == []
    context.close()
