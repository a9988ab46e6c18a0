import type { ArgumentsCamelCase, Argv } from 'yargs';
import { firstFew } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import type { Client } from '../../../client/index.ts';
import { commandLine, NoSuchSession } from '../../../client/sessions/client-errors.ts';
import type { ModelSettings } from '../../../protocol/settings/model-settings.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import { workspaceRoot } from '../../command-line.ts';
import { stripControls } from './terminal.ts';

/** Options every command has. */
export type GlobalOptions = { workspace: string | undefined };

/** Services injected by the entry point, because frontends may import only the client. */
export type CliServices = {
  /** Path of the daemon's program. */
  program: string;
  doctor: (question: DoctorOptions) => Promise<Finding[]>;
  /** Jobs of the session in a folder; `stop` names one that is ended first. */
  jobs: (folder: string, stop?: string) => Promise<JobListing[]>;
  /** Logs in at an MCP server; returns the file with the tokens. */
  login: (question: LoginQuestion) => Promise<string>;
};

/** A background command. `for_s`: seconds it has run, or seconds since its end if known. */
export type JobListing = { id: string; command: string; running: boolean; how: string; for_s: number | null };

/** `show` receives the address to open; `pasted` is the address a browser on another machine ended at. */
export type LoginQuestion = {
  root: string;
  name: string;
  session?: string | undefined;
  env: NodeJS.ProcessEnv;
  show(url: string): void;
  pasted: Promise<string>;
};

export type DoctorOptions = {
  root: string;
  configFile?: string | undefined;
  flags: ModelSettings;
  env: NodeJS.ProcessEnv;
  /** Calls the model once. */
  ask: boolean;
};

/** The result of one check. `wrong` must be fixed, `warning` may matter, `note` is for information. */
export type Finding = { what: string; is: 'ok' | 'note' | 'warning' | 'wrong'; text: string };

/** One command of agentctl. */
export type CliCommand = {
  /** The command line, as in `send <session> [text..]`. */
  usage: string;
  /** Other names of the command. */
  aliases: readonly string[];
  /** What it does, in one line. */
  describe: string;
  register(cli: Argv<GlobalOptions>, services: CliServices, ended: (exit: ExitName) => void): Argv<GlobalOptions>;
};

type CommandSpec<T> = {
  usage: string;
  aliases?: readonly string[];
  describe: string;
  builder: (cli: Argv<GlobalOptions>) => Argv<T>;
  /** Runs the command and returns the name of its exit code, if not `ok`. */
  run: (args: ArgumentsCamelCase<T>, services: CliServices) => Promise<ExitName | undefined>;
};

export function defineCommand<T extends GlobalOptions>({
  usage,
  aliases = [],
  describe,
  builder,
  run,
}: CommandSpec<T>): CliCommand {
  return {
    usage,
    aliases,
    describe,
    register: (cli, services, ended) =>
      cli.command<T>({
        command: [usage, ...aliases],
        describe,
        builder,
        handler: async (args) => ended((await run(args, services)) ?? 'ok'),
      }),
  };
}

/** The client of the selected workspace. Loaded on first use, so that `--help` is quick. */
export async function openWorkspaceClient({ workspace }: GlobalOptions): Promise<Client> {
  const { openClient } = await import('../../../client/index.ts');
  return openClient(workspaceRoot(workspace));
}

/**
 * The client of the selected workspace and the name of a session in it, which may be given by a unique prefix. Throws
 * `NoSuchSession`, or UserError where several sessions match.
 */
export async function openSession(
  args: GlobalOptions & { session: string },
): Promise<{ client: Client; session: string }> {
  const client = await openWorkspaceClient(args);
  return { client, session: resolvePrefix(client, args.session) };
}

function resolvePrefix(client: Client, given: string): string {
  try {
    client.folder(given);
    return given;
  } catch (error) {
    if (!(error instanceof NoSuchSession)) throw error;
    const matches = client.sessions().filter((name) => name.startsWith(given) || readableName(name).startsWith(given));
    // The child sessions of a match are no matches of their own.
    const [only, ...others] = matches.filter((name) => !matches.some((other) => name.startsWith(`${other}~`)));
    if (only === undefined) throw error;
    if (others.length === 0) return only;
    throw new UserError(
      `${JSON.stringify(given)} matches several sessions; name one: ${firstFew([only, ...others].map(readableName)).join(', ')}.`,
      EXIT_CODES.session.code,
    );
  }
}

/**
 * The session of that name, or the only one whose name begins with it; undefined if there is none. Throws UserError
 * where several match.
 */
export function findSession(client: Client, given: string): string | undefined {
  try {
    return resolvePrefix(client, given);
  } catch (error) {
    if (error instanceof NoSuchSession) return undefined;
    throw error;
  }
}

export const SESSION_ARG = { type: 'string', demandOption: true, describe: 'Name of the session' } as const;
/** For commands that neither create nor move nor delete the session. */
export const SESSION_PREFIX_ARG = {
  ...SESSION_ARG,
  describe: 'Name of the session, or a unique prefix of it',
} as const;
export const JSON_OPTION = { type: 'boolean', describe: 'Print JSON' } as const;
/** Arguments of a command with `--json`. */
export type JsonOptions = GlobalOptions & { json: boolean | undefined };
export const WAIT_OPTION = { type: 'boolean', describe: 'Wait for the reply and print its text' } as const;

/** Parses a whole number of 1 or more, as a `coerce` function for yargs. */
export function parseWholeNumber(flag: string): (value: number | undefined) => number | undefined {
  return (value) => {
    if (value === undefined || (Number.isSafeInteger(value) && value > 0)) return value;
    throw new Error(`${flag} takes a whole number of 1 or more.`);
  };
}

/** A command line to copy, for the workspace that was named on this one. */
export function formatCommand(words: readonly string[], { workspace }: GlobalOptions): string {
  return commandLine(workspaceRoot(workspace), words.map(stripControls));
}

/** Every exit code of agentctl, once: the code, `--help` and the docs read this table. */
export const EXIT_CODES = {
  ok: { code: 0, when: 'done; with --wait: the message was answered, or joined a run' },
  error: { code: 1, when: 'an error occurred, or the message was rejected' },
  usage: { code: 2, when: 'invalid command line' },
  daemon: { code: 3, when: 'wrong daemon state: not running, already running, or busy with the session' },
  session: { code: 4, when: 'no such session, or several match the prefix' },
  paused: { code: 5, when: 'with --wait, watch or reply: the run is paused' },
  waiting: { code: 6, when: 'with --wait, watch, reply, status --check: an answer is awaited' },
  failed: { code: 7, when: 'with --wait, watch or reply: the run failed or was cancelled' },
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
