/** Every exit code of agentd, once: the code, `--help` and the docs read this table. */
export const AGENTD_EXITS = {
  stopped: { code: 0, when: 'stopped' },
  error: { code: 1, when: 'something went wrong' },
  usage: { code: 2, when: 'the command line was not understood' },
  owned: { code: 3, when: 'the workspace has a daemon already' },
  lost: { code: 8, when: 'another daemon took the workspace; nothing was written after that was seen' },
  twice: { code: 130, when: 'a second signal to stop' },
  stalled: { code: 137, when: 'SIGKILL: it was killed, or stood still for a minute and ended itself' },
} as const;

/** The table in words. */
export function agentdExitTable(): string {
  const rows = Object.values(AGENTD_EXITS).map(({ code, when }) => `  ${String(code).padStart(3)}  ${when}`);
  return ['Exit codes:', ...rows].join('\n');
}
