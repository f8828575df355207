"""The book's commands: those of the pages for beginners are run, and of all pages every word is looked up."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
NAMES = """
ACM AFIPS AMD ANSI ASSOCIATE ATC CED DCE DuckDB EPYC EQDS GitHub GitLab HAProxy HPCC HotNets IEEE INFOCOM ITU
LBNL LISTEN MIT MPI McGregor MobiCom NDP NDSS NaN NumPy OOPSLA OPTIONS OpenMetrics OpenSAND PATH PC PEPsal
PFTK POSTROUTING PPP PREFIX PREROUTING PhD README RECEIVED RFIv1 RRUL RS1 RS2 RDMA RoCE SCTE SIGCOMM SIGOPS
SND NXT SP TENCON TRACE TSNs TT1 TT2 TT3 UCB USENIX WaveLAN WebSocket WireGuard IsLost NextSeg AO OL DS ID MAT
MHz APNIC CellReplay CycloneDX IMC JupyterLab LeoCC LeoReplayer MMSys NSDI PyPI SpaceNetLab
"""
"""Names of programs, publishers, methods and experiments, which a glossary need not explain."""
SOON = ("sim", "size", "examples", "personalities")
"""Subcommands that end soon and take neither root nor the network."""
RUN = ("explanation/loss.md", "tutorial/exercises.md", "howto/choose.md", "howto/papers.md")


def commands(page: Path) -> list[str]:
    """The commands in a page's indented blocks, continued lines joined."""
    text = re.sub(r"\\\n\s+", "", page.read_text())
    lines = (line.strip() for line in re.findall(r"^    (.*)$", text, flags=re.MULTILINE))
    bare = (re.sub(r"^(\$ |sudo (--\S+ )*)+", "", line) for line in lines)
    return [line for line in bare if line.startswith("headend ")]


@cache
def help_of(binary: Path, *names: str) -> str:
    asked = subprocess.run([binary, *names, "--help"], capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr
    return asked.stdout


def subcommand(binary: Path, words: list[str]) -> tuple[str, ...]:
    """The names with which a command begins, such as `proxy rules show`."""
    names: tuple[str, ...] = ()
    for word in words[1:]:
        if not re.search(
            rf"^  {re.escape(word)}\s", help_of(binary, *names).split("\nOptions:")[0], flags=re.MULTILINE
        ):
            break
        names += (word,)
    return names


@pytest.mark.parametrize("page", RUN)
def test_the_commands_for_beginners_do_what_they_say(page, tmp_path, headend_binary):
    for name in ("scenarios", "examples", "docs"):
        (tmp_path / name).symlink_to(ROOT / name)
    path = f"{headend_binary.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    run = [line for line in commands(DOCS / page) if line.split()[1] in SOON]
    assert run, "or the page is read wrongly"
    for line in run:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path,
            env=os.environ | {"PATH": path},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, f"{line}\n{done.stderr}"


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: str(page.relative_to(DOCS)))
def test_every_option_of_a_command_is_known(page, headend_binary):
    for line in commands(page):
        line = re.split(r"\s#|\s--\s|\s\||\s>|;", line)[0]
        try:
            words = shlex.split(line)
        except ValueError:
            continue  # the page shows a part of a command
        names = subcommand(headend_binary, words)
        for word in words[1 + len(names) :]:
            option = re.match(r"--[a-z-]+", word)
            if option:
                assert re.search(rf"{option[0]}\b", help_of(headend_binary, *names)), (
                    f"{option[0]} is not known: {line}"
                )
            elif word.startswith(("scenarios/", "examples/", "docs/")) and not re.search(r"[*\[\]]", word):
                assert (ROOT / word).exists(), line


