"""Requests go to public addresses only, within limits, with the call's key, and to the address that was checked."""

import asyncio
import base64
import gzip
import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import which
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from midcourse.errors import InvalidInput, MidcourseError, ToolUnavailable
from midcourse.runtime.tools import find_tool
from midcourse.tools import addresses, http_request
from midcourse.tools.addresses import is_public
from midcourse.tools.observers import http
from midcourse.tools.web import Web, web
from tests.unit.tools.tool_calls import under


class Pages(BaseHTTPRequestHandler):
    """A small site with everything that can go wrong."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        match url.path:
            case "/redirect":
                self._answer(int(asked.get("status", "302")), b"", {"Location": asked["to"]})
            case "/round":
                self._answer(307, b"", {"Location": "/round"})
            case "/large":
                self.send_response(200)
                self.end_headers()
                try:
                    while True:
                        self.wfile.write(b"x" * 65_536)
                except OSError:
                    self.close_connection = True
            case "/slow":
                self.server.slow.wait(10)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
                self._answer(200, b"late")
            case "/gzip":
                self._answer(200, gzip.compress(b"x" * int(asked["size"])), {"Content-Encoding": "gzip"})
            case "/damaged":
                self._answer(200, b"this is not packed", {"Content-Encoding": "gzip"})
            case "/brotli":
                self._answer(200, b"?", {"Content-Encoding": "br"})
            case "/binary":
                self._answer(200, bytes(range(256)))
            case "/latin":
                self._answer(200, "héllo".encode("latin-1"), {"Content-Type": "text/plain; charset=iso-8859-1"})
            case "/charset":
                content_type = f"text/plain; charset={asked['named']}"
                self._answer(200, b"a-" + b"b" * 90_000, {"Content-Type": content_type})
            case "/etag":
                self._answer(200, b"body", {"ETag": '"v1"', "Last-Modified": "yesterday"})
            case "/dated":
                self._answer(200, b"body", {"Last-Modified": "yesterday"})
            case "/missing":
                self._answer(404, b"nothing here")
            case _:
                self._echo()

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        if self.path == "/redirect-post":
            self._answer(303, b"", {"Location": "/elsewhere"})
        else:
            self._echo()

    do_PUT = do_DELETE = do_POST  # noqa: N815

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def _echo(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        seen = {
            "method": self.command,
            "path": self.path,
            "headers": {name.lower(): value for name, value in self.headers.items()},
            "body": body.decode(),
        }
        self._answer(200, json.dumps(seen).encode(), {"Set-Cookie": "secret=1", "X-Told": "yes"})

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", f"{len(body)}")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class Site(ThreadingHTTPServer):
    """The site, on a free port of this machine."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Pages)
        self.slow = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def site() -> Generator[Site]:
    site = Site()
    serving = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.01})
    serving.start()
    yield site
    site.slow.set()
    site.shutdown()
    site.server_close()
    serving.join()


@pytest.fixture
def local() -> Web:
    return web(allow_private=True, limit=100_000, timeout=5)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """A name server of our own: what each name resolves to, one after another; and no other name does."""
    known: dict[str, list[str]] = {}

    def getaddrinfo(host: str, port: int, *_: object, **__: object) -> list[object]:
        if host not in known:
            raise socket.gaierror(-2, "Name or service not known")
        addresses = known[host].pop(0) if known[host] else "the name was resolved once too often"
        return [
            (socket.AF_INET6 if ":" in one else socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port))
            for one in addresses.split()
        ]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    return known


# ---- where a request may go

NOT_PUBLIC = [
    *("127.0.0.1", "127.255.255.254", "0.0.0.0", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1"),
    *("169.254.169.254", "100.64.0.1", "192.0.0.1", "192.0.2.1", "198.18.0.1", "198.51.100.1", "203.0.113.1"),
    *("224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1"),
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:7f00:1", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a00:1"),
    *("192.0.0.9", "192.0.0.192", "192.88.99.1", "168.63.129.16", "100.100.100.200", "::ffff:168.63.129.16"),
    *("3fff::1", "5f00::1", "2620:4f:8000::1", "::ffff:0:7f00:1", "64:ff9b::a83f:8110", "2002:a83f:8110::1"),
    *("64:ff9b:1::1", "2002:7f00:1::", "2002:a00:1::1", "2001:0:7f00:1::", "100::1"),
]
PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1"]


