import { spawn } from 'node:child_process';

/** Ends a group once its own input closes, which the end of the daemon does, however it ended. */
const SCRIPT = 'read -r _; sleep 1; kill -TERM "-$1" 2>/dev/null || exit 0; sleep 2; kill -KILL "-$1" 2>/dev/null';

/**
 * Has a process group ended should this process be killed. Chromium ends by itself when its pipe closes; this is for one that
 * hangs. The answer sends the guard away, to be called once the group has ended.
 */
export function guardGroup(group: number): () => void {
  const guard = spawn('/bin/sh', ['-c', SCRIPT, 'guard', String(group)], {
    env: { PATH: '/usr/bin:/bin' },
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  guard.on('error', () => undefined);
  guard.stdin.on('error', () => undefined);
  guard.unref();
  return () => {
    guard.kill('SIGKILL');
    guard.stdin.destroy();
  };
}
