import { expect, test } from 'vitest';
import { reduceEvent } from '../../src/core/reducers/reduce-event.ts';
import { emptySession } from '../../src/core/session/session-state.ts';
import { snapshotFromState, stateFromSnapshot } from '../../src/core/session/snapshot.ts';
import type { Event, EventBody } from '../../src/protocol/session/event.ts';
import { COMPLETED_BY } from '../../src/protocol/session/plan.ts';
import fc from '../support/property.ts';
import { bare } from '../support/same-session.ts';

const limits = { iterations: 50, step_iterations: 5 };
const word = fc.string({ maxLength: 6 });
const step = fc.constantFrom('step_1', 'step_2', 'mine');
const id = fc.constantFrom('1.md', '2.json', 'id-3', '__proto__', 'constructor');
const reply = (of: string) => ({
  id: of,
  in_reply_to: of,
  session: 'demo',
  status: 'done' as const,
  text: 'so',
  plan: null,
  usage: null,
  attachments: [],
});
const file = fc.record({
  ino: fc.nat(9).map(String),
  mtime_ns: fc.nat(9).map(String),
  ctime_ns: fc.nat(9).map(String),
  sha256: fc.constantFrom('a1', 'b2'),
});

/** Events in no sensible order: the reducers take them all, and a snapshot has to as well. */
const body: fc.Arbitrary<EventBody> = fc.oneof(
  fc.record({ id, text: word, file, files: fc.boolean() }).map(
    ({ id, text, file, files }): EventBody => ({
      type: 'message.received',
      id,
      name: `${id}.md`,
      body: { text },
      file,
      ...(files && { attachments: ['uploads/a'] }),
    }),
  ),
  id.map((message): EventBody => ({ type: 'run.started', message, limits, mode: 'linear' })),
  id.map((message): EventBody => ({ type: 'run.resumed', message, by: 'person', limits })),
  fc.record({ delivered: fc.array(id, { maxLength: 2 }), calls: fc.nat(2), text: word }).map(
    ({ delivered, calls, text }): EventBody => ({
      type: 'model.answered',
      text,
      calls: Array.from({ length: calls }, (_, n) => ({ id: `c${n}`, name: 'shell', args: '{"command":"x"}' })),
      usage: { tokens: 3, cost: null },
      model: 'm',
      ms: 1,
      delivered,
      seen: 0,
    }),
  ),
  fc
    .nat(40)
    .map((seq): EventBody => ({ type: 'tool.started', call: `${seq}.0`, name: 'shell', args: '{}', replay: 'never' })),
  fc
    .nat(40)
    .map(
      (seq): EventBody => ({ type: 'tool.finished', call: `${seq}.check2`, ok: true, output: { text: 'o' }, ms: 1 }),
    ),
  fc
    .nat(40)
    .map((seq): EventBody => ({ type: 'tool.finished', call: `${seq}.0`, ok: true, output: { text: 'o' }, ms: 1 })),
  fc.constant<EventBody>({ type: 'plan.started', id: 'plan_1', goal: 'g', mode: 'linear', limits }),
  step.map((id): EventBody => ({ type: 'step.added', by: 'model', step: { id, description: id, status: 'pending' } })),
  step.map((id): EventBody => ({ type: 'step.started', step: id })),
  fc
    .record({ step, tier: fc.constantFrom(...COMPLETED_BY) })
    .map((it): EventBody => ({ type: 'step.claimed', ...it, evidence: 'e' })),
  fc.record({ step, message: id }).map((it): EventBody => ({ type: 'step.reopened', by: 'person', ...it })),
  fc.constantFrom<EventBody>(
    { type: 'context.compacted', upto: 0, summary: '' },
    { type: 'context.compacted', upto: 0, summary: 'so far', kept: 1 },
    { type: 'plan.ended', plan: 'plan_1', status: 'paused', reason: 'shelved' },
    { type: 'recovery.started', open: [], after: 'error', error: 'x' },
    { type: 'daemon.stopped', open: [] },
  ),
  id.map(
    (message): EventBody => ({
      type: 'run.ended',
      message,
      status: 'waiting',
      reason: 'check',
      text: '',
      spent: { iterations: 1, tokens: 1, cost: null },
    }),
  ),
  fc.record({ message: id, refused: fc.boolean(), file }).map(
    ({ message, refused, file }): EventBody => ({
      type: 'reply.committed',
      message,
      reply: reply(`${message}.md`),
      ...(refused && { file }),
    }),
  ),
  id.map((message): EventBody => ({ type: 'reply.published', message, idle: false })),
);

const stamped = (bodies: EventBody[]): Event[] =>
  bodies.map((one, n) => ({ v: 2, seq: n + 1, epoch: 1, at: new Date(1_767_600_000_000 + n).toISOString(), ...one }));

test('whatever an event log holds, a snapshot at any place of it and the rest give what the whole gives', () => {
  fc.assert(
    fc.property(fc.array(body, { maxLength: 40 }), fc.nat(40), (bodies, at) => {
      const events = stamped(bodies);
      const before = events.slice(0, at).reduce(reduceEvent, emptySession('demo'));
      const text = JSON.stringify(snapshotFromState({ session: before, left: null }));
      const back = stateFromSnapshot(JSON.parse(text), 'demo');
      if (!back) throw new Error('it is not read back');
      expect(bare(back.session)).toEqual(bare(before));
      const rest = events.slice(at);
      expect(bare(rest.reduce(reduceEvent, back.session))).toEqual(bare(rest.reduce(reduceEvent, before)));
    }),
    { numRuns: 500 },
  );
});
