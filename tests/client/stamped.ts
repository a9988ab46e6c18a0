import type { Event, EventBody } from '../../src/protocol/session/event.ts';

/** Events as they would stand in an event log, a second apart. */
export function stamped(bodies: readonly EventBody[]): Event[] {
  return bodies.map((body, place) => ({
    ...{ v: 2, seq: place + 1, epoch: 1, at: new Date(Date.UTC(2026, 0, 2, 3, 4, place)).toISOString() },
    ...body,
  }));
}

const limits = { iterations: 50, step_iterations: 5 };

/** A run with a plan of these steps, the first of them begun: events 1 to 4 + n + 1. */
export function planOf(...descriptions: string[]): EventBody[] {
  return [
    { type: 'session.opened', format: 1, key: 'demo' },
    messageReceived('1.md', 'Do it'),
    { type: 'run.started', message: '1.md', limits: {}, mode: 'linear' },
    { type: 'plan.started', id: 'plan_1', goal: 'Do it', mode: 'linear', limits },
    ...descriptions.map((description, place): EventBody => {
      return { type: 'step.added', by: 'model', step: { id: `step_${place + 1}`, description, status: 'pending' } };
    }),
    { type: 'step.started', step: 'step_1' },
  ];
}

export const messageReceived = (id: string, text: string, command?: string): EventBody => ({
  type: 'message.received',
  id,
  name: id,
  body: { text },
  ...(command !== undefined && { command }),
  file: { ino: id, mtime_ns: '1', ctime_ns: '1', sha256: id },
});

/** The daemon's answer to a message. */
export const answered = (message: string): EventBody => ({
  type: 'reply.committed',
  message,
  reply: {
    ...{ id: message, in_reply_to: message, session: 'demo', status: 'done', text: 'So it is.' },
    ...{ plan: null, usage: null, attachments: [] },
  },
});

export const edit = (...changes: Extract<EventBody, { type: 'plan.edited' }>['changes']): EventBody => ({
  type: 'plan.edited',
  by: 'person',
  changes,
  ignored: [],
});
