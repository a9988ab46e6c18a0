import * as fs from 'node:fs';
import { checkSession, leftBehind, ofType, ranTwice } from '../../tests/promises/session-promises.ts';
import type { SessionHistory } from './perform.ts';
import type { Recorded } from './sessions.ts';

export type Ground = { root: string; executions: string; histories: readonly SessionHistory[] };

/** All broken promises, as text. The daemon must have ended. */
export async function broken(ground: Ground, all: readonly Recorded[]): Promise<string[]> {
  const wrong: string[] = [];
  for (const one of all) {
    const history = ground.histories.find(({ name }) => name === one.name);
    // A file that a person broke is left as it is, even if its plan was shelved meanwhile.
    const isPlanLeft = history?.wasBroken === true && one.session.plan === null;
    const found = [
      ...(history ? drops(history, one) : []),
      ...(await checkSession(ground.root, one.name, { again: 'any', isPlanLeft })),
    ];
    wrong.push(...found.map((what) => `${one.name}: ${what}`));
  }
  return [...wrong, ...ranTwice(ground.executions), ...leftBehind(ground.root)];
}

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
