import { cpSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { emptySession } from '../../src/core/session/session-state.ts';
import { snapshotFromState, stateFromSnapshot } from '../../src/core/session/snapshot.ts';
import type { Event } from '../../src/protocol/session/event.ts';
import { EventBody } from '../../src/protocol/session/event.ts';
import { decodeEventLine } from '../../src/store/event-log/event-codec.ts';
import { encodeLineWithCrc } from '../../src/store/event-log/log-lines.ts';
import { readSnapshot } from '../../src/store/event-log/snapshot-file.ts';
import { script, setup } from '../support/agentctl.ts';

const GOLDEN = 'tests/golden';
const SESSIONS = join(GOLDEN, 'workspace/.sessions');

function eventsIn(path: string): Event[] {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  return lines.map((line) => {
    const read = decodeEventLine(Buffer.from(line));
    if (!read.ok) throw new Error(`${path}: ${read.why}: ${line}`);
    // Nothing of it is lost: it would be written again as it was.
    expect(encodeLineWithCrc(read.event)).toBe(`${line}\n`);
    return read.event;
  });
}

test('an event log of 0.1.0 is read whole, with every type of event and every field', () => {
  const types = new Set<string>(eventsIn(join(GOLDEN, 'events.jsonl')).map(({ type }) => type));
  const known = EventBody.options.map((option) => option.shape.type.value);
  expect([...types].filter((type) => !known.some((one) => one === type))).toEqual([]);
  for (const name of readdirSync(SESSIONS)) expect(eventsIn(join(SESSIONS, name, 'events.jsonl'))).not.toEqual([]);
});

test.each(readdirSync(SESSIONS))('the snapshot of %s that 0.1.0 wrote is read completely', (name) => {
  const { state } = readSnapshot(join(SESSIONS, name, 'snapshot.json')) ?? {};
  const read = stateFromSnapshot(state, name);
  if (!read) throw new Error('it is not read');
  const { reducers: _, ...wanted } = Object(state);
  expect(JSON.parse(JSON.stringify(snapshotFromState(read)))).toMatchObject(wanted);
  expect(Object.keys(read.session).sort()).toEqual(Object.keys(emptySession(name)).sort());
});

test('a workspace of 0.1.0 continues where it was', async () => {
  const at = setup();
  cpSync(join(GOLDEN, 'workspace'), at.root, { recursive: true });
  const model = script(at, [
    ...JSON.parse(readFileSync(join(GOLDEN, 'script.json'), 'utf8')),
    { when: 'The step: Compare the lists', text: 'Tea costs 3 in the north and 4 in the south.' },
    { when: 'The step: Publish the difference', text: 'It is published.' },
    { asked: 'All steps have ended', text: 'The lists are compared, and the difference is published.' },
    { text: 'Counted to ten. [Done]' },
    { text: 'Ten it is. [Done]' },
  ]);
  await at.serveHere('--model', model);
  const counted = await at.here(['send', 'count', '--wait', '1']);
  expect(counted.out).toContain('Ten it is.');
  const compared = await at.here(['send', 'lists', '--wait', 'the northern list is right, continue']);
  expect(compared.out).toContain('the difference is published');
  const plan = (name: string) => JSON.parse(readFileSync(at.path('.sessions', name, 'plan.json'), 'utf8'));
  expect([plan('count').status, plan('lists').status]).toEqual(['completed', 'completed']);
  expect(plan('lists').steps.map((step: { status: string }) => step.status)).toEqual(Array(5).fill('completed'));
});
