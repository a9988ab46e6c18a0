import { readFileSync, readlinkSync, statSync } from 'node:fs';
import { resolve } from 'node:path';
import type { Argv } from 'yargs';
import { nearestName } from '../base/strings.ts';
import { attempt, errorCode, InvalidArgument, UserError } from '../base/user-error.ts';
import { defaultWorkspace, emptyValue } from '../client/sessions/client-errors.ts';
import { isEnvVariableName, NOT_A_VARIABLE_NAME } from '../protocol/settings/env-variable.ts';
import type { ModelSettings } from '../protocol/settings/model-settings.ts';

/** Width of help texts that are put into the docs. */
export const DOCS_WIDTH = 100;
const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof LOG_LEVELS)[number];

export const WORKSPACE_OPTION = {
  type: 'string',
  requiresArg: true,
  describe: 'Folder of the workspace',
  defaultDescription: '$AGENTD_WORKSPACE, else ~/.workspace',
} as const;

/**
 * The absolute path of the workspace: flag, else environment, else `~/.workspace`. Throws UserError if the one that
 * counts is empty, or if there is something else than a folder.
 */
export function workspaceRoot(flag: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  if (flag === '') throw new InvalidArgument(emptyValue('--workspace'));
  const root = flag === undefined ? defaultWorkspace(env) : resolve(flag);
  if (isOtherThanFolder(root))
    throw new UserError(
      `Expected a folder as the workspace, but ${root} is none. Name another one with --workspace, or move it away.`,
    );
  return root;
}

function isOtherThanFolder(path: string): boolean {
  return attempt(() => !statSync(path).isDirectory()) ?? false;
}

/** The flags that say which configuration and model are meant, wherever a daemon is started or looked into. */
export function addSettingsOptions<T>(cli: Argv<T>) {
  const text = (describe: string) => ({ type: 'string', requiresArg: true, describe }) as const;
  return cli
    .option('config', text("Configuration file to use instead of the workspace's agentd.json"))
    .option('model', text('Model name; "runbook" and "scripted:<file>" are built in'))
    .option('base-url', text('OpenAI-compatible endpoint, such as http://127.0.0.1:11434/v1'))
    .option('api-key-env', text('Environment variable that holds the API key'));
}

/** All flags of a daemon but its workspace. */
export function addDaemonOptions<T>(cli: Argv<T>) {
  return addSettingsOptions(cli)
    .option('allow-network-fs', {
      type: 'boolean',
      describe: 'Allow a workspace on a network file system, at your own risk',
    })
    .option('log-level', {
      choices: LOG_LEVELS,
      requiresArg: true,
      describe: 'Minimum log level',
      default: 'info' satisfies LogLevel as LogLevel,
    });
}

export type SettingsFlags = {
  config?: string | undefined;
  model?: string | undefined;
  baseUrl?: string | undefined;
  apiKeyEnv?: string | undefined;
};
export type DaemonFlags = SettingsFlags & { logLevel: LogLevel; allowNetworkFs?: boolean | undefined };

/**
 * The model's settings that flags give. Throws UserError if a variable that would count in place of a missing flag is
 * empty.
 */
export function modelSettingsFromFlags(
  { model, baseUrl, apiKeyEnv }: SettingsFlags,
  env: NodeJS.ProcessEnv = process.env,
): ModelSettings {
  checkKeyVariable(apiKeyEnv);
  for (const [name, flag] of [
    ['OPENAI_MODEL', model],
    ['OPENAI_BASE_URL', baseUrl],
  ] as const)
    if (flag === undefined && env[name] === '') throw new InvalidArgument(emptyValue(name));
  return {
    ...(model !== undefined && { name: model }),
    ...(baseUrl !== undefined && { base_url: baseUrl }),
    ...(apiKeyEnv !== undefined && { api_key_env: apiKeyEnv }),
  };
}

/** A key that was pasted where its name is wanted is not repeated, nor given to another process. */
function checkKeyVariable(name: string | undefined): void {
  if (name !== undefined && !isEnvVariableName(name))
    throw new InvalidArgument(`--api-key-env: ${NOT_A_VARIABLE_NAME}.`);
}

const SCRIPTED_PREFIX = 'scripted:';

/** The flags again, as words for a process in another folder; their paths start from `base`. */
export function daemonArgv(
  { config, model, baseUrl, apiKeyEnv, logLevel, allowNetworkFs }: DaemonFlags,
  base: string = process.cwd(),
): string[] {
  checkKeyVariable(apiKeyEnv);
  const script = model?.startsWith(SCRIPTED_PREFIX)
    ? SCRIPTED_PREFIX + resolve(base, model.slice(SCRIPTED_PREFIX.length))
    : model;
  const flags = {
    config: config && resolve(base, config),
    model: script,
    'base-url': baseUrl,
    'api-key-env': apiKeyEnv,
  };
  const given = Object.entries(flags).flatMap(([name, value]) => (value === undefined ? [] : [`--${name}`, value]));
  return [...given, ...(allowNetworkFs ? ['--allow-network-fs'] : []), '--log-level', logLevel];
}

/**
 * A flag whose value is empty came from a variable that is not set: it means neither its default nor "none". Throws an
 * error that names the flag. `switches`: flags that take no value.
 */
