"""Reading the report in a real browser: what comes first, what folds, names, no script, paper, and axe's rules."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from report_page import SIZES, Visit, written

AXE = Path(__file__).parents[2] / "build" / "axe-4.14.0" / "axe.min.js"
ORDER = ["overview", "clusters", "sure", "choice", "privacy", "appendix"]
NAMES = {1: "Night <b>owls</b> & co", 3: "Families"}
HOSTILE = '"><img src=x onerror=window.hacked=1>&2=x'


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    return written(tmp_path_factory.mktemp("page"), d=3, report={"names": NAMES, "title": "Four groups"})


@pytest.fixture(scope="module")
def doubtful(tmp_path_factory) -> Path:
    """A page with warnings: simulated noise, so much of it that little can be told."""
    terms = {"epsilon": 0.05, "n": 400, "noise": "simulated", "intervals": False}
    return written(tmp_path_factory.mktemp("doubtful"), **terms)


@pytest.fixture(scope="module")
def large(tmp_path_factory) -> Path:
    """Twenty clusters in ten columns."""
    columns = tuple(f"a column, number {j}" for j in range(10))
    terms = {
        "d": 10,
        "k": 20,
        "n": 20_000,
        "columns": columns,
        "epsilon": 8.0,
        "intervals": False,
        "noise": "simulated",
    }
    return written(tmp_path_factory.mktemp("large"), **terms)


def test_the_page_leads_with_the_answer(browser, page):
    with Visit(browser, page) as visit:
        tops = visit.page.evaluate(
            "['.in-short', ...[...document.querySelectorAll('main > section')].map((s) => '#' + s.id)]"
            ".map((s) => [s, document.querySelector(s).getBoundingClientRect().top])"
        )
        assert [name for name, _ in tops] == [".in-short", *(f"#{name}" for name in ORDER)]
        heights = [top for _, top in tops]
        assert heights == sorted(heights)
        # The three sentences and the verdict are on the first screen, and the heat map begins there.
        assert heights[1] < SIZES["desk"][1]
        said = visit.page.locator(".in-short dd").all_inner_texts()
        assert len(said) == 3
        assert "4 clusters" in said[0]
        assert said[1].startswith(("Good", "Doubtful"))
        assert "was in the table" in said[2]
        links = [a.get_attribute("href") for a in visit.page.locator(".bar a").all()]
        assert links == [f"#{name}" for name in ORDER]


def test_the_appendix_is_folded_and_cards_fold(browser, page, large):
    with Visit(browser, page) as visit:
        folds = visit.page.locator("#appendix > details")
        assert folds.count() >= 3
        assert visit.page.locator("#appendix > details[open]").count() == 0
        assert not visit.page.locator("#reproduce pre").first.is_visible()
        visit.page.click("#reproduce > summary")
        assert visit.page.locator("#reproduce pre").first.is_visible()
        card = visit.page.locator("#cluster-0")
        assert card.locator(".profile").is_visible()  # few clusters are open at first
        card.locator("summary").click()
        assert not card.locator(".profile").is_visible()
        assert "Cluster 0" in card.inner_text()
    with Visit(browser, large) as visit:
        assert visit.page.locator("details.card[open]").count() == 0
        visit.page.click("#fold")
        assert visit.page.locator("details.card[open]").count() == 20
        assert visit.page.inner_text("#fold") == "Fold all cards"
        visit.page.click("#fold")
        assert visit.page.locator("details.card[open]").count() == 0
        visit.page.click(".heat a[href='#cluster-7']")
        assert visit.page.locator("#cluster-7[open]").count() == 1


def test_twenty_clusters_in_ten_columns_are_not_a_long_page(browser, large):
    assert large.stat().st_size < 3_000_000
    with Visit(browser, large) as visit:
        assert visit.page.evaluate("document.documentElement.scrollHeight") < 6_000
        assert visit.page.locator(".heat tbody tr").count() == 21
        # The heat map of ten columns needs no scrolling at the width of a desk.
        assert visit.page.evaluate("(n => n.scrollWidth <= n.clientWidth)(document.querySelector('.scroll'))")
    for size in ("small phone", "phone"):
        with Visit(browser, large, size) as visit:
            assert visit.width() <= SIZES[size][0]
            visit.unfold()
            assert visit.width() <= SIZES[size][0]


def test_a_heat_map_cell_says_in_words_what_its_colour_says(browser, page):
    with Visit(browser, page) as visit:
        cells = visit.page.locator(".heat tbody td.higher, .heat tbody td.much-lower, .heat tbody td.much-higher")
        assert cells.count() > 0
        for cell in cells.all():
            kind = cell.get_attribute("class")
            assert cell.text_content().endswith(f", {kind.replace('-', ' ')}")
        colours = {k: visit.colour(f".swatch.{k}") for k in ("lower", "near", "higher")}
        assert len(set(colours.values())) == 3
        assert visit.page.locator(".heat tbody tr").first.inner_text().startswith("all records")


def test_names_are_shown_changed_and_kept_in_the_address(browser, page):
    with Visit(browser, page) as visit:
        at = visit.page
        for label, name in NAMES.items():
            assert at.inner_text(f"#cluster-{label} h3") == f"Cluster {label}{name}"
            assert at.input_value(f"input[data-names='{label}']") == name
        assert at.locator("main b:has-text('owls')").count() == 0
        at.fill("input[data-names='0']", "Early birds")
        at.fill("input[data-names='3']", HOSTILE)
        address = at.url
        assert "0=Early+birds" in address
        assert "1=" not in address  # as the page was written
        for shown in at.locator("[data-name='0']").all():
            assert shown.inner_text() == "Early birds"
        assert "Cluster 3" in at.inner_text("#cluster-3 h3")
        assert "cluster 0: Early birds" in at.locator("#map-follow option").all_inner_texts()
        at.select_option("#map-follow", label="cluster 0: Early birds")
        assert "Cluster 0 (Early birds)" in visit.status()
        # A link of the page goes to its place and keeps the names.
        at.click(".bar a >> text=Privacy")
        assert at.url.split("#")[1].startswith("privacy&")
        assert abs(at.evaluate("document.getElementById('privacy').getBoundingClientRect().top")) < 120
        assert at.inner_text("#cluster-0 [data-name='0']") == "Early birds"
        assert visit.said == []
        assert at.evaluate("window.hacked") is None
    with Visit(browser, page, fragment="#" + address.split("#")[1]) as visit:
        assert visit.page.inner_text("#cluster-0 [data-name='0']") == "Early birds"
        assert visit.page.inner_text("#cluster-3 [data-name='3']") == HOSTILE[:60]
        assert visit.page.inner_text("#cluster-1 [data-name='1']") == NAMES[1]
        assert visit.page.locator("main img").count() == 0
        visit.page.fill("input[data-names='1']", "")
        visit.page.reload()
        assert visit.page.inner_text("#cluster-1 [data-name='1']") == ""  # a name is taken away, not the number
        assert visit.page.inner_text("#cluster-1 h3") == "Cluster 1"
        assert visit.page.evaluate("window.hacked") is None


def test_an_address_with_nonsense_does_no_harm(browser, page):
    for fragment in ("#&99=x&__proto__=y", f"#nowhere&0={quote(HOSTILE)}", "#%", "#&0=%00%0a", f"#&0={'x' * 500}"):
        with Visit(browser, page, fragment=fragment) as visit:
            assert visit.said == []
            assert visit.page.evaluate("window.hacked") is None
            assert len(visit.page.inner_text("#cluster-0 [data-name='0']")) <= 60
            assert visit.page.locator("#map-marks circle.after").count() == 4


def test_nothing_is_blank_without_a_script(browser, page, large):
    for path in (page, large):
        with Visit(browser, path, script=False) as visit:
            for section in [*ORDER, "map"]:
                assert visit.page.locator(f"#{section}").is_visible()
            text = visit.page.inner_text("body")
            assert "Open a card" not in text
            assert not visit.page.locator("#map-play").is_visible()
            assert visit.page.locator(".heat td").count() > 12
            shown = visit.picture("#map")
            background = shown[shown.shape[0] // 2, 2]
            inked = (np.abs(shown.astype(int) - background).sum(axis=2) > 24).mean()
            assert inked > 0.004
            assert shown.shape[0] > 200
            assert visit.page.locator("#map circle.after").count() == (4 if path is page else 20)
            assert visit.page.locator("#choice polyline").count() == 1
            visit.page.click("#budget > summary")
            assert visit.page.locator("#budget .rows").is_visible()


def test_the_map_keeps_its_shape_and_the_still_picture_has_the_same(browser, page):
    box = "(n => [n.width.baseVal.value, n.height.baseVal.value])(document.querySelector('#map-marks .frame'))"
    for size in SIZES:
        with Visit(browser, page, size) as visit:
            width, height = visit.page.evaluate(box)
            assert width == pytest.approx(height, rel=0.01)
            drawn = visit.centers()
            scaled = [((x - 68) / width if size in ("tablet", "desk") else (x - 52) / width) for x, _ in drawn]
            if size == "desk":
                expected = scaled
    with Visit(browser, page, script=False) as visit:
        marks = visit.page.locator("#map-marks circle.after").all()
        assert [(float(m.get_attribute("cx")) - 68) / 478 for m in marks] == pytest.approx(expected, abs=0.01)


def violations(visit: Visit) -> list[dict]:
    """What axe-core finds wrong with a page."""
    assert AXE.exists(), "axe-core is missing: run tests/integration/prepare_browser.sh"
    visit.page.evaluate(AXE.read_text(encoding="utf-8"))
    return list(visit.page.evaluate("axe.run().then((found) => found.violations)"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", ["phone", "desk"])
@pytest.mark.parametrize("kind", ["page", "doubtful", "large"])
def test_axe_finds_nothing_wrong(browser, kind, size, scheme, request):
    with Visit(browser, request.getfixturevalue(kind), size, scheme) as visit:
        for unfolded in (False, True):
            if unfolded:
                visit.unfold()
            found = violations(visit)
            assert [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in found] == []


def test_axe_would_notice(browser, page, tmp_path):
    broken = tmp_path / "broken.html"
    broken.write_text(page.read_text().replace("</main>", "<input><p style='color:#ccc'>pale words</p></main>"))
    with Visit(browser, broken) as visit:
        assert {one["id"] for one in violations(visit)} >= {"label", "color-contrast"}


# ---- paper ----


def printed(visit: Visit, folder: Path, **choices) -> tuple[str, list[np.ndarray]]:
    """The text of a printed page, and its sheets as pictures."""
    from PIL import Image

    visit.page.pdf(path=str(folder / "page.pdf"), format="A4", **choices)
    said = subprocess.run(["pdftotext", "-layout", folder / "page.pdf", "-"], check=True, capture_output=True)
    subprocess.run(["pdftoppm", "-r", "60", "-png", folder / "page.pdf", folder / "sheet"], check=True)
    sheets = [np.asarray(Image.open(path).convert("RGB")) for path in sorted(folder.glob("sheet-*.png"))]
    shutil.rmtree(folder)
    return " ".join(said.stdout.decode().split()), sheets


def coloured(sheets: list[np.ndarray]) -> float:
    """The part of the sheets that is neither white, grey nor black."""
    spread = [(sheet.max(axis=2).astype(int) - sheet.min(axis=2)).ravel() for sheet in sheets]
    return float((np.concatenate(spread) > 40).mean())


def test_paper_is_light_and_has_everything(browser, page, tmp_path):
    found = {}
    for scheme in ("light", "dark"):
        (tmp_path / scheme).mkdir()
        with Visit(browser, page, scheme=scheme) as visit:
            if scheme == "dark":
                visit.page.evaluate("document.documentElement.dataset.theme = 'dark'")
            found[scheme] = printed(visit, tmp_path / scheme, print_background=True)
            # What was folded is folded again.
            assert visit.page.locator("#appendix > details[open]").count() == 0
    text, sheets = found["dark"]
    assert all(sheet.mean() > 200 for sheet in sheets)
    assert len(sheets) == len(found["light"][1])
    for dark, light in zip(sheets, found["light"][1], strict=True):
        assert np.abs(dark.astype(int) - light).mean() < 1.5
    with Visit(browser, page) as visit:
        visit.unfold()
        promise = [" ".join(t.split()) for t in visit.page.locator("#privacy p, #privacy li").all_inner_texts()]
        rest = visit.page.locator("#appendix h3, #clusters .sentence, #budget .name, caption").all_inner_texts()
    words = re.sub(r"\W+", "", text)
    for sentence in promise + rest:
        for part in re.findall(r"[\w ,]{12,40}", sentence):  # columns of paper may part a long sentence
            assert all(re.sub(r"\W+", "", word) in words for word in part.split()), sentence
    for gone in ("Open a card", "Name of cluster", "Play"):
        assert gone not in text


def test_paper_needs_no_script_to_unfold(browser, page, tmp_path):
    (tmp_path / "out").mkdir()
    with Visit(browser, page, script=False) as visit:
        text, _ = printed(visit, tmp_path / "out")
    assert "On the command line" in text
    assert "import recoup" in text
    assert "The curve as a table" in text
    assert "its error" in text


def test_bars_and_colours_survive_without_background_graphics(browser, page, tmp_path):
    shown = {}
    for ground in (True, False):
        (tmp_path / "out").mkdir()
        with Visit(browser, page) as visit:
            shown[ground] = coloured(printed(visit, tmp_path / "out", print_background=ground)[1])
    assert shown[True] > 0.003
    assert shown[False] > 0.9 * shown[True]
    # And the check can fail: without what keeps them, they are gone.
    (tmp_path / "out").mkdir()
    with Visit(browser, page) as visit:
        visit.page.add_style_tag(
            content="* { print-color-adjust: economy !important; -webkit-print-color-adjust: economy !important; }"
        )
        assert coloured(printed(visit, tmp_path / "out", print_background=False)[1]) < 0.7 * shown[True]


def test_tables_and_figures_fit_on_paper(browser, page, large):
    for path in (page, large):
        with Visit(browser, path, "tablet") as visit:
            visit.page.emulate_media(media="print")
            visit.page.set_viewport_size({"width": 695, "height": 1000})  # A4 less its margins, in CSS pixels
            visit.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
            assert visit.width() <= 695
            wide = "[...document.querySelectorAll('table, figure, pre')].filter((n) => n.scrollWidth > 696).length"
            assert visit.page.evaluate(wide) == 0
            for kept in ("figure", ".card", "tr", ".rows li"):
                assert visit.colour(kept, "breakInside") == "avoid"
            visit.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
