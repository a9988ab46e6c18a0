#!/usr/bin/env python3
"""Sends one message, waits for its reply, prints its text and marks it as read.

Usage: send.py <session folder> <text>
"""
import json
import os
import sys
import time
import uuid
from pathlib import Path


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def send(session: Path, text: str) -> str:
    """Drops a message, complete and durable when this returns. Returns the name of its reply."""
    message_id = uuid.uuid4().hex
    name = f"{message_id}.msg.json"
    inbox = session / "inbox"
    staged = inbox / ".tmp" / name
    staged.parent.mkdir(parents=True, exist_ok=True)
    with open(staged, "x", encoding="utf-8") as file:
        json.dump({"id": message_id, "text": text}, file, ensure_ascii=False)
        file.flush()
        os.fsync(file.fileno())
    # A link fails if the name is taken; a rename would replace another sender's message.
    os.link(staged, inbox / name)
    # The daemon may have removed this name already.
    staged.unlink(missing_ok=True)
    sync_folder(inbox)
    return name


def wait_for_reply(session: Path, name: str, seconds: float) -> dict:
    """The reply of that name. Replies appear atomically, so an existing one can be read at once."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return json.loads((session / "outbox" / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no reply yet; it will be in {session / 'outbox' / name}") from None
            time.sleep(0.2)


def main() -> None:
    session = Path(sys.argv[1])
    name = send(session, sys.argv[2])
    reply = wait_for_reply(session, name, seconds=600)
    print(reply["text"])
    os.rename(session / "outbox" / name, session / "outbox" / "read" / name)


if __name__ == "__main__":
    main()
