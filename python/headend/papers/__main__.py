"""`python -m headend.papers`."""

from headend.papers.cli import main

main()
