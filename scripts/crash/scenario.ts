import * as fs from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { dropMessage, sessionPaths } from '../../src/store/index.ts';

/** The session of the scenario, and the name of its script beside it. */
const SESSION = 'demo';
const SCRIPT = 'script.json';
const POLL_MS = 10;

/** The person's hand edit of the plan, which must never be lost. */
export const TOKEN = 'in blue, as Ada asked by hand';
/** The names of all files the person drops. */
export const DROPPED = ['1.msg.md', '2.md', '3.json', '4.json'];
/** The lines the two commands of the plan write, each at most once. */
export const COMMAND_LINES = ['once-1', 'once-2'];

export type ScenarioPaths = ReturnType<typeof scenarioPaths>;

export const scenarioPaths = (root: string) => ({
  root,
  script: join(root, SCRIPT),
  session: SESSION,
  ...sessionPaths(join(root, '.sessions', SESSION)),
});

const shell = (command: string) => [{ name: 'shell', args: { command } }];

/** The second command prints enough to need a blob. */
const ANSWERS = [
  { text: '[Step] Write the first line\n[Step] Write the second line', calls: shell('echo once-1 >> executions') },
  { text: 'The first line is there. [Done]', calls: shell('echo once-2 >> executions; seq 1 6000') },
  { text: 'The second line is there. [Done]' },
  { text: '[Step] Say hello', calls: shell('cat uploads/note.txt') },
  { text: 'Hello to you too. [Done]' },
];

/** A workspace with a script for the model, a limit of two iterations, and the first message in its inbox. */
export async function prepareWorkspace(root: string): Promise<ScenarioPaths> {
  const paths = writeSettings(root);
  fs.mkdirSync(paths.folder, { recursive: true, mode: 0o700 });
  await dropFirstMessage(paths);
  return paths;
}

/** Settings for a small disk: no space is kept free or in reserve. */
export const SMALL_DISK = { disk: { min_free_mb: 0, reserve_mb: 0 } };

/** A workspace with a script for the model and a limit of two iterations; no session yet. */
export function writeSettings(root: string, settings: object = {}): ScenarioPaths {
  const paths = scenarioPaths(root);
  fs.writeFileSync(paths.script, JSON.stringify(ANSWERS));
  fs.writeFileSync(
    join(root, 'agentd.json'),
    JSON.stringify({ version: 1, sandbox: 'none', limits: { iterations: 2 }, ...settings }),
  );
  return paths;
}

/** The first message, dropped the safe way. */
export const dropFirstMessage = (paths: ScenarioPaths) =>
  dropMessage(paths.folder, { name: DROPPED[0] ?? '', content: 'Write two lines, one after the other' });

/**
 * Performs the person's actions once each, however often the daemon dies: waits for the pause, consumes that reply,
 * edits the plan, says "continue", then sends a message with an id and an attachment, and a file that is not a message.
 * The third message begins another plan, so that the first one is shelved.
 */
export async function actAsPerson(paths: ScenarioPaths, signal: AbortSignal): Promise<void> {
  const [first = '', second = '', third = '', fourth = ''] = DROPPED;
  const reply = (name: string) => until(() => fs.existsSync(join(paths.outbox, name)), signal);
  await reply(first);
  await saveByRename(paths, await planText(paths, signal));
  fs.renameSync(join(paths.outbox, first), join(paths.outboxRead, first));
  fs.writeFileSync(join(paths.inbox, second), 'continue\n');
  await reply(second);
  fs.writeFileSync(join(paths.inboxFiles, 'note.txt'), 'a note');
  const message = { id: 'third-1', text: 'Say hello', attachments: ['.files/note.txt'] };
  fs.writeFileSync(join(paths.inbox, third), JSON.stringify(message));
  fs.writeFileSync(join(paths.inbox, fourth), '{ no message');
  await reply(third);
  await reply(fourth);
}

async function planText(paths: ScenarioPaths, signal: AbortSignal): Promise<string> {
  await until(() => fs.existsSync(paths.plan), signal);
  return fs.readFileSync(paths.plan, 'utf8');
}

/** Saves the way most editors do. */
async function saveByRename(paths: ScenarioPaths, text: string): Promise<void> {
  const edited = text.replace('"description": "Write the second line"', `"description": "Write a line ${TOKEN}"`);
  if (edited === text) throw new Error(`the plan has no second step to edit: ${text}`);
  const beside = `${paths.plan}.swp`;
  fs.writeFileSync(beside, edited);
  fs.renameSync(beside, paths.plan);
}

async function until(holds: () => boolean, signal: AbortSignal): Promise<void> {
  while (!holds()) {
    signal.throwIfAborted();
    await sleep(POLL_MS);
  }
}
