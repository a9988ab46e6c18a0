#!/bin/sh
# A frontend without any library: writes a message directly, waits for its reply, moves it to read/, and starts over.
# Usage: writer.sh <.sessions folder> <a word for its names> <number of sessions> <file that says stop> <file of what was sent>
set -eu
sessions=$1
word=$2
count=$3
stop=$4
sent=$5
n=0
until [ -e "$stop" ]; do
  n=$((n + 1))
  session=s$(((n * 7 + $$) % count))
  name=$word$n.md
  folder=$sessions/$session
  mkdir -p "$folder/inbox"
  echo "$session $name" >> "$sent"
  case $((n % 3)) in
    0) echo "What about job-$word$n?" > "$folder/inbox/$name" ;;
    *) echo "Please work on job-$word$n" > "$folder/inbox/$name" ;;
  esac
  until [ -e "$folder/outbox/$name" ]; do sleep 0.1; done
  mv "$folder/outbox/$name" "$folder/outbox/read/$name"
done
