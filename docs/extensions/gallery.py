"""Plots made when the book is built: a directive runs its Python, and shows the plot with the code below it."""

import os
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

FOLDER = "_gallery"
"""Where plots are written, in the folder of the pages; git ignores it."""


class Plot(SphinxDirective):
    """`{plot} NAME` with a description: Python that leaves matplotlib's axes in `axes`, run in the repository."""

    required_arguments = 1
    has_content = True
    option_spec = {"alt": directives.unchanged_required}  # noqa: RUF012

    def run(self) -> list[nodes.Node]:
        """The plot, and the code."""
        import matplotlib as mpl

        mpl.use("agg")
        mpl.rcParams["svg.hashsalt"] = "headend"  # the same plot is the same file
        code = "\n".join(self.content)
        source = Path(self.env.srcdir)
        before = Path.cwd()
        names: dict[str, object] = {}
        try:
            os.chdir(source.parent)
            exec(compile(code, f"{self.env.docname}: {self.arguments[0]}", "exec"), names)
            figure = names["axes"].figure  # type: ignore[attr-defined]
        except Exception as wrong:
            raise self.error(f"the plot {self.arguments[0]} failed: {wrong!r}") from wrong
        finally:
            os.chdir(before)
        (source / FOLDER).mkdir(exist_ok=True)
        figure.savefig(
            source / FOLDER / f"{self.arguments[0]}.svg",
            facecolor="white",
            bbox_inches="tight",
            metadata={"Date": None},
        )
        image = nodes.image(uri=f"/{FOLDER}/{self.arguments[0]}.svg", alt=self.options["alt"])
        block = nodes.literal_block(code, code, language="python")
        return [image, block]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directive."""
    app.add_directive("plot", Plot)
    return {"parallel_read_safe": False, "parallel_write_safe": True}
