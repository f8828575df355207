"""The report as a reader meets it: opened from a file in Debian's Chromium."""

from pathlib import Path

import pytest
import sample_study

from headend.report import render

WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 780}


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    return render(sample_study.study(), tmp_path_factory.mktemp("report") / "out").resolve().as_uri()


@pytest.fixture
def open_page(browser, address):
    """Opens the page, every plot of it drawn; fails the test if the page complained or asked for anything."""
    complaints, requests, contexts = [], [], []

    def open_it(viewport=WIDE, **options):
        context = browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        for section in page.locator(".figure").all():
            section.scroll_into_view_if_needed()
            for plot in section.locator(".plot:visible").all():
                plot.locator("canvas").wait_for()
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert not complaints
    assert [url for url in requests if url != address] == []


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_plot_is_drawn_and_nothing_sticks_out(open_page, viewport, scheme, tmp_path):
    page = open_page(viewport, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    plots = page.locator(".plot")
    assert plots.count() == 2 + 1 + 2 + 2
    for plot in plots.all():
        box = plot.locator("canvas").bounding_box()
        assert box["width"] > 250
        assert box["height"] > 200
        assert colours(plot) > 8, "axes and curves"
    assert page.screenshot(path=tmp_path / "page.png", full_page=True)


def colours(plot):
    """How many different colours a plot's canvas shows."""
    return plot.locator("canvas").evaluate(
        "c => new Set(new Uint32Array(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.buffer)).size"
    )


def test_the_theme_is_the_systems_until_the_reader_chooses(open_page):
    page = open_page(color_scheme="dark")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    curve = page.locator(".plot canvas").first
    before = curve.evaluate("c => c.toDataURL()")
    page.get_by_role("button", name="Change to the light theme").click()
    light = page.evaluate(background)
    assert brightness(dark) < 0.2 < 0.8 < brightness(light)
    page.wait_for_function("([c, before]) => c.toDataURL() !== before", arg=[curve.element_handle(), before])
    page.reload()
    assert page.evaluate(background) == light, "the choice is kept"


def brightness(rgb):
    return sum(int(part) for part in rgb.strip("rgb()").split(",")) / (3 * 255)


def test_the_filter_leaves_the_claims_of_one_verdict(open_page):
    page = open_page()
    rows = page.locator(".claims tbody tr:visible")
    assert rows.count() == 3
    page.get_by_role("group", name="Show claims").get_by_role("button", name="differs").click()
    assert rows.count() == 1
    assert "sample.fig4.loss1" in rows.first.inner_text()
    page.get_by_role("group", name="Show claims").get_by_role("button", name="All").click()
    assert rows.count() == 3


def test_a_curve_can_be_switched_off_and_on(open_page):
    page = open_page()
    figure = page.locator("#fig8")
    canvas, chip = figure.locator("canvas:visible").last, figure.get_by_role("button", name="24 KB")
    before = canvas.evaluate("c => c.toDataURL()")
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    page.wait_for_function("([c, before]) => c.toDataURL() !== before", arg=[canvas.element_handle(), before])
    chip.click()
    page.wait_for_function("([c, before]) => c.toDataURL() === before", arg=[canvas.element_handle(), before])


def test_the_reference_has_a_switch_of_its_own(open_page):
    page = open_page()
    figure = page.locator("#fig4")
    canvas, chip = figure.locator(".plot canvas").first, figure.get_by_role("button", name="ns-2.35", exact=True)
    before = canvas.evaluate("c => c.toDataURL()")
    chip.click()
    page.wait_for_function("([c, before]) => c.toDataURL() !== before", arg=[canvas.element_handle(), before])


def settled(page, element):
    """Where an element is once it is in view and the page has told its scripts that it was scrolled."""
    element.scroll_into_view_if_needed()
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return element.bounding_box()


def test_the_cursor_reads_out_values_with_their_interval_and_units(open_page):
    page = open_page()
    box = settled(page, page.locator("#fig4 .plot .u-over").first)
    page.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 0.5 * box["height"])
    readout = page.locator("#readout")
    readout.wait_for()
    text = readout.inner_text()
    assert text.startswith("Data loss 5 %")
    assert "Throughput, Mbit/s" in text
    assert "8 KB" in text
    assert " to " in text
    page.mouse.move(2, 2)
    readout.wait_for(state="hidden")