def test_which_addresses_are_public() -> None:
    assert [one for one in NOT_PUBLIC if is_public(one)] == []
    assert [one for one in PUBLIC if not is_public(one)] == []


@pytest.mark.parametrize(
    "url",
    [
        *(f"http://[{one}]/" if ":" in one else f"http://{one}/" for one in NOT_PUBLIC),
        *(
            "http://localhost/",
            "http://LOCALHOST./",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://017700000001/",
        ),
        *("http://127.1/", "http://0/", "http://0x7f.1/", "http://127。0。0。1/", "http://[::ffff:7f00:1]/"),
        *("file:///etc/passwd", "ftp://example.com/", "gopher://example.com/", "data:text/plain,x", "example.com"),
        *("//example.com/", "http://", "http:///x", "", "http://user:pass@example.com/", "http://[", "http://\0/"),
    ],
)
@pytest.mark.parametrize("call", ["get", "post", "put", "delete"])
async def test_what_is_not_public_http_is_refused(url: str, call: str) -> None:
    arguments = ("body",) if call in {"post", "put"} else ()
    with pytest.raises(MidcourseError) as refused:
        await getattr(web(timeout=5), call)(url, *arguments)

    # Some spellings are no address to some systems: that is as good.
    assert refused.value.code in {"address_refused", "host_not_found"}


async def test_a_name_that_leads_to_a_private_address_is_refused(names: dict[str, list[str]]) -> None:
    names["evil.test"] = ["10.0.0.1"]
    with pytest.raises(InvalidInput, match=r"evil.test \(10.0.0.1\) is not a public address") as refused:
        await web().get("http://evil.test/")
    assert refused.value.code == "address_refused"

    names["half.test"] = ["1.1.1.1 ::1"]
    with pytest.raises(InvalidInput, match=r"half.test \(::1\)"):
        await web().get("https://half.test/")


async def test_only_hosts_on_the_list_are_asked(site: Site, names: dict[str, list[str]]) -> None:
    listed = web(allow_hosts=["api.good.test", "*.er.good.test"], allow_private=True)
    for host in ("api.good.test", "API.good.test.", "deep.er.good.test"):
        names[host.lower()] = ["127.0.0.1"]
        assert (await listed.get(f"http://{host}:{site.server_port}/")).status == 200
    for host in ("good.test", "evil.test", "er.good.test", "notapi.good.test", "api.good.test.evil.test", "127.0.0.1"):
        with pytest.raises(InvalidInput, match="not among the hosts"):
            await listed.get(f"http://{host}:{site.server_port}/")


async def test_the_address_that_was_checked_is_the_one_that_is_used(site: Site, names: dict[str, list[str]]) -> None:
    # A second resolution would fail: the list has one answer.
    names["once.test"] = ["127.0.0.1"]
    answer = await web(allow_private=True).get(f"http://once.test:{site.server_port}/a?b=c")
    seen = json.loads(answer.body)

    assert (seen["headers"]["host"], seen["path"]) == (f"once.test:{site.server_port}", "/a?b=c")
    assert answer.url == f"http://once.test:{site.server_port}/a?b=c"


async def test_the_next_address_is_tried_if_one_does_not_answer(site: Site, names: dict[str, list[str]]) -> None:
    names["two.test"] = ["127.0.0.2 127.0.0.1"]
    assert (await web(allow_private=True).get(f"http://two.test:{site.server_port}/")).status == 200


async def test_a_redirect_is_checked_like_the_first_address(site: Site, names: dict[str, list[str]]) -> None:
    names["good.test"] = ["127.0.0.1"] * 10
    listed = web(allow_hosts=["good.test"], allow_private=True)
    start = f"http://good.test:{site.server_port}/redirect?to="
    for onward in ("http://127.0.0.1:1/", "http://evil.test/", "file:///etc/passwd", "//evil.test/x", "http://["):
        with pytest.raises(InvalidInput) as refused:
            await listed.get(start + onward)
        assert refused.value.code == "address_refused"