export function rejectEmptyFlags(argv: readonly string[], switches: ReadonlySet<string>): void {
  const end = argv.indexOf('--');
  const words = end < 0 ? argv : argv.slice(0, end);
  for (const [place, word] of words.entries()) {
    const [, flag, name = '', equals] = /^(--?([^=-][^=]*))(=)?$/.exec(word) ?? [];
    if (flag !== undefined && !switches.has(name) && (equals || words[place + 1] === ''))
      throw new Error(emptyValue(flag));
  }
}

/** A single-valued flag given twice is a mistake, not a list. */
export function rejectRepeatedFlags(args: Record<string, unknown>, lists: readonly string[] = []): void {
  for (const [name, value] of Object.entries(args)) {
    if (Array.isArray(value) && name !== '_' && !lists.includes(name)) {
      throw new Error(`--${name} was given ${value.length} times; give it once.`);
    }
  }
}

/**
 * The flags that were probably meant by those that do not exist, as a line below the complaint of yargs; '' if there is
 * none near. `cli`: the parser that complained, which knows the flags of the command; `others`: those of any command,
 * for a flag in front of it.
 */
export function suggestFlags(
  message: string,
  argv: readonly string[],
  cli: object,
  others: Iterable<string> = [],
): string {
  const [, names = ''] = /^Unknown arguments?: (.*)$/.exec(message) ?? [];
  const unknown = new Set(names.split(', '));
  const isInFront = message.startsWith('No command given');
  const known = [...knownFlags(cli), ...(isInFront ? others : [])];
  const end = argv.indexOf('--');
  const near = (end < 0 ? argv : argv.slice(0, end)).flatMap((word) => {
    const [, flag, plain = ''] = /^--((?:no-)?([^=]{2,80}))/.exec(word) ?? [];
    if (flag === undefined) return [];
    // A mistyped flag in front of the command has taken the command for its value.
    const isMeant = isInFront ? !known.includes(flag) : unknown.has(flag) || unknown.has(plain);
    return isMeant ? (known.find((one) => one === OTHER_FLAGS.get(flag)) ?? nearestName(flag, known) ?? []) : [];
  });
  return near.length === 0 ? '' : `\nDid you mean ${[...new Set(near)].map((flag) => `"--${flag}"`).join(', ')}?`;
}

/** What other programs call a flag. */
const OTHER_FLAGS: ReadonlyMap<string, string> = new Map([
  ['tail', 'last'],
  ['lines', 'last'],
]);

/** The long flags, from what the types of yargs leave out. */
function knownFlags(cli: object): string[] {
  const options: unknown = 'getOptions' in cli && typeof cli.getOptions === 'function' ? cli.getOptions() : undefined;
  const keys = typeof options === 'object' && options !== null && 'key' in options ? options.key : undefined;
  return Object.keys(keys ?? {}).filter((flag) => /^[a-z][a-z-]+$/.test(flag));
}

/**
 * A word that means just itself wherever it stands: yargs reads "true" and "false" behind a flag as its value, and
 * takes quotation marks off.
 */
export function isPlainWord(word: string | undefined): word is string {
  return word !== undefined && word.trim() !== '' && !/^(?:[-'"]|true$|false$)/.test(word);
}

/** The built page, as `agentctl serve` serves it: the same place from `src/` and from `dist/`. */
export const pageFile = (name: string): URL => new URL(`../../dist/web/${name}`, import.meta.url);

/** The pages of the docs, which the package has beside its programs. */
export const DOCS_FOLDER = new URL('../../docs/', import.meta.url);

/** Our own version. Left to itself, yargs takes that of the package we are installed in. */
export const packageVersion = (): string => versionAt(OWN_FOLDER).version;

/** For people: the version, and of which commit and day the build is, as in `0.1.0 (1a2b3c4d5e, 2026-11-28)`. */
export const versionWithCommit = (): string => versionAt(OWN_FOLDER).words;

/** The same place from `src/` and from `dist/`. */
const OWN_FOLDER = new URL('../../', import.meta.url);

/** Of the package in a folder. `words` has what `scripts/build.mjs` notes. */
export function versionAt(folder: URL): { version: string; words: string } {
  const read = (path: string): unknown => JSON.parse(readFileSync(new URL(path, folder), 'utf8'));
  const own = read('package.json');
  const version = typeof own === 'object' && own !== null && 'version' in own ? String(own.version) : 'unknown';
  try {
    const note = read('dist/build.json');
    if (typeof note !== 'object' || note === null || !('commit' in note) || !('date' in note)) throw new Error();
    return { version, words: note.commit === null ? version : `${version} (${note.commit}, ${note.date})` };
  } catch {
    return { version, words: version };
  }
}

export type DaemonCommandLine = DaemonFlags & {
  workspace?: string | undefined;
  role?: 'gateway' | 'worker' | undefined;
  engine?: string | undefined;
  listen?: string | undefined;
  filesLate?: number | undefined;
  clusterDev?: boolean | undefined;
};

const FLAG_NAMES = {
  '--workspace': 'workspace',
  '--config': 'config',
  '--model': 'model',
  '--base-url': 'baseUrl',
  '--api-key-env': 'apiKeyEnv',
  '--log-level': 'logLevel',
} as const;

/**
 * A command line of `agentd` in its plainest form: each flag once, then its value, as `agentctl start` gives them.
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
  lost: {
    code: 8,
    when: 'another daemon took over the workspace, or its folder was replaced, or .agentd in it removed; this one stopped writing as soon as it noticed',
  },
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