def test_dragging_zooms_and_a_button_goes_back(open_page):
    page = open_page()
    figure = page.locator("#fig8")
    over, back = figure.locator(".u-over"), figure.get_by_role("button", name="Whole range")
    box, canvas = settled(page, over), figure.locator(".plot canvas")
    before = canvas.evaluate("c => c.toDataURL()")
    assert not back.is_visible()
    page.mouse.move(box["x"] + 100, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 160, steps=4)
    page.mouse.up()
    back.wait_for()
    page.wait_for_function("([c, before]) => c.toDataURL() !== before", arg=[canvas.element_handle(), before])
    back.click()
    page.mouse.move(2, 2)
    page.wait_for_function("([c, before]) => c.toDataURL() === before", arg=[canvas.element_handle(), before])


def test_two_fingers_zoom_on_a_phone(open_page):
    page = open_page(PHONE, has_touch=True, is_mobile=True)
    page.locator("#fig8 .u-over").scroll_into_view_if_needed()
    page.evaluate(
        """() => {
          const over = document.querySelector("#fig8 .u-over");
          const { left, top } = over.getBoundingClientRect();
          const fingers = (spread) => [-1, 1].map((side, i) =>
            new Touch({ identifier: i, target: over, clientX: left + 120 + side * spread, clientY: top + 80 }));
          const fire = (type, touches) =>
            over.dispatchEvent(new TouchEvent(type, { touches, bubbles: true, cancelable: true }));
          fire("touchstart", fingers(30));
          fire("touchmove", fingers(60));
          fire("touchend", []);
        }"""
    )
    page.locator("#fig8").get_by_role("button", name="Whole range").wait_for()


def test_the_svg_link_saves_a_picture_with_plain_colours(open_page):
    page = open_page(color_scheme="dark")
    with page.expect_download() as download:
        page.locator("#fig4").get_by_role("link", name="SVG").click()
    text = Path(download.value.path()).read_text(encoding="utf-8")
    assert text.startswith("<svg")
    assert "var(" not in text
    assert "Throughput [Mbit/s]" in text


def test_the_csv_link_of_a_page_sent_alone_has_the_numbers_of_its_plots(open_page):
    page = open_page()
    with page.expect_download() as download:
        page.locator("#fig4").get_by_role("link", name="CSV").click()
    header, *rows = Path(download.value.path()).read_text(encoding="utf-8").splitlines()
    assert header == "panel,series,Data loss [%],Throughput [Mbit/s],95% from,95% to"
    assert len(rows) == sum(len(s.x) for s in (*sample_study.lines().series, *sample_study.lines().reference))
    assert rows[-1].startswith('(b) no delayed ACK,"48 KB, ns-2.35",10,')


def test_without_scripts_the_pictures_stand_in_for_the_plots(open_page):
    page = open_page(java_script_enabled=False)
    assert page.locator(".static svg:visible").count() == 4
    assert page.locator(".plot:visible").count() == 0
    assert page.locator(".copy:visible").count() == 0
    assert page.locator(".ladders svg:visible").count() == 2


def test_on_paper_the_pictures_are_printed(open_page):
    page = open_page(color_scheme="dark")
    page.emulate_media(media="print")
    assert page.locator(".static svg:visible").count() == 4
    assert page.locator(".plot:visible").count() == 0
    assert brightness(page.evaluate("getComputedStyle(document.querySelector('.card')).backgroundColor")) > 0.9


def test_the_arrow_keys_read_the_points_of_a_plot(open_page):
    page = open_page()
    readout = page.locator("#readout")
    # A plot is drawn, and listens, some time after the page has come.
    for _ in range(100):
        page.locator(".plot").first.focus()
        page.keyboard.press("ArrowRight")
        if readout.is_visible():
            break
        page.wait_for_timeout(100)
    readout.wait_for(state="visible")
    first = readout.inner_text()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("first => document.getElementById('readout').innerText !== first", arg=first)
    page.keyboard.press("Escape")
    readout.wait_for(state="hidden")
