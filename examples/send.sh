#!/bin/sh
# Sends one message, waits for its reply, prints its text and marks it as read.
# Usage: send.sh <session folder> <text>
set -eu
session=$1
text=$2
inbox=$session/inbox
outbox=$session/outbox
# ".msg." promises that the file is complete; the reply gets the same name.
name=$(date +%s)-$$.msg.md

# Creates the session if it does not exist.
mkdir -p "$inbox/.tmp"
printf '%s\n' "$text" > "$inbox/.tmp/$name"
# GNU `sync` syncs only the named file; a `sync` that ignores names waits for the whole disk.
sync "$inbox/.tmp/$name"
# `ln` fails if the name is taken; `mv` would replace another sender's message.
ln "$inbox/.tmp/$name" "$inbox/$name"
# The daemon may have removed this name already.
rm -f "$inbox/.tmp/$name"
sync "$inbox"

until [ -e "$outbox/$name" ]; do sleep 0.2; done

# The text comes after the front matter (between two lines of ---) and an empty line.
sed '1,/^---$/d' "$outbox/$name" | tail -n +2
mv "$outbox/$name" "$outbox/read/$name"