async def test_a_redirect_to_a_private_address_is_refused(
    site: Site, names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The site itself must count as public, and nothing else on this machine.
    monkeypatch.setattr(addresses, "is_public", "127.0.0.1".__eq__)
    names["good.test"] = ["127.0.0.1"]
    names["inner.test"] = ["10.0.0.1"]
    with pytest.raises(InvalidInput, match=r"inner.test \(10.0.0.1\) is not a public address"):
        await web().get(f"http://good.test:{site.server_port}/redirect?to=http://inner.test/")


# ---- what is sent and what comes back


async def test_a_get_follows_redirects_and_says_where_it_ended(site: Site, local: Web) -> None:
    answer = await local.get(f"{site.url}/redirect?to=/redirect%3Fto=/end", {"X-Mine": "1"})

    assert (answer.status, answer.url) == (200, f"{site.url}/end")
    assert json.loads(answer.body)["headers"]["x-mine"] == "1"
    assert answer.headers["x-told"] == "yes"
    assert "set-cookie" not in answer.headers


async def test_keys_are_not_sent_on_to_another_origin(site: Site, names: dict[str, list[str]]) -> None:
    names["a.test"] = ["127.0.0.1"] * 2
    names["b.test"] = ["127.0.0.1"]
    made = web(allow_private=True)
    secrets = {"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "Accept": "text/html"}
    start = f"http://a.test:{site.server_port}/redirect?to="
    there = json.loads((await made.get(f"{start}http://b.test:{site.server_port}/", secrets)).body)["headers"]
    names["a.test"] = ["127.0.0.1"] * 2
    here = json.loads((await made.get(f"{start}/", secrets)).body)["headers"]

    assert not there.keys() & {"authorization", "cookie", "x-api-key"}
    assert there["accept"] == "text/html"
    assert (here["authorization"], here["x-api-key"]) == ("Bearer x", "k")


async def test_endless_redirects_end(site: Site, local: Web) -> None:
    with pytest.raises(MidcourseError, match="More than 5 redirects"):
        await local.get(f"{site.url}/round")


async def test_writes_send_the_key_and_follow_nothing(site: Site, local: Web) -> None:
    def call(method: str, *arguments: Any) -> Any:
        return under("key 1", lambda: asyncio.ensure_future(getattr(local, method)(f"{site.url}/x", *arguments)))

    for method, arguments in (("post", ('{"a": 1}',)), ("put", ("text", "text/plain")), ("delete", ())):
        seen = json.loads((await call(method, *arguments)).body)
        assert seen["method"] == method.upper()
        assert seen["headers"]["idempotency-key"] == "key 1"
    assert "idempotency-key" not in json.loads((await call("get")).body)["headers"]

    answer = await local.post(f"{site.url}/redirect-post", "")
    assert (answer.status, answer.headers["location"]) == (303, "/elsewhere")


async def test_outside_a_step_every_call_has_a_key_of_its_own(site: Site, local: Web) -> None:
    keys = [json.loads((await local.post(site.url, "")).body)["headers"]["idempotency-key"] for _ in range(2)]

    assert keys[0] != keys[1]


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Idempotency-Key"])
async def test_headers_that_the_tool_sets_itself_are_refused(local: Web, site: Site, name: str) -> None:
    with pytest.raises(InvalidInput, match="set by the tool itself"):
        await local.get(site.url, {name: "x"})


async def test_headers_that_cannot_be_sent_are_refused(local: Web, site: Site) -> None:
    for headers in ({"X-A": "b\r\nX-Injected: c"}, {"X A": "b"}, {"X-A": "\N{SNOWMAN}"}):
        with pytest.raises(MidcourseError):
            await local.get(site.url, headers)


async def test_what_is_not_text_comes_as_base64(site: Site, local: Web) -> None:
    answer = await local.get(f"{site.url}/binary")
    assert (answer.encoding, base64.b64decode(answer.body)) == ("base64", bytes(range(256)))

    assert (await local.get(f"{site.url}/latin")).body == "héllo"


async def test_only_charsets_that_are_decoded_quickly_are(site: Site, local: Web) -> None:
    for named in ("UTF-8", "us-ascii", "ISO-8859-15", "windows-1252", "Shift_JIS", "EUC-KR", "gb18030", "koi8-r"):
        assert (await local.get(f"{site.url}/charset?named={named}")).encoding == "text"
    for named in ("punycode", "idna", "utf-7", "unicode_escape", "iso-8859-99", "iso2022_jp", "nothing"):
        assert (await local.get(f"{site.url}/charset?named={named}")).encoding == "base64"


async def test_an_answer_that_is_too_large_is_cut_off(site: Site, local: Web) -> None:
    with pytest.raises(MidcourseError, match="too large") as refused:
        await local.get(f"{site.url}/large")

    assert refused.value.code == "too_large"


async def test_what_is_packed_is_unpacked_up_to_the_limit(site: Site, local: Web) -> None:
    assert (await local.get(f"{site.url}/gzip?size=100000")).body == "x" * 100_000
    with pytest.raises(MidcourseError, match="too large") as refused:
        await local.get(f"{site.url}/gzip?size=50000000")
    assert refused.value.fields["size"] == 100_001

    for path in ("damaged", "brotli"):
        with pytest.raises(MidcourseError) as refused:
            await local.get(f"{site.url}/{path}")
        assert refused.value.code == "request_failed"


async def test_an_answer_that_takes_too_long_is_given_up(site: Site) -> None:
    with pytest.raises(MidcourseError, match="took longer than 0.2 s") as refused:
        await web(allow_private=True, timeout=0.2).get(f"{site.url}/slow")

    assert refused.value.code == "took_too_long"


async def test_nobody_there_is_said(local: Web) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(MidcourseError, match="No connection to http") as refused:
        await local.get(f"http://127.0.0.1:{port}/")
    assert refused.value.code == "no_connection"


async def test_proxies_of_the_environment_are_not_asked(
    site: Site, local: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await local.get(site.url)).status == 200


@pytest.mark.skipif(which("openssl") is None, reason="needs openssl to make a certificate")
async def test_a_certificate_is_checked_against_the_name_and_not_the_address(
    site: Site, names: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=named.test"),
            *("-addext", "subjectAltName=DNS:named.test", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    site.socket = serving.wrap_socket(site.socket, server_side=True)
    trusting = ssl.create_default_context(cafile=str(certificate))
    monkeypatch.setattr(http_request, "_certificates", lambda: trusting)
    names["named.test"] = names["other.test"] = ["127.0.0.1"]
    answer = await web(allow_private=True).get(f"https://named.test:{site.server_port}/")
    assert answer.status == 200

    names["other.test"] = ["127.0.0.1"]
    with pytest.raises(MidcourseError, match="certificate verify failed"):
        await web(allow_private=True).get(f"https://other.test:{site.server_port}/")


# ---- what they declare


def test_what_the_tools_declare(local: Web) -> None:
    assert [made.kind for made in local.tools] == ["read", "idempotent", "idempotent", "irreversible"]
    assert all(made.is_async for made in local.tools)
    assert local.post.settles_in == 5
    assert find_tool(local.post.origin) is local.post
    listed = web(allow_hosts=["b", "a"])
    assert find_tool(listed.get.origin) is listed.get is web(allow_hosts=("a", "b", "a")).get


@pytest.mark.parametrize("make", [lambda: web(allow_hosts="a.test"), lambda: web(timeout=0), lambda: web(limit=-1)])
def test_parameters_that_make_no_sense_are_refused(make: Callable[[], Web]) -> None:
    with pytest.raises(InvalidInput):
        make()


def test_a_missing_library_is_said_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(
        ToolUnavailable, match=r"web needs httpx2, which is not installed: pip install 'midcourse\[web\]'"
    ):
        web()


async def test_a_page_is_observed_by_its_etag_or_its_date(site: Site) -> None:
    looking = http("url", allow_private=True)
    expected = {"/etag": 'etag:"v1"', "/dated": "last-modified:yesterday", "/missing": None}
    for path, version in expected.items():
        arguments = {"url": site.url + path}
        assert looking.resource(arguments) == site.url + path
        assert await looking.version(arguments) == version
    with pytest.raises(MidcourseError, match="tells no version"):
        await looking.version({"url": f"{site.url}/echo"})
    with pytest.raises(InvalidInput, match="not a public address"):
        await http("url").version({"url": site.url})
