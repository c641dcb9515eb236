"""Who may ask, as far as it can be told without a server: hosts, origins, tokens; what `serve` refuses."""

from types import SimpleNamespace

import pytest

import hardmax as hm
from hardmax.app.playground.server import Gate


def request(host="127.0.0.1:80", token="secret", **headers):
    given = {"host": host, "x-hardmax-token": token, **{k.replace("_", "-"): v for k, v in headers.items()}}
    return SimpleNamespace(headers=given, query_params={})


@pytest.mark.parametrize(
    ("listening", "host", "let_in"),
    [
        ("127.0.0.1", "127.0.0.1:80", True),
        ("127.0.0.1", "localhost:80", True),
        ("127.0.0.1", "[::1]:80", True),
        ("127.0.0.1", "192.168.0.7:80", False),
        ("127.0.0.1", "localhost:81", False),
        ("192.168.0.7", "192.168.0.7:80", True),
        ("192.168.0.7", "localhost:80", False),
        ("::1", "[::1]:80", True),
        ("0.0.0.0", "192.168.0.7:80", True),
        ("0.0.0.0", "192.168.0.7:81", False),
        ("0.0.0.0", "evil.example:80", False),
        ("0.0.0.0", None, False),
    ],
)
def test_hosts(listening, host, let_in):
    refusal = Gate(listening, 80, "secret").refusal(request(host), with_token=True)
    assert (refusal is None) == let_in


def test_origins_and_tokens():
    gate = Gate("127.0.0.1", 80, "secret")
    assert gate.refusal(request(origin="http://127.0.0.1:80"), with_token=True) is None
    assert "Origin" in gate.refusal(request(origin="http://localhost:80"), with_token=True)
    assert "own page" in gate.refusal(request(sec_fetch_site="same-site"), with_token=True)
    assert "token" in gate.refusal(request(token="secre"), with_token=True)
    assert "token" in gate.refusal(request(token=""), with_token=True)
    assert gate.refusal(request(token=""), with_token=False) is None


def test_only_the_page_may_be_opened_from_outside():
    """A file with the address leads there; what the page asks comes from itself."""
    gate, navigation = Gate("127.0.0.1", 80, "secret"), {"sec_fetch_mode": "navigate"}
    outside = request(sec_fetch_site="cross-site", **navigation)
    assert gate.refusal(outside, with_token=True, from_outside=True) is None
    assert "own page" in gate.refusal(outside, with_token=True)
    fetched = request(sec_fetch_site="cross-site", sec_fetch_mode="cors")
    assert "own page" in gate.refusal(fetched, with_token=True, from_outside=True)
    stolen = request(token="guess", sec_fetch_site="cross-site", **navigation)
    assert "token" in gate.refusal(stolen, with_token=True, from_outside=True)


@pytest.mark.extra
def test_what_cannot_be_served_is_refused():
    with pytest.raises(ValueError, match="port must be a whole number from 0 to 65535, got 70000"):
        hm.playground.serve(port=70000)
    with pytest.raises(ValueError, match=r"problem must have keys in 2 dimensions, got 9|needs"):
        hm.playground.serve(hm.data.example("w33"))
