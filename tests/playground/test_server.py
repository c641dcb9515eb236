"""Attacks on the server: each is refused or limited, and the next honest request is answered."""

import http.client
import json
import socket
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest

pytestmark = [pytest.mark.extra, pytest.mark.slow]
pytest.importorskip("starlette", reason="starlette is not installed: make test-extras installs it")

MANY = {"keys": [[[0, 0]] * 10_000], "scores": [[0] * 10_000]}
SCRIPT = "<img src=x onerror=alert(1)>"


class Client:
    """Requests as anybody on this machine can make them."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        self.host, self.port = url.hostname, url.port
        self.token = parse_qs(url.query)["t"][0]

    def request(self, method="GET", path="/", body=None, **headers):
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
            got = connection.getresponse()
            return got.status, got.read(), dict(got.getheaders())
        finally:
            connection.close()

    def ask(self, message, **headers):
        raw = message if isinstance(message, bytes) else json.dumps(message).encode()
        headers = {"X_Hardmax_Token": self.token, **headers}
        status, content, _ = self.request("POST", "/ask", raw, **headers)
        return status, json.loads(content)


@pytest.fixture(scope="module")
def client(address):
    return Client(address)


@pytest.fixture(autouse=True)
def _goes_on(client, honest):
    """After whatever a test did, the next honest request is answered."""
    yield
    status, told = client.ask(honest, X_Hardmax_Page="honest")
    assert status == 200
    assert told["answer"]["selections"][1]["selection"] == [0, 0]


def test_the_page_and_its_parts(client):
    status, content, headers = client.request(path=f"/?t={client.token}")
    assert status == 200
    assert b"hardmax playground" in content
    assert client.token.encode() not in content
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    for part in ("front.js", "start.js", "style.css"):
        assert client.request(path=f"/{part}")[0] == 200
    assert client.request(path="/etc/passwd")[0] == 404
    assert client.request(path="/../../../../etc/passwd")[0] == 404
    assert client.request(path="/front/../server.py")[0] == 404


@pytest.mark.parametrize("token", ["", "wrong", "é"])
def test_no_token(client, honest, token):
    assert client.request(path=f"/?t={token.encode('unicode_escape').decode()}")[0] == 403
    status, told = client.ask(honest, X_Hardmax_Token=token.encode("unicode_escape").decode())
    assert (status, told["ok"]) == (403, False)
    assert "token" in told["error"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1", "127.0.0.1:1", "localhost.evil.example"]
)
def test_a_foreign_host(client, honest, host):
    """DNS rebinding: a foreign name that leads to this machine is not ours."""
    assert client.request(path=f"/?t={client.token}", Host=host)[0] == 403
    assert client.request(path="/front.js", Host=host)[0] == 403
    status, told = client.ask(honest, Host=host)
    assert (status, told["ok"]) == (403, False)


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1", "http://127.0.0.1"])
def test_a_foreign_origin(client, honest, origin):
    status, told = client.ask(honest, Origin=origin)
    assert (status, told["ok"]) == (403, False)
    status, told = client.ask(honest, Sec_Fetch_Site="cross-site")
    assert (status, told["ok"]) == (403, False)
    own = f"http://{client.host}:{client.port}"
    assert client.ask(honest, Origin=own, Sec_Fetch_Site="same-origin")[0] == 200


def test_ten_megabytes(client):
    status, told = client.ask(b" " * 10_000_000)
    assert status == 413
    assert "at most 4,000,000 bytes" in told["error"]


def test_ten_megabytes_that_do_not_say_so(client):
    connection = http.client.HTTPConnection(client.host, client.port, timeout=60)
    pieces = (b" " * 100_000 for _ in range(100))
    try:
        connection.request("POST", "/ask", pieces, {"X-Hardmax-Token": client.token}, encode_chunked=True)
        status = connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):  # hung up on while sending
        status = 413
    finally:
        connection.close()
    assert status == 413


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"[" * 100_000, "nested"),
        (b'{"v": 1, "ask": "solve", "rate": NaN}', "finite"),
        (b"\x00\x01", "must be"),
        (json.dumps({"v": 1, "ask": "solve", "problem": MANY}).encode(), "at most 240"),
        (json.dumps({"v": 1, "ask": SCRIPT}).encode(), "ask must be one of"),
        (json.dumps({"v": 1, "ask": "check", "sentences": ["a " * 100_000]}).encode(), "at most 24 words"),
    ],
)
def test_bad_messages(client, raw, sentence):
    status, told = client.ask(raw)
    assert (status, told["ok"]) == (200, False)
    assert sentence in told["error"]


def test_methods(client):
    assert client.request("GET", "/ask", X_Hardmax_Token=client.token)[0] == 405
    assert client.request("DELETE", "/", X_Hardmax_Token=client.token)[0] == 405
    assert client.request("OPTIONS", "/ask")[0] == 405  # no preflight is ever granted


def test_questions_that_would_take_long_from_one_page_do_not_stop_another(client, honest):
    """They are ended at their deadline; meanwhile another page is answered."""
    texts = [[" ".join(f"w{(7 * k + j) % 2900}" for j in range(90)), 1 - 2 * (k % 2)] for k in range(5000)]
    long = json.dumps({"v": 1, "ask": "words", "texts": texts, "epochs": 200, "least": 1}).encode()
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(client.ask(long, X_Hardmax_Page="greedy")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    time.sleep(1.0)
    status, told = client.ask(honest, X_Hardmax_Page="other")
    assert (status, told["ok"]) == (200, True)
    assert len(found) < 2  # long ones are still under way
    for thread in threads:
        thread.join()
    assert [status for status, _ in found] == [200, 200]
    assert all("longer than 8 seconds" in told["error"] for _, told in found)


def test_fifty_connections(client, honest):
    """Fifty that say nothing, and fifty that ask at once."""
    idle = [socket.create_connection((client.host, client.port)) for _ in range(50)]
    try:
        for each in idle[:25]:
            each.sendall(b"POST /ask HTTP/1.1\r\nHost: 127")
        assert client.ask(honest)[0] == 200
        found = []
        threads = [threading.Thread(target=lambda: found.append(client.ask(honest))) for _ in range(50)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        for each in idle:
            each.close()
    assert len(found) == 50
    assert {status for status, _ in found} <= {200, 503}
    assert sum(told["ok"] for _, told in found) >= 40
    assert all(told["ok"] or "busy" in told["error"] for _, told in found)


def test_a_message_that_never_ends_is_given_up(client):
    with socket.create_connection((client.host, client.port), timeout=30) as slow:
        head = f"POST /ask HTTP/1.1\r\nHost: 127.0.0.1:{client.port}\r\nX-Hardmax-Token: {client.token}\r\n"
        slow.sendall(f"{head}Content-Length: 1000\r\n\r\n".encode())
        slow.sendall(b"{")
        assert b" 408 " in slow.recv(200)


def test_the_server_listens_on_loopback_only(client):
    names = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    outside = names - {"127.0.0.1", "127.0.1.1"}
    if not outside:
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
        socket.create_connection((outside.pop(), client.port), timeout=3)
