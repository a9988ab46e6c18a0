#!/bin/sh
# Starts a cluster on this machine and kills the worker that has a plan, in the middle of a command; another one goes on.
# Usage: cluster-kill.sh [workspace]; by default a new folder below /tmp. Needs agentd and agentctl on the PATH, and what
# docs/cluster.md names; uses no AI and no network.
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

shown() {
  printf '$ %s\n' "$1"
  eval "$1"
}
# The process that has the newest claim on the session.
owner() { cat .sessions/demo/events/owner-*.json | grep -o '"pid": *[0-9]*' | grep -o '[0-9]*' | tail -n 1; }

echo '$ agentd --cluster-dev --model runbook &'
agentd --cluster-dev --model runbook --log-level error > cluster.log 2>&1 &
cluster=$!
trap 'kill $cluster 2> /dev/null; wait $cluster || true' EXIT
until grep -qs READY cluster.log; do
  kill -0 $cluster 2> /dev/null || { cat cluster.log; exit 1; }
  sleep 0.1
done
cat cluster.log
shown 'cat task.md'
shown 'agentctl send demo -q < task.md'
until grep -qs two .sessions/demo/work/log.txt; do sleep 0.1; done
pid=$(owner)
printf '$ kill -9 %s    # the worker that has the session, in the middle of step 2\n' "$pid"
kill -9 "$pid"
until [ "$(owner)" != "$pid" ]; do sleep 0.1; done
grep 'ended' cluster.log
printf '# process %s has it now\n' "$(owner)"
shown 'agentctl show demo | grep "^[1-3]\."'
agentctl watch demo > /dev/null
shown 'agentctl show demo | grep "^[1-3]\." | cut -c 1-60'
shown 'cat .sessions/demo/work/log.txt'