def test_the_glossary_has_every_abbreviation():
    blocks = re.findall(r"```\{glossary\}\n(.*?)```", (DOCS / "reference/glossary.md").read_text(), flags=re.DOTALL)
    terms = {line for block in blocks for line in block.splitlines() if line and line[0] not in " :"}
    assert len(terms) > 100, "or the glossary is read wrongly"
    known = set(NAMES.split()) | {word for term in terms for word in re.split(r"[ _/-]", term)}
    missing = {}
    for page in DOCS.rglob("*.md"):
        text = re.sub(
            r"```.*?```|^    .*?$|`[^`]*`|\]\([^)]*\)|<!--.*?-->", "", page.read_text(), flags=re.DOTALL | re.MULTILINE
        )
        for word in re.findall(r"\b[A-Z][A-Za-z]*[A-Z][A-Za-z0-9]*\b", text):
            if word.rstrip("s") not in known and word not in known:
                missing.setdefault(word, page.name)
    assert not missing, f"docs/reference/glossary.md lacks {missing}"


def test_a_wrong_picture_is_told_and_a_right_one_has_a_description():
    pytest.importorskip("sphinx", reason="the book is built by the environment for developers")
    sys.path.insert(0, str(DOCS / "extensions"))
    import pictures

    drawing = pictures.chain(["server", "-- line | 10 ms", "*proxy | two TCPs", "--", "pc", "span 1 2: remote"])
    assert [part.count("<rect") for part in drawing.parts].count(1) == 3
    assert any(">remote<" in part for part in drawing.parts)
    with pytest.raises(ValueError, match="2 hosts take 1 links"):
        pictures.chain(["server", "pc"])
    pages = [page.read_text() for page in DOCS.rglob("*.md")]
    drawn = [block for text in pages for block in re.findall(r"```\{picture\}.*?```", text, flags=re.DOTALL)]
    assert len(drawn) >= 7
    assert all(":title: " in block and ":alt: " in block for block in drawn)


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("headend sim scenarios/hfc.toml", "bash"),
        ("$ headend doctor", "console"),
        ('[nodes.server]\npersonality = "linux"', "toml"),
        ('rate = "25Mbit/s"', "toml"),
        ("import headend", "python"),
        ("result = headend.run(1)", "python"),
        ("THE MACHINE COULD NOT KEEP UP: 219 packets", "none"),
        ('[[listen]]\naddress = "::1"\n\ncurl -x https://proxy/', "none"),
    ],
)
def test_a_block_is_known_by_its_first_lines(text, language):
    pytest.importorskip("sphinx", reason="the book is built by the environment for developers")
    sys.path.insert(0, str(DOCS / "extensions"))
    import highlighting

    assert highlighting.language(text) == language


def test_the_page_of_dependencies_names_each():
    page = (DOCS / "reference/dependencies.md").read_text()
    needed = set()
    for file in [ROOT / "Cargo.toml", *(ROOT / "crates").glob("*/Cargo.toml")]:
        cargo = tomllib.loads(file.read_text())
        for part in (cargo, cargo.get("workspace", {}), *cargo.get("target", {}).values()):
            for kind in ("dependencies", "dev-dependencies", "build-dependencies"):
                needed |= {name for name in part.get(kind, {}) if not name.startswith("headend")}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for names in (project["dependencies"], *project["optional-dependencies"].values()):
        needed |= {re.match(r"[\w-]+", name)[0] for name in names if not name.startswith("headend")}
    assert len(needed) > 40, "or the files are read wrongly"
    assert not {name for name in needed if f"`{name}`" not in page}


def test_what_scrolls_in_a_page_is_reached_by_keyboard(browser, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(
        f"""<!doctype html><title>a page</title>
        <aside class="sidebar-drawer"><p class="caption" role="heading">Tutorial</p></aside>
        <main><pre style="overflow: auto; width: 10em">{"wide " * 50}</pre><pre>short</pre>
        <table><thead><tr><th><p></p></th><th>named</th></tr></thead></table></main>
        <script>{(DOCS / "_static/book.js").read_text()}</script>"""
    )
    tab = browser.new_page()
    tab.goto(page.as_uri())
    assert [tab.locator("pre").nth(at).get_attribute("tabindex") for at in (0, 1)] == ["0", None]
    assert tab.locator(".caption").get_attribute("aria-level") == "2"
    assert tab.locator("aside").get_attribute("aria-label") == "Pages of the book"
    assert tab.locator("th").all_inner_texts() == ["named"]
    tab.close()
