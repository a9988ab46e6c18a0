import { expect, onTestFinished, test, vi } from 'vitest';
import { realClock } from '../../src/daemon/host/clock.ts';
import { openUnfinishedSessions, scheduleRetention } from '../../src/daemon/sessions/background-sweeps.ts';
import type { Event } from '../../src/protocol/session/event.ts';

const event = (fields: object) => ({ v: 2, seq: 1, epoch: 1, at: '2026-01-01T00:00:00.000Z', ...fields }) as Event;
const published = (fields: object) => event({ type: 'reply.published', message: '1.md', ...fields });

/** What a start of the daemon wakes among sessions with these last events. */
async function wokenOf(ends: Record<string, () => Event | undefined>): Promise<string[]> {
  const woken: string[] = [];
  const workspace = { lastEvent: async (name: string) => ends[name]?.() };
  const sessions = openUnfinishedSessions(workspace, realClock, (name) => woken.push(name));
  for (const name of Object.keys(ends)) sessions.check(name);
  sessions.start();
  await expect.poll(() => sessions.isDone()).toBe(true);
  return woken;
}

test('a start wakes the sessions with open work, an unwritten plan.json or an unreadable log, and no other', async () => {
  const woken = await wokenOf({
    empty: () => undefined,
    idle: () => published({ idle: true }),
    open: () => published({ idle: false }),
    running: () => event({ type: 'run.started', message: '1.md' }),
    unwritten: () => published({ idle: true, plan_behind: true }),
    unreadable: () => {
      throw new Error('EIO');
    },
  });
  expect(woken).toEqual(['open', 'running', 'unwritten', 'unreadable']);
});

test('expired data is removed in the next hour where the sessions could not be listed in this one', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] });
  onTestFinished(() => void vi.useRealTimers());
  const swept: string[] = [];
  const logged: string[] = [];
  let names = (): string[] => {
    throw new Error('EACCES');
  };
  const stop = scheduleRetention(
    () => names(),
    () => true,
    async (name) => swept.push(name) < 0,
    (_, text) => logged.push(text),
  );
  vi.advanceTimersByTime(3_600_000);
  await expect.poll(() => logged).toEqual(['could not check for expired data: EACCES']);
  names = () => ['demo'];
  vi.advanceTimersByTime(3_600_000);
  await expect.poll(() => swept).toEqual(['demo']);
  stop();
});
