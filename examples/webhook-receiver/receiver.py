"""Receives what Midcourse sends over webhooks, and acts on each thing once.

    pip install standardwebhooks
    WEBHOOK_SECRET=whsec_… python receiver.py 8090

What it answers:

* 401: the signature is not of the secret's owner, or the time on it is more than five minutes off. Forged, or too old.
* 409: this very request was here before, to the letter. It was recorded and is sent again.
* 200: it is new, and was acted on; or it is a retry of what was acted on (the same id, sent and signed anew, because
  Midcourse did not hear our answer), and nothing is done a second time.

What was received and what was done about it go into one transaction of a SQLite file: a crash loses both or neither.
"""

import os
import sqlite3
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

LARGEST = 64 * 1024
"""Bytes of the largest body that is read. Midcourse sends a few hundred."""


def act(ledger: sqlite3.Connection, told: dict[str, Any]) -> None:
    """What this program does about it: here, a line in a table. Whatever it is, it belongs into the transaction."""
    facts = told["data"]
    about = f"{facts.get('session', '')} {facts.get('prompt', '')}".strip()
    ledger.execute("INSERT INTO done (kind, about) VALUES (?, ?)", (told["type"], about))
    print(f"{told['type']}: {about}", flush=True)


class Receiver(ThreadingHTTPServer):
    """Listens on this machine alone; a proxy with TLS stands in front of it."""

    def __init__(self, port: int, secret: str, file: Path) -> None:
        super().__init__(("127.0.0.1", port), _Request)
        self.signer = Webhook(secret)
        self.file = file
        with closing(self.ledger()) as ledger:
            ledger.execute("PRAGMA journal_mode = WAL")
            # One id may be sent several times; each time it is signed anew.
            ledger.execute("CREATE TABLE IF NOT EXISTS received (id TEXT, signature TEXT, PRIMARY KEY (id, signature))")
            ledger.execute("CREATE TABLE IF NOT EXISTS done (kind TEXT, about TEXT)")

    def ledger(self) -> sqlite3.Connection:
        """The file in which it is kept what was received. Transactions are begun by hand."""
        return sqlite3.connect(self.file, isolation_level=None, timeout=10)

    def receive(self, headers: dict[str, str], body: bytes) -> int:
        """Act on a delivery, if it is genuine and new. The status to answer with."""
        try:
            told = self.signer.verify(body, headers)
        except (WebhookVerificationError, ValueError):  # ValueError: what is not even shaped like a signature
            return 401
        name, signature = headers["webhook-id"], headers["webhook-signature"]
        with closing(self.ledger()) as ledger:
            ledger.execute("BEGIN IMMEDIATE")
            known = [row[0] for row in ledger.execute("SELECT signature FROM received WHERE id = ?", (name,))]
            if signature in known:
                ledger.execute("ROLLBACK")
                return 409
            ledger.execute("INSERT INTO received VALUES (?, ?)", (name, signature))
            if not known:
                act(ledger, told)
            ledger.execute("COMMIT")
        return 200


class _Request(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        is_fine = 0 <= length <= LARGEST  # what has less than nothing would be read to its end
        status = self.server.receive(headers, self.rfile.read(length)) if is_fine else 413
        self.send_response(status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: what matters is printed where it is done."""


if __name__ == "__main__":
    receiver = Receiver(int(sys.argv[1]), os.environ["WEBHOOK_SECRET"], Path("received.db"))
    print(f"listening on http://127.0.0.1:{receiver.server_port}", flush=True)
    receiver.serve_forever()
