import * as fs from 'node:fs';
import { resolve } from 'node:path';
import { UserError } from '../../../base/user-error.ts';
import { commandLine } from '../../../client/sessions/client-errors.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import {
  defineCommand,
  EXIT_CODES,
  JSON_OPTION,
  openSession,
  openWorkspaceClient,
  SESSION_PREFIX_ARG,
} from '../common/command.ts';
import { checkNewName } from '../common/send-and-wait.ts';
import { printDone, printJson, printNote, stripControls, toSingleLine } from '../common/terminal.ts';

export const fork = defineCommand({
  usage: 'fork <session> <at> <name>',
  describe: 'Make a new session of what this one was at the end of a step',
  builder: (cli) =>
    cli
      .positional('session', SESSION_PREFIX_ARG)
      .positional('at', { type: 'string', demandOption: true, describe: 'A step, or the number of a checkpoint' })
      .positional('name', { type: 'string', demandOption: true, describe: 'Name of the new session' })
      .option('json', JSON_OPTION)
      .example('$0 fork demo step_1 other', 'then: $0 continue other "do it in another way"'),
  async run(args) {
    checkNewName(args.name);
    const { client, session } = await openSession(args);
    const made = await client.forkSession(session, args.at, args.name);
    if (args.json) printJson(made);
    else
      printDone(`Made ${readableName(made.name)} from ${readableName(session)} as of event ${made.seq}. It is paused.`);
  },
});

export const exportCommand = defineCommand({
  usage: 'export [sessions..]',
  describe: 'Write sessions into one tar file, for import elsewhere',
  builder: (cli) =>
    cli
      .positional('sessions', { type: 'string', array: true, describe: 'Names of the sessions' })
      .option('all', { type: 'boolean', describe: 'All sessions' })
      .option('output', {
        type: 'string',
        alias: 'o',
        requiresArg: true,
        describe: 'The file to write; by default <session>.tar, or sessions.tar for several',
      })
      .option('json', JSON_OPTION),
  async run(args) {
    const client = await openWorkspaceClient(args);
    const given = [...(args.sessions ?? []), ...args._.slice(1).map(String)];
    if (given.length > 0 === (args.all === true))
      throw new UserError('Which sessions? Name them, or pass --all.', EXIT_CODES.usage.code);
    const names = args.all ? client.sessions().filter((name) => !name.includes('~')) : given;
    if (names.length === 0) throw new UserError('There are no sessions.');
    const path = resolve(args.output ?? (names.length === 1 ? `${readableName(names[0] ?? '')}.tar` : 'sessions.tar'));
    if (fs.existsSync(path)) throw new UserError(`${path} exists already. Name another file: --output FILE`);
    const tar = await client.exportSessions(names);
    await writeWhole(path, tar);
    if (args.json) printJson({ file: path, sessions: tar.sessions, left_out: tar.leftOut });
    else printDone(`Wrote ${path}: ${tar.sessions.map(({ name }) => readableName(name)).join(', ')}.`);
    for (const one of tar.leftOut) printNote(toSingleLine(`Left out: ${one}`, 1000));
  },
});

/** Under another name until it is whole and on disk. */
async function writeWhole(path: string, tar: { write(out: NodeJS.WritableStream): Promise<void> }): Promise<void> {
  const part = `${path}.part`;
  try {
    await tar.write(fs.createWriteStream(part, { flags: 'w', mode: 0o600, flush: true }));
    fs.renameSync(part, path);
  } catch (error) {
    fs.rmSync(part, { force: true });
    throw error;
  }
}

export const importCommand = defineCommand({
  usage: 'import <tar>',
  describe: 'Take the sessions from a file that export wrote; they begin paused',
  builder: (cli) =>
    cli
      .positional('tar', { type: 'string', demandOption: true, describe: 'The file' })
      .option('as', { type: 'string', requiresArg: true, describe: 'Another name, if the file has one session' })
      .option('json', JSON_OPTION),
  async run(args) {
    const client = await openWorkspaceClient(args);
    if (args.as !== undefined) checkNewName(args.as);
    const made = await client.importSessions(fs.createReadStream(resolve(args.tar)), args.as);
    if (args.json) printJson(made);
    else for (const { name } of made) printDone(`Imported ${readableName(name)}. It is paused.`);
    for (const { name } of made.filter(({ hasSettings }) => hasSettings))
      printNote(
        stripControls(
          `${readableName(name)} has settings of its own, which may allow calls and start programs. Read them before you continue it: ${commandLine(client.paths.root, ['settings', readableName(name)])}`,
        ),
      );
  },
});
