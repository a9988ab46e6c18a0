import { setTimeout as wait } from 'node:timers/promises';
import { createMutex } from '../../base/async.ts';
import { errorText } from '../../base/user-error.ts';
import type { Client } from '../../client/index.ts';
import { type ChannelFiles, newChannelState } from '../../client/sessions/channel-files.ts';
import { type Channel, type ChannelContext, ChannelFault, pauseAfter } from './channel.ts';
import { openIntake } from './channel-intake.ts';
import { type Outlet, openOutlet } from './conversation-outlet.ts';

/** How often the state is written at most, in ms. */
const WRITE_EVERY_MS = 1000;

export type ChannelRun = { client: Client; name: string; channel: Channel; files: ChannelFiles; now: () => Date };

/**
 * Runs a channel until the signal aborts. Messages of paired people become files in inboxes, in order; the place in the
 * service's messages is noted only after the files are durable, and a message that comes again is the same one. Replies
 * go out once each. Faults of the service are waited out, and are in the channel's state.
 */
export async function runChannel(run: ChannelRun, signal: AbortSignal): Promise<void> {
  const { channel, files } = run;
  const release = files.lock();
  const state = await openState(run);
  const context: ChannelContext = { ...run, signal, reportFault: state.out, deliver: openDelivery(run, state, signal) };
  const outlets = new Map<string, Outlet>();
  for (const one of files.conversations()) outlets.set(one.session, openOutlet(context, one));
  const intake = openIntake({ ...context, outlets, received: state.received });
  for (let faults = 0; !signal.aborted; faults++) {
    try {
      const heard = () => {
        faults = 0;
        state.heard();
      };
      for await (const { mark, items } of channel.receive(files.readMark(), heard, signal)) {
        for (const item of items) await intake(item);
        await files.writeMark(mark);
      }
    } catch (error) {
      if (signal.aborted) break;
      state.in(errorText(error));
      await pauseAfter(error, faults, signal);
    }
  }
  await Promise.all([...outlets.values()].map(({ ended }) => ended));
  await state.stop();
  release();
}

/** What `agentctl channel status` and `agentctl status` know of the channel. */
async function openState({ files, now }: ChannelRun) {
  const state = newChannelState(now(), files.state());
  const faults: { in: string | null; out: string | null } = { in: null, out: null };
  const oneByOne = createMutex();
  let timer: NodeJS.Timeout | undefined;
  const write = () => {
    timer = undefined;
    return oneByOne(() => files.writeState(state)).catch(() => undefined);
  };
  const change = (fault: typeof faults) => {
    state.fault = fault.in ?? fault.out;
    timer ??= setTimeout(write, WRITE_EVERY_MS);
  };
  await files.writeState(state);
  return {
    heard: () => {
      state.heard_at = now().toISOString();
      change(Object.assign(faults, { in: null }));
    },
    received: () => {
      state.received_at = now().toISOString();
      change(faults);
    },
    in: (fault: string) => change(Object.assign(faults, { in: fault })),
    out: (fault: string | null) => {
      if (fault === null) state.sent_at = now().toISOString();
      change(Object.assign(faults, { out: fault }));
    },
    async stop() {
      clearTimeout(timer);
      state.stopped_at = now().toISOString();
      await write();
    },
  };
}

/** Sends for all conversations: where the service asks for a pause, all of them wait. */
function openDelivery({ files, now }: ChannelRun, state: { out(fault: string | null): void }, signal: AbortSignal) {
  let freeAt = 0;
  return async (letter: { conversation: string; id: string; text: string }, send: () => Promise<string>) => {
    for (let faults = 0; ; faults++) {
      const left = freeAt - performance.now();
      if (left > 0) await wait(left, undefined, { signal });
      signal.throwIfAborted();
      try {
        const handle = await send();
        state.out(null);
        return handle;
      } catch (error) {
        signal.throwIfAborted();
        const why = errorText(error);
        state.out(why);
        if (error instanceof ChannelFault && error.isFinal) {
          await files.bury({ ...letter, direction: 'out', why }, now());
          return undefined;
        }
        if (error instanceof ChannelFault && error.afterMs) freeAt = performance.now() + error.afterMs;
        else await pauseAfter(error, faults, signal);
      }
    }
  };
}
