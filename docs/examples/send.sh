#!/bin/sh
# Sends one message, waits for its reply, prints the text of it and marks it as read.
# Usage: send.sh <session folder> <text>
set -eu
session=$1
text=$2
inbox=$session/inbox
outbox=$session/outbox
# ".msg." promises that the file comes in whole; the reply gets the same name.
name=$(date +%s)-$$.msg.md

# The session is made here if it is not there yet.
mkdir -p "$inbox/.tmp"
printf '%s\n' "$text" > "$inbox/.tmp/$name"
# With GNU coreutils this waits for these two only; a `sync` that takes no names waits for the whole disk.
sync "$inbox/.tmp/$name"
# `ln` fails where the name is taken; `mv` would replace another sender's message.
ln "$inbox/.tmp/$name" "$inbox/$name"
# The daemon may have taken this name away already.
rm -f "$inbox/.tmp/$name"
sync "$inbox"

until [ -e "$outbox/$name" ]; do sleep 0.2; done

# The text comes after the front matter (between two lines of ---) and an empty line.
sed '1,/^---$/d' "$outbox/$name" | tail -n +2
mv "$outbox/$name" "$outbox/read/$name"
