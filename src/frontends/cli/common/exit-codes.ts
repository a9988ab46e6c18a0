/** Every exit code of agentctl, once: the code, `--help` and the docs read this table. */
export const EXIT_CODES = {
  ok: { code: 0, when: 'done; with --wait: the message was answered, or joined a run' },
  error: { code: 1, when: 'an error occurred, or the message was rejected' },
  usage: { code: 2, when: 'invalid command line' },
  daemon: { code: 3, when: 'wrong daemon state: not running, already running, or busy with the session' },
  session: { code: 4, when: 'no such session, or several match the prefix' },
  paused: { code: 5, when: 'with --wait or watch: the run is paused' },
  waiting: { code: 6, when: 'with --wait or watch: the run is waiting for an answer' },
  failed: { code: 7, when: 'with --wait or watch: the run failed or was cancelled' },
  approval: { code: 8, when: 'approve, deny: no call is waiting, or it is unclear which one is meant' },
  timeout: { code: 124, when: 'timed out waiting' },
} as const;

export type ExitName = keyof typeof EXIT_CODES;

/** Exit code for each status of a reply or a run. */
export const EXIT_OF_STATUS = {
  done: 'ok',
  joined: 'ok',
  paused: 'paused',
  waiting: 'waiting',
  failed: 'failed',
  cancelled: 'failed',
  rejected: 'error',
} as const satisfies Record<string, ExitName>;

/** The table as text for `--help`. */
export function formatExitCodes(): string {
  const rows = Object.values(EXIT_CODES).map(({ code, when }) => `  ${String(code).padStart(3)}  ${when}`);
  return ['Exit codes:', ...rows].join('\n');
}
