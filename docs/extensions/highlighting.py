"""Indented blocks in the book's pages get the language that they are in: commands, TOML or Python."""

import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

NAMES = "sudo|headend|make|python3?|pip|curl|cp|mkdir|cat|source|export|duckdb|netserver|ip|cargo"
COMMAND = re.compile(rf"(\$ |#SBATCH )|({NAMES})\b(?! +.*\()")
TABLE = re.compile(r"\[\[?[\w.\"-]+\]\]?\s*(#.*)?$")
FIELD = re.compile(r"\"?[\w.*-]+\"? = (\"|\{|\[|\d|true|false)")
PYTHON = re.compile(r"(import|from|class|def|with|async|await|print)\b|\w+ = headend\.|headend\.\w+\(|result\.|sock\.")


def language(text: str) -> str:
    """What a block is in, judged by its first lines; `none` if they do not say."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        return "none"
    first = lines[0]
    if PYTHON.match(first):
        return "python"
    if COMMAND.match(first):
        return "console" if first.startswith("$ ") else "bash"
    if (TABLE.match(first) or FIELD.match(first)) and not any(COMMAND.match(line) for line in lines):
        return "toml"
    return "none"


class Languages(SphinxTransform):
    """Names the language of each block that names none."""

    default_priority = 400

    def apply(self, **_: object) -> None:
        """Goes through the blocks of a page."""
        for block in self.document.findall(nodes.literal_block):
            if block.get("language", "none") == "none":
                block["language"] = language(block.astext())


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the transform."""
    app.add_transform(Languages)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
