import { onTestFinished } from 'vitest';
import { modelSettingsFromFlags, parsePlainDaemonLine } from '../../src/frontends/command-line.ts';
import { runDaemon } from '../../src/main/run-daemon.ts';

/**
 * Settings of a workspace that is served in tests. Without a sandbox each command would ask, and not every machine has one. A reserve
 * on disk is written and synced at the start of each daemon: 1 MB shows as much of it as 16.
 */
export const TEST_SETTINGS = { sandbox: 'none', disk: { reserve_mb: 1 } };

/** A daemon in this process. Its files name this process as the owner of the workspace: nobody may send that a signal. */
export type DaemonHere = {
  /** What it logged. */
  stderr(): string;
  /** Releases the workspace, as after SIGTERM; calls in flight are given up. */
  stop(): Promise<void>;
};

/**
 * Serves a workspace with all the real parts, in this process; ends with the test. A daemon that is a process costs half a
 * second of a core more: it is for tests of the program, of what ends it, and of what the next one makes of that.
 */
export async function serveHere(root: string, words: string[], env: NodeJS.ProcessEnv): Promise<DaemonHere> {
  const line = parsePlainDaemonLine(words);
  if (!line || line.config !== undefined) throw new Error(`not a plain line without --config: ${words.join(' ')}`);
  let logged = '';
  const daemon = await runDaemon({
    root,
    configFile: 'agentd.json',
    flags: modelSettingsFromFlags(line),
    logLevel: line.logLevel,
    writeLog: (text) => {
      logged += text;
    },
    allowNetwork: line.allowNetworkFs ?? false,
    // The watchdog would end this process, and with it the tests of other files.
    env: { AGENTD_GRACE_S: '0.01', ...env, AGENTD_WATCHDOG_S: '100000' },
    onLost(why) {
      throw why;
    },
  });
  let stopped: Promise<void> | undefined;
  const stop = () => {
    stopped ??= daemon.stop();
    return stopped;
  };
  onTestFinished(stop);
  return { stderr: () => logged, stop };
}
