import * as fs from 'node:fs';
import { join } from 'node:path';
import { rebuildFiles } from '../../src/client/actions/session-admin.ts';
import { formatReplyFile } from '../../src/core/messages/replies.ts';
import { Plan } from '../../src/protocol/session/plan.ts';
import { sessionPaths } from '../../src/store/index.ts';
import { textOf } from '../../tests/model/person.ts';
import { ofType } from '../crash/check.ts';
import { changedEnds } from './ended-steps.ts';
import type { SessionHistory } from './perform.ts';
import type { Recorded } from './sessions.ts';

export type Ground = { root: string; executions: string; histories: readonly SessionHistory[] };

/** All broken promises, as text. The daemon must have ended. */
export async function broken(ground: Ground, all: readonly Recorded[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const one of all) {
    const history = ground.histories.find(({ name }) => name === one.name);
    const found = [
      ...(history ? drops(history, one) : []),
      ...replies(ground.root, one),
      ...calls(one),
      ...changedEnds(one),
      ...(await plan(ground.root, one, history?.wasBroken === true)),
    ];
    wrong.push(...found.map((what) => `${one.name}: ${what}`));
  }
  return [
    ...wrong,
    ...twice(linesOf(ground.executions)).map((line) => `${line} ran more than once`),
    ...litter(ground.root),
  ];
}

const linesOf = (path: string): string[] => (textOf(path) ?? '').split('\n').filter(Boolean);

const twice = (all: readonly string[]): string[] => [...new Set(all.filter((one, at) => all.indexOf(one) !== at))];

/** Each dropped file is one message, or was refused with a reason; a file with a known id is neither. */
function drops({ dropped, paths }: SessionHistory, { events }: Recorded): string[] {
  const received = ofType(events, 'message.received');
  const refused = fs.readdirSync(paths.rejected).filter((name) => name.endsWith('.why.json'));
  const wrong: string[] = [];
  for (const id of new Set(dropped.flatMap(({ id }) => id ?? []))) {
    const times = received.filter((event) => event.id === id).length;
    if (times !== 1) wrong.push(`the message with the id ${id} was received ${times} times`);
  }
  for (const name of new Set(dropped.flatMap(({ name, id }) => (id === undefined ? [name] : [])))) {
    const wanted = dropped.filter((one) => one.name === name).length;
    const taken = received.filter((event) => baseOf(event.name) === name && event.id === event.name).length;
    const not = refused.filter((why) => baseOf(why.replace(/\.why\.json$/, '')) === name).length;
    if (taken + not !== wanted) wrong.push(`${name}: dropped ${wanted} times, received ${taken}, refused ${not} times`);
  }
  return wrong;
}

/** The name under which a file was dropped; a name that is used again gets a number. */
const baseOf = (name: string): string => name.replace(/-\d+(?=\.|$)/, '');

/** Each message has one reply in the event log and one file with its bytes; a second file only for a repeated id. */
function replies(root: string, { name, events, session }: Recorded): string[] {
  const { outbox, outboxRead } = sessionPaths(join(root, '.sessions', name));
  const received = ofType(events, 'message.received');
  const committed = ofType(events, 'reply.committed');
  const published = ofType(events, 'reply.published').map(({ message }) => message);
  const wrong = [
    ...twice(received.map(({ id }) => id)).map((id) => `${id} was received twice`),
    ...twice(committed.map(({ message }) => message)).map((id) => `${id} was answered twice`),
    ...twice(published).map((id) => `the reply to ${id} was published twice`),
    ...received.filter(({ id }) => !committed.some((one) => one.message === id)).map(({ id }) => `${id} has no reply`),
  ];
  for (const { reply } of committed) {
    const texts = [outbox, outboxRead].map((folder) => textOf(join(folder, reply.id)));
    if (texts.every((text) => text === undefined)) wrong.push(`${reply.id}: no reply file`);
    for (const text of texts)
      if (text !== undefined && text !== formatReplyFile(reply))
        wrong.push(`${reply.id}: its reply is not what was committed`);
  }
  const known = new Set(committed.map(({ reply }) => reply.id));
  for (const folder of [outbox, outboxRead])
    for (const entry of fs.readdirSync(folder, { withFileTypes: true }))
      if (entry.isFile() && !known.has(entry.name)) wrong.push(`a reply to nobody: ${entry.name}`);
  if (session.plan?.status === 'running') wrong.push('its plan is "running" though nothing runs');
  return wrong;
}

/** A call that is not safe to repeat begins and ends once; no call succeeds that never began. */
function calls({ events }: Recorded): string[] {
  const started = ofType(events, 'tool.started');
  const unsafe = started.filter(({ replay }) => replay === 'never').map(({ call }) => call);
  const ended = [...ofType(events, 'tool.finished'), ...ofType(events, 'tool.interrupted')].map(({ call }) => call);
  const begun = new Set(started.map(({ call }) => call));
  return [
    ...twice(unsafe).map((call) => `the call ${call} was begun twice`),
    ...twice(ended).map((call) => `the call ${call} ended twice`),
    ...unsafe.filter((call) => !ended.includes(call)).map((call) => `the call ${call} has no end`),
    ...ofType(events, 'tool.finished')
      .filter(({ call, ok }) => ok && !begun.has(call))
      .map(({ call }) => `the call ${call} went well, but never began`),
  ];
}

/** `plan.json` is the plan of the event log, and rebuilding changes nothing. */
async function plan(root: string, { name, session }: Recorded, wasBroken: boolean): Promise<string[]> {
  const paths = sessionPaths(join(root, '.sessions', name));
  const text = textOf(paths.plan);
  const wrong: string[] = [];
  // A file that a person broke is left as it is, even if its plan was shelved meanwhile.
  const isLeft = wasBroken && session.plan === null;
  if (!isLeft && (text === undefined) !== (session.plan === null))
    wrong.push('there is a plan in the event log or on disk, not both');
  try {
    if (text !== undefined && !isLeft) Plan.parse(JSON.parse(text));
  } catch (error) {
    wrong.push(`plan.json is no plan: ${String(error).slice(0, 300)}`);
  }
  const files = await rebuildFiles({ ...paths, name });
  const changed = files.filter(({ is, path }) => is !== 'unchanged' && !(isLeft && path === 'plan.json'));
  return [...wrong, ...changed.map(({ path, is, why = '' }) => `rebuild: ${path} ${is} ${why}`)];
}

/**
 * Temporary files that nothing will remove any more. Those of senders in `inbox/.tmp/`, and sessions that were being
 * made or removed when a daemon was killed, are removed once they are old.
 */
function litter(root: string): string[] {
  const names = fs.readdirSync(root, { recursive: true, encoding: 'utf8' });
  const left = names.filter((name) => !name.startsWith('.sessions/.tmp-'));
  return left.filter((name) => /(?:^|\/)\.tmp-|(?<!inbox\/)\.tmp\/./.test(name)).map((name) => `left behind: ${name}`);
}
