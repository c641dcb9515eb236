"""`hardmax ntp`: next-token prediction; one file for each of its commands."""

import typer

from hardmax.cli.ntp_check import check
from hardmax.cli.ntp_generate import generate
from hardmax.cli.ntp_predict import predict
from hardmax.cli.ntp_train import train

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="Next-token prediction: check, make and train on datasets.",
)
app.command()(check)
app.command()(generate)
app.command()(train)
app.command()(predict)
