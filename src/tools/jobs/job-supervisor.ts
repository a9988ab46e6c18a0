import { RUNS, WHO } from '../supervisor.ts';

/** A piece of the output is full from this size on; it may get up to one reading more. */
export const PIECE_BYTES = 1024 * 1024;
const BLOCK_BYTES = 4096;
const BLOCKS = PIECE_BYTES / BLOCK_BYTES;

/**
 * Runs a job: a command that goes on after the call that began it, whether or not there is a daemon. Its arguments are those of
 * `SUPERVISOR`, but in place of whether a daemon listens the seconds that the job may take. Four processes in a group of their own.
 * The first and the second are those of a call.
 *
 * The third keeps the output, as it comes (`head` and `cat` would hold it back, or know no bound): pieces named after the byte that they begin
 * with, of which the first and the last two are kept. What finds no room on the disk is thrown away, so that the command goes on.
 *
 * The fourth ends the group: when the time is over, when somebody put a file `stop` there, when the job's folder is gone or was moved
 * away, and, a moment after the command has ended, what that left in the background. It outlives the SIGTERM it sends.
 */
export const JOB_SUPERVISOR = `${WHO}
exec 3>"$1/ended"
{
  trap : $SIGNALS
  PATH=$PATH:/usr/bin:/bin
  exec >/dev/null 3>&-
  n=0
  while [ "$((n += 1))" -le "$4" ] && [ -e "$1/pid" ] && [ ! -e "$1/stop" ] && [ ! -s "$1/ended" ]; do sleep 1; done
  if [ -s "$1/ended" ]; then
    sleep 1
  elif [ -e "$1/stop" ]; then
    printf 'stop\\n' >"$1/over"
  elif [ -e "$1/pid" ]; then
    printf 'timeout\\n' >"$1/over"
  fi
  kill -TERM 0
  n=0
  while [ "$((n += 1))" -le 20 ]; do sleep 0.1; done
  kill -KILL 0
} 2>/dev/null &
watch=$!
${RUNS.trimStart()} | {
  trap '' $SIGNALS
  exec 5<&0 3>&- 2>/dev/null
  PATH=$PATH:/usr/bin:/bin
  at=0 size=0 last=
  while :; do
    if ! dd bs=${BLOCK_BYTES} count=${BLOCKS} <&5 >>"$1/out.$at"; then
      [ "$(dd bs=${BLOCK_BYTES} count=1 <&5 | wc -c)" -gt 0 ] || break
      continue
    fi
    now=$(($(wc -c <"$1/out.$at") + 0))
    [ "$now" -gt "$size" ] || break
    size=$now
    [ "$size" -ge ${PIECE_BYTES} ] || continue
    if [ "$at" -gt 0 ]; then
      [ -z "$last" ] || rm -f "$1/out.$last"
      last=$at
    fi
    at=$((at + size)) size=0
  done
}
printf 'whole\\n' >>"$1/exit"
kill -KILL "$watch"
`;
