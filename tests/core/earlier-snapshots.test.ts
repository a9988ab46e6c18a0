import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { listItems, mapGet } from '../../src/base/collections.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { snapshotFromState, stateFromSnapshot } from '../../src/core/session/snapshot.ts';

/**
 * The same two moments of one session, as the version that wrote this layout put them down: in the middle of a run, and idle
 * with an ended run, child sessions, a claim, a shelved plan and an open approval. These files are never changed.
 */
const kept = (layout: number): Record<'running' | 'resting', { session: object }> =>
  JSON.parse(readFileSync(`tests/core/snapshots/layout-${layout}.json`, 'utf8'));

const read = (state: unknown, name = 'demo') => {
  const found = stateFromSnapshot(state, name);
  if (!found) throw new Error('the snapshot is not read');
  return found;
};

test.each([1, 2, 3])('a snapshot of layout %i is read completely, into the fields of today', (layout) => {
  for (const moment of ['running', 'resting'] as const) {
    const { session, left } = read(kept(layout)[moment]);
    const { reducers: _, ...wanted } = JSON.parse(JSON.stringify(kept(3)[moment]));
    expect(JSON.parse(JSON.stringify(snapshotFromState({ session, left })))).toMatchObject(wanted);
    expect(Object.keys(session).sort()).toEqual(Object.keys(emptySession('demo')).sort());
  }
});

test('what a snapshot of layout 1 knows is there under the names of today', () => {
  const { session, current } = read(kept(1).resting);
  expect(current).toBe(false);
  expect(session.runEnd).toMatchObject({ message: '5.md', wasBeside: true, exitStatus: 1 });
  expect(session.children['step_4']).toMatchObject({ name: 'demo~step_4', state: 'suspended', undeliveredBefore: [] });
  expect(session.claim).toMatchObject({ nextStep: 'step_4', checks: [undefined, { state: 'ended', ok: true }] });
  expect(session.shelvedPlans['plan_1']?.goal).toBe('Count the lines');
  const shelved = session.shelvedProgress['plan_1'];
  expect(shelved?.children['step_2.1']).toMatchObject({
    name: 'demo~step_2.1',
    awaitedMessage: 'p1.md',
    messagesSent: 1,
  });
  expect(shelved?.fanOut).toMatchObject({ step: 'step_2', addedParts: 1, listedItems: 2, hasMore: true });
  expect(session.approvals).toMatchObject({ lastId: 2, denials: { 'shell\n{"command":"rm x"}': 1 } });
  expect(session.approvals.open).toMatchObject({ id: 2, queuedBefore: ['3.md'], run: { besidePlan: 'plan_0' } });
  expect(session.crashes).toMatchObject({ count: 1, lastError: 'broke again', hadOpenCall: false });
  expect(mapGet(session.messages, '3.md')).toMatchObject({ arrivedDuringRun: true, isReplied: false });
  expect(listItems(session.conversation).length).toBeGreaterThan(5);
});

test('a snapshot of layout 1 follows its session into a renamed folder', () => {
  const { session } = read(kept(1).resting, 'other');
  expect(session.name).toBe('other');
  expect(session.children['step_2']?.name).toBe('other~step_2');
});

test.each([0, 4, '1', null])('a snapshot of layout %j is not read', (layout) => {
  expect(stateFromSnapshot({ ...kept(1).resting, layout }, 'demo')).toBeUndefined();
});
