"""Attacks on the server: each is refused or limited, and the next honest request is answered."""

import html
import http.client
import json
import os
import socket
import subprocess
import sys
import threading
import time
from urllib.parse import parse_qs, urlsplit

import pytest

from hardmax.app.playground.server import HEADERS

pytestmark = [pytest.mark.extra, pytest.mark.slow]
pytest.importorskip("starlette", reason="starlette is not installed: make test-extras installs it")

PATIENCE = pytest.importorskip("hardmax.app.playground.connections").PATIENCE
MANY = {"keys": [[[0, 0]] * 10_000], "scores": [[0] * 10_000]}
BROWSER = """
import json, os, sys, urllib.request
file = urllib.request.url2pathname(sys.argv[1].removeprefix("file://"))
modes = [oct(os.stat(each).st_mode & 0o777) for each in (file, os.path.dirname(file))]
told = {"argument": sys.argv[1], "file": file, "content": open(file).read(), "modes": modes}
open(os.environ["NOTE"], "w").write(json.dumps(told))
"""
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


@pytest.mark.parametrize(
    "method, path, status",
    [("GET", "/nothing", 404), ("DELETE", "/", 405), ("GET", "/", 403), ("GET", "/front.js", 200)],
)
def test_every_answer_has_the_headers(client, method, path, status):
    got, _, headers = client.request(method, path)
    assert got == status
    for name, value in HEADERS.items():
        assert headers[name.lower()] == value


@pytest.mark.parametrize("start", [b"", b"GET / HT", b"POST /ask HTTP/1.1\r\nHost: x\r\n"])
def test_a_request_that_never_ends_is_dropped(client, start):
    """Also if a letter comes now and then."""
    began = time.monotonic()
    with socket.create_connection((client.host, client.port), timeout=PATIENCE + 20) as slow:
        slow.sendall(start)
        if start:
            time.sleep(0.6 * PATIENCE)
            slow.sendall(b"X")
        assert slow.recv(100) == b""
    assert PATIENCE - 1 < time.monotonic() - began < PATIENCE + 15


def test_a_connection_is_kept_for_the_next_request(client):
    """Longer than a request may take to arrive, because a request was answered on it."""
    connection = http.client.HTTPConnection(client.host, client.port, timeout=30)
    for pause in (0.0, PATIENCE + 1):
        time.sleep(pause)
        connection.request("GET", "/front.js")
        assert connection.getresponse().read()
    connection.close()


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
    # a fast machine may finish one of them in time
    assert all(told["ok"] or "longer than 8 seconds" in told["error"] for _, told in found)


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


def test_clients_that_disconnect_print_nothing(tmp_path):
    """Each once printed a traceback of 40 lines."""
    command = [sys.executable, "-m", "hardmax", "play", "--no-browser", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    url = urlsplit(json.loads(server.stdout.readline())["address"])
    head = f"POST /ask HTTP/1.1\r\nHost: {url.netloc}\r\nX-Hardmax-Token: {url.query[2:]}\r\n"
    for _ in range(3):
        with socket.create_connection((url.hostname, url.port), timeout=30) as client:
            client.sendall(f"{head}Content-Length: 1000\r\n\r\n{{".encode())
            time.sleep(0.3)
    time.sleep(0.5)
    server.terminate()
    _, err = server.communicate(timeout=30)
    assert [line for line in err.splitlines() if line] == [
        "hardmax: the playground has ended; the same command opens it again"
    ]


def test_the_token_is_in_no_argument_of_the_browser(tmp_path):
    """Every user of a machine can list them. The browser gets a private file that leads to the page."""
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\n{BROWSER}")
    browser.chmod(0o700)
    note = tmp_path / "note.json"
    environment = {**os.environ, "BROWSER": f"{browser} %s", "NOTE": str(note)}
    command = [sys.executable, "-m", "hardmax", "play", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    address = json.loads(server.stdout.readline())["address"]
    for _ in range(300):
        if note.exists() and note.read_text().endswith("}"):
            break
        time.sleep(0.1)
    told = json.loads(note.read_text())
    assert told["argument"].startswith("file://")
    assert parse_qs(urlsplit(address).query)["t"][0] not in told["argument"]
    assert html.escape(address) in told["content"]
    assert told["modes"] == ["0o600", "0o700"]
    server.terminate()
    assert server.wait(30) == 130
    server.stdout.close()
    assert not os.path.exists(told["file"])


def test_the_server_listens_on_loopback_only(client):
    names = {each[4][0] for each in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    outside = names - {"127.0.0.1", "127.0.1.1"}
    if not outside:
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match=r"refused|unreachable|timed out"):
        socket.create_connection((outside.pop(), client.port), timeout=3)
