"""The report in a real browser: nothing is asked for, nothing goes wrong, and what can be moved moves.

Headless Chromium of the distribution, driven by Playwright; `make test-integration` fetches what is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from report_page import SIZES, Visit, written

from recoup import PrivateKMeans

HOSTILE = ("<script>window.hacked=1</script>", "age & <b>sex</b>", "income", "c3")
KINDS: dict[str, dict[str, Any]] = {
    "adaptive, two columns": {},
    "adaptive, hostile names": {"d": 4, "columns": HOSTILE, "n": 3000},
    "adaptive, one column": {"d": 1},
    "lloyd, mcmc": {"algorithm": "lloyd", "postprocess": "mcmc", "noise": "simulated"},
    "grid": {"algorithm": "grid", "d": 3, "intervals": False},
    "gupt": {"algorithm": "gupt"},
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory) -> dict[str, Path]:
    return {kind: written(tmp_path_factory.mktemp("page"), **choices) for kind, choices in KINDS.items()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_asked_for_and_nothing_goes_wrong(browser, pages, kind, size, scheme):
    with Visit(browser, pages[kind], size, scheme) as visit:
        visit.page.wait_for_load_state("load")
        assert visit.said == []
        assert visit.asked == [visit.address]
        assert visit.page.evaluate("window.hacked") is None
        # Nothing sticks out sideways: the page itself never scrolls that way.
        assert visit.width() <= SIZES[size][0]
        dark = sum(int(v) for v in visit.colour()[4:-1].split(",")[:3]) < 3 * 128
        assert dark == (scheme == "dark")
        # Words are large enough to read and controls large enough to touch.
        smallest = visit.page.evaluate(
            "Math.min(...[...document.querySelectorAll('main *')].filter(e => e.childElementCount === 0 && "
            "e.textContent.trim() && e.getClientRects().length).map(e => parseFloat(getComputedStyle(e).fontSize)))"
        )
        assert smallest >= 12
        if kind != "gupt":
            height = visit.page.evaluate("document.getElementById('map-play').getBoundingClientRect().height")
            assert height >= 36


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "gupt"])
def test_the_picture_is_not_empty(browser, pages, kind, scheme):
    with Visit(browser, pages[kind], scheme=scheme) as visit:
        shown = visit.picture()
        background = shown[shown.shape[0] // 2, 2]
        inked = (np.abs(shown.astype(int) - background).sum(axis=2) > 24).mean()
        assert inked > 0.02
        assert len({tuple(p) for p in shown.reshape(-1, 3)[::7]}) > 20
        visit.page.select_option("#map-behind", "none")
        bare = visit.picture()
        assert (np.abs(bare.astype(int) - background).sum(axis=2) > 24).mean() < inked
        visit.page.select_option("#map-behind", "answer")
        assert not np.array_equal(visit.picture(), bare)
        assert visit.said == []


def test_labels_of_near_centres_do_not_cover_each_other_and_axes_have_a_scale(browser, tmp_path):
    # Two pairs of centres so near that labels on the same side would overlap; bounds with one round number inside.
    centers = np.array([(-130, 40), (-124, 41), (100, -30), (106, -29)])
    x = np.random.default_rng(0).normal(centers[np.arange(4000) % 4], 0.5)
    model = PrivateKMeans(4, 20.0, {"longitude": (-180, 180), "latitude": (-90, 90)}, random_state=0)
    model.fit(pa.table(dict(zip(("longitude", "latitude"), x.T, strict=True))))
    model.report(tmp_path / "near.html", intervals=False)
    with Visit(browser, tmp_path / "near.html", "phone") as visit:
        boxes = [m.bounding_box() for m in visit.page.locator("#map-marks .label").all()]
        assert len(boxes) == 4
        for i, a in enumerate(boxes):
            for b in boxes[:i]:
                # The outline around a digit may touch its neighbour's; the digits may not.
                wide = min(a["x"] + a["width"], b["x"] + b["width"]) - max(a["x"], b["x"])
                high = min(a["y"] + a["height"], b["y"] + b["height"]) - max(a["y"], b["y"])
                assert wide <= 2 or high <= 6
        for anchor in ("middle", "end"):
            names = visit.page.locator(f"#map-marks > text[text-anchor={anchor}]:not(.axis-name)").all_inner_texts()
            assert len(names) >= 2
        one = "RecoupDraw.ticks(-99, 99, 1).found.length"
        assert visit.page.evaluate(one) >= 2


def test_what_is_cut_on_a_phone_shows_that_there_is_more(browser, pages):
    with Visit(browser, pages["adaptive, two columns"], "phone") as visit:
        visit.unfold()
        assert visit.page.evaluate("(n => n.scrollWidth <= n.clientWidth)(document.querySelector('.bar nav'))")
        code = visit.page.locator("pre").last
        assert code.evaluate("n => n.scrollWidth > n.clientWidth")
        assert "local" in code.evaluate("n => getComputedStyle(n).backgroundAttachment")
        before = visit.picture("pre >> nth=-1")
        code.evaluate("n => { n.scrollLeft = n.scrollWidth; }")
        after = visit.picture("pre >> nth=-1")
        # The shadow at the right edge is gone at the end of the way.
        rows = slice(len(before) // 4, len(before) * 3 // 4)
        assert before[rows, -4:].mean() < after[rows, -4:].mean() - 10


def test_the_slider_moves_centres_and_words(browser, pages):
    with Visit(browser, pages["adaptive, two columns"]) as visit:
        last = visit.step()
        assert "Result" in visit.status()
        result = visit.centers()
        assert len(result) == 4
        words = {visit.status()}
        for step in range(last):
            visit.page.fill("#map-step", str(step))
            assert f"Round {step + 1} of {last}" in visit.status()
            assert visit.page.get_attribute("#map-step", "aria-valuetext") == f"round {step + 1}"
            words.add(visit.status())
        assert len(words) == last + 1
        visit.page.fill("#map-step", "0")
        assert visit.centers() != result
        visit.page.fill("#map-step", str(last))
        assert visit.centers() == result


def test_play_walks_to_the_result_and_can_be_stopped(browser, pages):
    with Visit(browser, pages["adaptive, two columns"]) as visit:
        page, last = visit.page, visit.step()
        # The page's own clock is turned by hand: no test waits.
        page.clock.install()
        page.reload()
        page.click("#map-play")
        assert visit.step() == 0
        assert page.inner_text("#map-play") == "Pause"
        assert page.get_attribute("#map-status", "aria-live") == "off"
        page.clock.run_for(3200)
        assert visit.step() == 2
        page.click("#map-play")
        page.clock.run_for(6000)
        assert visit.step() == 2
        page.click("#map-play")
        page.clock.run_for(1600 * (last + 1))
        assert visit.step() == last
        assert page.inner_text("#map-play") == "Play"
        assert page.get_attribute("#map-status", "aria-live") == "polite"
        assert visit.said == []


def test_centres_glide_unless_the_reader_prefers_calm(browser, pages):
    watch = """() => {
      const marks = document.getElementById('map-marks');
      window.seen = new Set();
      new MutationObserver(() => {
        const mark = marks.querySelector('circle.after');
        if (mark) window.seen.add(mark.getAttribute('cx') + ',' + mark.getAttribute('cy'));
      }).observe(marks, {childList: true, subtree: true});
    }"""
    seen = {}
    for motion in ("no-preference", "reduce"):
        with Visit(browser, pages["adaptive, two columns"], motion=motion) as visit:
            visit.page.clock.install()
            visit.page.reload()
            visit.page.evaluate(watch)
            visit.page.fill("#map-step", "0")
            for _ in range(8):
                visit.page.clock.run_for(100)
            seen[motion] = visit.page.evaluate("window.seen.size")
    assert seen["reduce"] == 1
    assert seen["no-preference"] >= 3


def test_a_pair_of_columns_is_chosen_and_never_the_same_twice(browser, pages):
    with Visit(browser, pages["adaptive, hostile names"]) as visit:
        page = visit.page
        options = page.locator("#map-x option").all_inner_texts()
        assert options == list(HOSTILE)
        before = visit.centers()
        x, y = page.input_value("#map-x"), page.input_value("#map-y")
        other = next(str(i) for i in range(4) if str(i) not in (x, y))
        page.select_option("#map-x", other)
        assert visit.centers() != before
        assert HOSTILE[int(other)] in page.locator("#map-marks .axis-name").first.text_content()
        page.select_option("#map-y", other)
        assert page.input_value("#map-x") != page.input_value("#map-y") == other
        assert visit.said == []


def test_what_is_shown_can_be_chosen(browser, pages):
    with Visit(browser, pages["lloyd, mcmc"]) as visit:
        page = visit.page
        for box, mark in (("#map-intervals", "line.interval"), ("#map-before", "path.before"), ("#map-paths", ".path")):
            assert page.locator(f"#map-marks {mark}").count() > 0
            page.uncheck(box)
            assert page.locator(f"#map-marks {mark}").count() == 0
        page.select_option("#map-follow", "1")
        assert page.locator("#map-marks .cluster.faded").count() == 3
        assert "Cluster" in visit.status()
        page.locator("#map-marks .cluster circle.after").nth(1).click(force=True)
        assert page.input_value("#map-follow") == ""
        assert "NOT PRIVATE" in page.inner_text("[role=alert]")
        assert page.locator("#chains polyline").count() >= 1


def test_the_theme_is_switched_kept_and_redrawn(browser, pages):
    with Visit(browser, pages["adaptive, two columns"]) as visit:
        light, picture = visit.colour(), visit.picture()
        assert visit.page.get_attribute("#theme", "aria-pressed") == "false"
        visit.page.click("#theme")
        assert visit.colour() != light
        assert visit.page.get_attribute("#theme", "aria-pressed") == "true"
        assert not np.array_equal(visit.picture(), picture)
        visit.page.reload()
        assert visit.colour() != light
        visit.page.click("#theme")
        assert visit.colour() == light
        assert visit.said == []


def test_everything_is_reached_by_the_keyboard(browser, pages):
    with Visit(browser, pages["adaptive, two columns"]) as visit:
        page, reached = visit.page, []
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        for _ in range(60):
            reached.append(page.evaluate("document.activeElement.id || document.activeElement.tagName"))
            if reached[-1] == "map-step":
                break
            page.keyboard.press("Tab")
        assert {"theme", "map-play", "map-step"} <= set(reached)
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        last = visit.step()
        page.keyboard.press("ArrowLeft")
        assert visit.step() == last - 1
        assert f"Round {last}" in visit.status()
        page.keyboard.press("Home")
        assert visit.step() == 0
        page.focus("#map-play")
        page.keyboard.press("Enter")
        assert page.inner_text("#map-play") == "Pause"
        page.keyboard.press("Space")
        assert page.inner_text("#map-play") == "Play"


def test_a_screen_reader_finds_names_for_all_controls(browser, pages):
    with Visit(browser, pages["adaptive, hostile names"]) as visit:
        page = visit.page
        for role, names in (
            ("slider", ["Round"]),
            ("combobox", ["Across", "Up", "Behind", "Follow"]),
            ("checkbox", ["before inference", "intervals", "paths"]),
            ("button", ["Play", "Switch between light and dark colours"]),
            ("navigation", ["Sections"]),
        ):
            for name in names:
                assert page.get_by_role(role, name=name, exact=True).count() == 1, (role, name)
        assert page.get_by_role("img", name="Result: centres inferred").count() == 1
        assert page.get_by_role("heading", level=1).count() == 1
        assert page.get_by_role("main").count() == 1


def test_words_stand_out_from_their_ground(browser, pages):
    script = """() => {
      const parse = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
      const light = (rgb) => rgb.map((v) => v / 255).map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
      const ground = (node) => {
        for (let at = node; at; at = at.parentElement) {
          const colour = getComputedStyle(at).backgroundColor;
          if (!/^rgba.*, 0\\)$/.test(colour) && colour !== 'transparent') return parse(colour);
        }
        return [255, 255, 255];
      };
      let worst = [99, ''];
      for (const node of document.querySelectorAll('body *')) {
        if (node.closest('svg') || node.childElementCount || !node.textContent.trim()) continue;
        if (!node.getClientRects().length) continue;
        if (['SCRIPT', 'STYLE'].includes(node.tagName) || node.classList.contains('skip')) continue;
        const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
        const ratio = (a + 0.05) / (b + 0.05);
        if (ratio < worst[0]) worst = [ratio, node.outerHTML.slice(0, 80)];
      }
      return worst;
    }"""
    for scheme in ("light", "dark"):
        with Visit(browser, pages["lloyd, mcmc"], scheme=scheme) as visit:
            ratio, where = visit.page.evaluate(script)
            assert ratio >= 4.5, (scheme, where)


def test_a_blocked_page_would_be_noticed(browser, pages, tmp_path):
    """The checks above can fail: a request, an error and an empty picture are seen when they are planted."""
    text = pages["adaptive, two columns"].read_text()
    broken = tmp_path / "broken.html"
    broken.write_text(text.replace("</main>", '<img src="https://example.invalid/x.png" alt=""></main>'))
    with Visit(browser, broken) as visit:
        # The page's own policy refuses the request, and says so.
        assert any("Content Security Policy" in line or "violates" in line for line in visit.said)
    broken.write_text(text.replace("const RecoupDraw", "const RecoupDrow"))
    with Visit(browser, broken) as visit:
        assert visit.said
        # What was drawn without a script stands in for what is broken.
        assert visit.page.locator("#map-marks circle.after").count() == 4
        assert "needs a script" in visit.status()
