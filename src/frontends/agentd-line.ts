import { type DaemonFlags, LOG_LEVELS } from './options.ts';
import { isPlain } from './plain-word.ts';

export type DaemonLine = DaemonFlags & { workspace?: string | undefined };

const NAMES = {
  '--workspace': 'workspace',
  '--config': 'config',
  '--model': 'model',
  '--base-url': 'baseUrl',
  '--api-key-env': 'apiKeyEnv',
  '--log-level': 'logLevel',
} as const;

/**
 * A command line of `agentd` in its plainest form: each flag once, its value behind it, as `agentctl start` gives them. Undefined:
 * yargs reads this line, and finds what is wrong with it; loading it takes longer than all else that is done before the daemon's own code.
 */
export function readDaemonLine(argv: readonly string[]): DaemonLine | undefined {
  const line: Record<string, string> = {};
  let allowNetworkFs: boolean | undefined;
  for (let place = 0; place < argv.length; place++) {
    const word = argv[place] ?? '';
    if (word === '--allow-network-fs' && allowNetworkFs === undefined) {
      allowNetworkFs = true;
      continue;
    }
    const name = isName(word) ? NAMES[word] : undefined;
    place++;
    const value = argv[place];
    if (name === undefined || name in line || !isPlain(value)) return undefined;
    line[name] = value;
  }
  const { logLevel: wished = 'info', ...flags } = line;
  const logLevel = LOG_LEVELS.find((level) => level === wished);
  return logLevel && { ...flags, logLevel, allowNetworkFs };
}

const isName = (word: string): word is keyof typeof NAMES => Object.hasOwn(NAMES, word);
