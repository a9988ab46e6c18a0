import type { ArgumentsCamelCase, Argv } from 'yargs';
import type { Client } from '../../../client/index.ts';
import type { ModelSettings } from '../../../protocol/settings/config.ts';
import { workspaceRoot } from '../../command-line.ts';
import type { ExitName } from './exit-codes.ts';

/** Options every command has. */
export type GlobalOptions = { workspace: string | undefined };

/** What the CLI is given by the one who plugs things together, since it reaches beyond the client. */
export type CliServices = {
  /** Path of the daemon's program. */
  program: string;
  doctor: (question: DoctorOptions) => Promise<Finding[]>;
  /** Jobs of the session in a folder; `stop` names one that is ended first. */
  jobs: (folder: string, stop?: string) => Promise<JobListing[]>;
};

/** A command in the background. `for_s`: seconds it has run, or since its end where that is known. */
export type JobListing = { id: string; command: string; running: boolean; how: string; for_s: number | null };

export type DoctorOptions = {
  root: string;
  configFile?: string | undefined;
  flags: ModelSettings;
  env: NodeJS.ProcessEnv;
  /** Calls the model once. */
  ask: boolean;
};

/** One thing that was looked at. `wrong` must be mended, `warning` may matter, `note` is good to know. */
export type Finding = { what: string; is: 'ok' | 'note' | 'warning' | 'wrong'; text: string };

/** One command, told from the others only by what it says here. */
export type CliCommand = {
  /** The command line, as in `send <session> [text..]`. */
  usage: string;
  register(cli: Argv<GlobalOptions>, services: CliServices, ended: (exit: ExitName) => void): Argv<GlobalOptions>;
};

type CommandSpec<T> = {
  usage: string;
  describe: string;
  builder: (cli: Argv<GlobalOptions>) => Argv<T>;
  /** Does it and answers how it went. */
  run: (args: ArgumentsCamelCase<T>, services: CliServices) => Promise<ExitName>;
};

export function defineCommand<T extends GlobalOptions>({ usage, describe, builder, run }: CommandSpec<T>): CliCommand {
  return {
    usage,
    register: (cli, services, ended) =>
      cli.command<T>({
        command: usage,
        describe,
        builder,
        handler: async (args) => ended(await run(args, services)),
      }),
  };
}

/** The client of the workspace that is meant. Loaded only where it is used: `--help` is quick. */
export async function openWorkspaceClient({ workspace }: GlobalOptions): Promise<Client> {
  const { openClient } = await import('../../../client/index.ts');
  return openClient(workspaceRoot(workspace));
}

export const SESSION_ARG = { type: 'string', demandOption: true, describe: 'Name of the session' } as const;
export const JSON_OPTION = { type: 'boolean', describe: 'Print JSON' } as const;
/** Arguments of a command that has it. */
export type JsonOptions = GlobalOptions & { json: boolean | undefined };
export const WAIT_OPTION = {
  type: 'boolean',
  describe: 'Wait for the reply and print its text',
} as const;

/** A whole number from 1 on, as yargs' `coerce` wants it. */
export function parseWholeNumber(name: string): (value: number | undefined) => number | undefined {
  return (value) => {
    if (value === undefined || (Number.isSafeInteger(value) && value > 0)) return value;
    throw new Error(`--${name} takes a whole number of 1 or more.`);
  };
}
