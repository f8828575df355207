"""`python -m headend.lab`."""

from headend.lab.cli import app

if __name__ == "__main__":
    app(prog_name="python -m headend.lab")
