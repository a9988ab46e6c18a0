import { readFileSync, readlinkSync } from 'node:fs';
import { errorCode } from '../../base/user-error.ts';
import { type DaemonFlags, isPlainWord, LOG_LEVELS } from '../command-line.ts';

export type DaemonCommandLine = DaemonFlags & { workspace?: string | undefined };

const FLAG_NAMES = {
  '--workspace': 'workspace',
  '--config': 'config',
  '--model': 'model',
  '--base-url': 'baseUrl',
  '--api-key-env': 'apiKeyEnv',
  '--log-level': 'logLevel',
} as const;

/**
 * A command line of `agentd` in its plainest form: each flag once, its value behind it, as `agentctl start` gives them.
 * Undefined: yargs reads this line, and finds what is wrong with it; loading it takes longer than all else that is done
 * before the daemon's own code.
 */
export function parsePlainDaemonLine(argv: readonly string[]): DaemonCommandLine | undefined {
  const line: Record<string, string> = {};
  let allowNetworkFs: boolean | undefined;
  for (let place = 0; place < argv.length; place++) {
    const word = argv[place] ?? '';
    if (word === '--allow-network-fs' && allowNetworkFs === undefined) {
      allowNetworkFs = true;
      continue;
    }
    const name = isFlagName(word) ? FLAG_NAMES[word] : undefined;
    place++;
    const value = argv[place];
    if (name === undefined || name in line || !isPlainWord(value)) return undefined;
    line[name] = value;
  }
  const { logLevel: wished = 'info', ...flags } = line;
  const logLevel = LOG_LEVELS.find((level) => level === wished);
  return logLevel && { ...flags, logLevel, allowNetworkFs };
}

const isFlagName = (word: string): word is keyof typeof FLAG_NAMES => Object.hasOwn(FLAG_NAMES, word);

/** Every exit code of agentd, once: the code, `--help` and the docs read this table. */
export const AGENTD_EXIT_CODES = {
  stopped: { code: 0, when: 'stopped' },
  error: { code: 1, when: 'an error occurred' },
  usage: { code: 2, when: 'invalid command line' },
  owned: { code: 3, when: 'the workspace already has a daemon' },
  lost: { code: 8, when: 'another daemon took over the workspace; this one stopped writing as soon as it noticed' },
  twice: { code: 130, when: 'a second stop signal' },
  stalled: { code: 137, when: 'SIGKILL: killed by someone, or by itself because its event loop hung for a minute' },
} as const;

/** The table as text for `--help`. */
export function formatAgentdExitCodes(): string {
  const rows = Object.values(AGENTD_EXIT_CODES).map(({ code, when }) => `  ${String(code).padStart(3)}  ${when}`);
  return ['Exit codes:', ...rows].join('\n');
}

/** The flags and the folder that a daemon was started with; undefined if they cannot be read here. */
export function readDaemonFlags(pid: number): { flags: DaemonFlags; cwd: string } | undefined {
  try {
    const [, ...words] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').slice(0, -1);
    const flags = parsePlainDaemonLine(words.slice(words.findIndex((word) => !word.startsWith('-')) + 1));
    return flags && { flags, cwd: readlinkSync(`/proc/${pid}/cwd`) };
  } catch (error) {
    if (errorCode(error) === undefined) throw error;
    return undefined;
  }
}
