#!/bin/sh
# Kills the daemon with SIGKILL in the middle of a command, starts another, and shows that every line was written once.
# Usage: kill-9.sh [workspace]; by default a new folder below /tmp. Needs agentctl on the PATH; uses no AI and no network.
set -eu
AGENTD_WORKSPACE=${1:-$(mktemp -d /tmp/agentd-kill-XXXXXX)}
export AGENTD_WORKSPACE
cd "$AGENTD_WORKSPACE"
# Without a sandbox each command of the task would wait for your approval.
[ -e agentd.json ] || echo '{ "permissions": [{ "allow": "shell" }] }' > agentd.json
cat > task.md <<'TASK'
1. Note the first line: `echo one >> log.txt`
2. Take a while: `echo two >> log.txt; sleep 5; echo three >> log.txt`
3. Count the lines: `wc -l < log.txt`
TASK
trap 'agentctl stop -q 2> /dev/null || true' EXIT

shown() {
  printf '$ %s\n' "$1"
  eval "$1"
}

shown 'cat task.md'
shown 'agentctl start --model runbook -q'
shown 'agentctl send demo -q < task.md'
until grep -qs two .sessions/demo/work/log.txt; do sleep 0.1; done
pid=$(grep -o '"pid": *[0-9]*' .agentd/owner.json | grep -o '[0-9]*')
printf '$ kill -9 %s    # in the middle of step 2\n' "$pid"
kill -9 "$pid"
shown 'agentctl show demo | grep "^[1-3]\."'
shown 'agentctl start --model runbook -q'
agentctl watch demo > /dev/null
shown 'agentctl show demo | grep "^[1-3]\." | cut -c 1-60'
shown 'cat .sessions/demo/work/log.txt'
