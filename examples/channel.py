#!/usr/bin/env python3
"""A Telegram bot for one person, with files alone: channel.py <workspace> <account>; the token is in TELEGRAM_TOKEN."""
import json, os, sys, time, urllib.request
from pathlib import Path

WORKSPACE, ACCOUNT = Path(sys.argv[1]), int(sys.argv[2])
SERVER = os.environ.get("TELEGRAM_SERVER", "https://api.telegram.org")
SESSION = WORKSPACE / ".sessions" / f"chat-{ACCOUNT}"
MARK = SESSION / "chat.mark"

def call(method: str, **params):
    request = urllib.request.Request(f"{SERVER}/bot{os.environ['TELEGRAM_TOKEN']}/{method}",
                                     json.dumps(params).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))["result"]

def drop(message_id: str, text: str) -> None:
    """Durable when this returns. The same message, delivered again, is the same file."""
    name, inbox = f"{message_id}.msg.json", SESSION / "inbox"
    (inbox / ".tmp").mkdir(parents=True, exist_ok=True)
    with open(inbox / ".tmp" / name, "w", encoding="utf-8") as file:
        json.dump({"id": message_id, "from": f"telegram-{ACCOUNT}", "text": text}, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(inbox / ".tmp" / name, inbox / name)
    folder = os.open(inbox, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)

while True:
    try:
        for reply in sorted((SESSION / "outbox").glob("*.msg.json"), key=lambda file: file.stat().st_mtime):
            text = json.loads(reply.read_text(encoding="utf-8"))["text"] or "(no text)"
            for start in range(0, len(text), 2000):
                call("sendMessage", chat_id=ACCOUNT, text=text[start:start + 2000])
            reply.rename(reply.parent / "read" / reply.name)
        offset = int(MARK.read_text()) if MARK.exists() else 0
        for update in call("getUpdates", offset=offset, timeout=1):
            message = update.get("message", {})
            if message.get("from", {}).get("id") == ACCOUNT == message["chat"]["id"] and "text" in message:
                drop(f"telegram-{message['message_id']}", message["text"])
            # Only now, since what is below the mark does not come again.
            MARK.parent.mkdir(parents=True, exist_ok=True)
            MARK.write_text(str(update["update_id"] + 1))
    except OSError as error:
        print(f"tried again in 5 s: {error}", file=sys.stderr)
        time.sleep(5)
