"""The proxy's live page as an operator meets it: Debian's Chromium on the real binary, with traffic through it."""

import contextlib
import re
import socket
import subprocess
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 375, "height": 780}
PATIENCE_MS = 20_000


class Proxy:
    """The binary, a server that sends for ever, and a client of it through the proxy."""

    def __init__(self, folder, binary):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.connections = []
        to = self.server.getsockname()[1]
        path = folder / "proxy.toml"
        path.write_text(
            "[[listen]]\naddress = '127.0.0.1:0'\nway = 'forward'\n"
            f"to = '127.0.0.1:{to}'\n[local]\npersonality = 'hfc-local'\n[admin]\nlisten = '127.0.0.1:0'\n"
        )
        self.process = subprocess.Popen([binary, "proxy", "--config", path], stderr=subprocess.PIPE, text=True)
        self.way_in = int(self.says(r"listening on 127\.0\.0\.1:(\d+) \(forward\)"))
        self.page = self.says(r"to look at: (http://\S+)")

    def says(self, pattern):
        for line in self.process.stderr:
            if found := re.search(pattern, line):
                return found[1]
        raise AssertionError(f"it ended without {pattern!r}")

    def connect(self):
        client = socket.create_connection(("127.0.0.1", self.way_in))
        server, _ = self.server.accept()
        self.connections += [client, server]
        return client, server

    def busy(self):
        """Both ends of a connection that moves 16 KiB every 10 ms."""
        client, server = self.connect()
        over = threading.Event()

        def send():
            try:
                while not over.wait(0.01):
                    server.sendall(bytes(16_384))
            except OSError:
                return

        def receive():
            # The proxy is killed at the end of the test, and what it had open is reset.
            with contextlib.suppress(OSError):
                while client.recv(1 << 16):
                    pass

        for body in (send, receive):
            threading.Thread(target=body, daemon=True).start()
        return over

    def end(self):
        for connection in [*self.connections, self.server]:
            connection.close()
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


@pytest.fixture
def proxy(tmp_path, headend_binary):
    proxy = Proxy(tmp_path, headend_binary)
    yield proxy
    proxy.end()


@pytest.fixture
def open_page(browser, proxy):
    """Opens the page; fails the test if it complained, or asked anybody but the proxy for anything."""
    complaints, requests, contexts = [], [], []

    def open_it(viewport=WIDE, expect_complaints=False, **options):
        context = browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
        context.set_default_timeout(PATIENCE_MS)
        contexts.append(context)
        page = context.new_page()
        if not expect_complaints:
            page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(proxy.page)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert not complaints
    assert [url for url in requests if not url.startswith(proxy.page)] == []


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_shows_the_traffic_and_nothing_sticks_out(open_page, proxy, viewport, scheme):
    over = proxy.busy()
    page = open_page(viewport, color_scheme=scheme)
    page.locator("#state[data-state=serving]").wait_for()
    page.locator("#tiles .tile:first-child .value").filter(has_text=re.compile("[kM]bit/s")).wait_for()
    assert page.locator("#connections tr").count() == 1
    assert "127.0.0.1" in page.locator("#connections tr td").first.text_content()
    assert page.locator(".chart").count() == 6
    label = page.locator(".chart .plot").first.get_attribute("aria-label")
    assert re.match(r"Down now: from servers [\d.]+.[kM]bit/s", label)
    assert page.evaluate("document.documentElement.scrollWidth") == viewport["width"]
    assert page.locator("#sides li").filter(has_text="rto_min").count() == 1
    over.set()


def test_it_is_up_to_date_within_seconds_and_says_when_nobody_is_connected(open_page, proxy):
    page = open_page()
    page.get_by_text("Nobody is connected.").wait_for()
    proxy.connect()
    page.locator("#connections td.number").first.wait_for()
    for connection in proxy.connections:
        connection.close()
    page.get_by_text("Nobody is connected.").wait_for()


def test_it_says_when_the_proxy_is_gone_and_keeps_what_was_known(open_page, proxy):
    page = open_page(expect_complaints=True)
    page.locator("#state[data-state=serving]").wait_for()
    proxy.process.kill()
    page.locator("#state[data-state=gone]").wait_for()
    assert page.locator("#gone").is_visible()
    assert "no answer" in page.title()
    assert page.locator(".tile").count() == 8


def test_a_name_from_the_network_is_text_and_never_a_part_of_the_page(open_page):
    page = open_page()
    page.locator("#state[data-state=serving]").wait_for()
    evil = "<img src=x onerror=document.title='owned'>"

    def answer(route):
        response = route.fetch()
        status = response.json()
        side = {"read_bps": 0, "written_bps": 0, "held_bytes": 0, "spooled_bytes": 0, "tcp": None}
        status["busiest"] = [
            {"id": 1, "age_s": 1, "client": evil, "destination": evil, "server": None, "local": side, "remote": side}
        ]
        route.fulfill(response=response, json=status)

    page.route("**/status?*", answer)
    page.get_by_text(evil).first.wait_for()
    assert page.locator("img").count() == 0
    assert page.title() != "owned"


def test_the_policy_lets_nothing_in_from_elsewhere(browser, proxy):
    context = browser.new_context()
    page = context.new_page()
    response = page.goto(proxy.page)
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy
    context.close()


def test_text_keeps_its_contrast_in_both_schemes(open_page):
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        page.locator("#state[data-state=serving]").wait_for()
        colours = page.evaluate(
            "['text', 'soft', 'bad', 'good', 'link', 'card', 'local', 'remote', 'third'].map("
            "name => getComputedStyle(document.documentElement).getPropertyValue('--' + name).trim())"
        )
        *inks, card = [luminance(colour) for colour in [*colours[:5], *colours[6:], colours[5]]]
        ratios = [(max(ink, card) + 0.05) / (min(ink, card) + 0.05) for ink in inks]
        assert all(ratio >= 4.5 for ratio in ratios[:5]), (scheme, ratios)
        assert all(ratio >= 3 for ratio in ratios[5:]), (scheme, ratios)


def luminance(colour):
    """Of `#rgb` or `#rrggbb`, as WCAG 2 defines it."""
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    channels = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
