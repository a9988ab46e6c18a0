import { isCheck } from '../core/claim.ts';
import type { Decision } from '../core/decide.ts';
import { tokensOf } from '../core/prompt/elide.ts';
import { requestMessages } from '../core/prompt/request.ts';
import { activePlan, type Call, runningStep, type Session } from '../core/session.ts';
import type { Rules } from '../protocol/config.ts';
import { isFull } from '../protocol/errors.ts';
import type { EventBody, Recorded } from '../protocol/event.ts';
import type { ImageFile } from '../protocol/images.ts';
import { own } from '../protocol/own.ts';
import { headAndTail, INLINE_LIMIT } from '../protocol/recorded.ts';
import { cut } from './cut.ts';
import type { Ledger } from './ledger.ts';
import { toolsFor } from './offered-tools.ts';
import { type Blobs, type ChatMessage, ModelFault, type ModelRequest, type World } from './ports.ts';
import { tidyCalls } from './tidy-calls.ts';

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 60_000;
/** An endpoint that answers, but never to the point, costs tokens each time. */
const MALFORMED_TRIES = 4;
/** An endpoint may ask for a longer pause than ours, up to this. */
const LONGEST_WISH_MS = 3_600_000;

/** The pause before the next try of a call that failed `attempt` times in a row: doubled each time, a minute at most. */
export function pauseAfter(attempt: number): number {
  return Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt - 1, 20));
}

/** One model call. Whatever comes of it is one event; the signal ends it within moments. */
export async function think(
  decision: Decision & { do: 'think' },
  world: World,
  ledger: Ledger,
  rules: Rules,
  signal: AbortSignal,
): Promise<EventBody[]> {
  const { session } = ledger;
  const { carry, consult } = decision;
  let messages: ChatMessage[] = [];
  let began = world.clock.elapsed();
  world.store.live.begin();
  await ledger.sync();
  await tidyCalls(world, ledger);
  try {
    const notices = consult
      ? []
      : [
          ...(await world.tools.ready({ work: () => world.store.work(session.run?.folder), signal })),
          ...(world.jobs?.news() ?? []),
        ];
    const tools = consult ? [] : toolsFor(session, world, rules);
    messages = ledger.step('building a request', () =>
      requestMessages(session, rules, carry, { consult, tools: { names: tools.map(({ name }) => name), notices } }),
    );
    began = world.clock.elapsed();
    const image: ModelRequest['image'] = (one) => world.store.image(one);
    const request = { messages, tools, model: session.run?.model, image };
    const answer = await world.model.ask(request, { signal, onText: (delta) => world.store.live.write(delta) });
    if (!consult) world.jobs?.told();
    const ms = Math.round(world.clock.elapsed() - began);
    const step = runningStep(activePlan(session))?.id;
    return [
      {
        type: 'model.answered',
        ...answer,
        ms,
        carried: decision.carry,
        seen: session.seq,
        ...(step !== undefined && { step }),
        ...(decision.consult && { consult: decision.consult, calls: [] }),
      },
    ];
  } catch (error) {
    const attempt = (session.run?.failure?.last.attempt ?? 0) + 1;
    const failed = failure(error, { attempt, now: world.clock.now(), signal, messages });
    return [{ ...failed, ms: Math.round(world.clock.elapsed() - began) }];
  }
}

/** Where a call works, under `work/`: a check of what a child did, where that child worked. */
export function folderOf({ run, claim, children }: Session, call: Call): string | undefined {
  return (isCheck(call.key) ? own(children, claim?.step ?? '')?.folder : undefined) ?? run?.folder;
}

/** Images of a call by their paths under the session's `work/`. */
function shownFrom(folder: string | undefined, images: ImageFile[] = []): { images?: ImageFile[] } {
  if (images.length === 0) return {};
  return { images: images.map((one) => (folder === undefined ? one : { ...one, path: `${folder}/${one.path}` })) };
}

type Failed = Extract<EventBody, { type: 'model.failed' }>;

type Tried = { attempt: number; now: Date; signal: AbortSignal; messages: readonly ChatMessage[] };

function failure(error: unknown, { attempt, now, signal, messages }: Tried): Failed {
  if (signal.aborted) return { type: 'model.failed', kind: 'aborted', error: 'stopped', attempt, retry_at: null };
  if (!(error instanceof ModelFault)) throw error;
  if (error.kind === 'too_long') return tooLong(error, { attempt, now, messages });
  const hopeless = error.kind === 'malformed' && attempt >= MALFORMED_TRIES;
  const pause = error.retry && !hopeless ? Math.min(error.waitMs ?? pauseAfter(attempt), LONGEST_WISH_MS) : null;
  const retry_at = pause === null ? null : new Date(now.getTime() + pause).toISOString();
  return { type: 'model.failed', kind: error.kind, error: error.message, attempt, retry_at };
}

/** Tries to get a request under a window that is learned by being refused. */
const SHORTER_TRIES = 5;

/** What was sent is more than the window, whatever our rough count of its tokens says: the next request is shorter. */
function tooLong(error: ModelFault, { attempt, now, messages }: Omit<Tried, 'signal'>): Failed {
  const sent = messages.reduce((sum, message) => sum + tokensOf(message), 0);
  const window = Math.max(1, Math.floor(Math.min(error.window ?? sent, sent * 0.8)));
  const retry_at = attempt < SHORTER_TRIES ? now.toISOString() : null;
  return { type: 'model.failed', kind: 'too_long', error: error.message, attempt, retry_at, window };
}

/** What came of a call cannot be had again: where the disk has no room for all of a long text, its ends are kept. */
async function kept(text: string, blobs: Blobs): Promise<Recorded> {
  try {
    return await cut(text, INLINE_LIMIT, blobs);
  } catch (error) {
    if (!isFull(error)) throw error;
    return { text: headAndTail(text, INLINE_LIMIT, 'not kept, there was no room for it on the disk') };
  }
}

/**
 * One tool call: on record before it begins and when it has ended. One that an earlier daemon began is not begun again unless
 * it is safe, and the gate lets it through as it is now (`mayBegin`): its result is taken, or it is put on record that nobody
 * knows. An aborted one is left open, for whoever knows why.
 */
export async function act(
  { call }: Decision & { do: 'act' },
  world: World,
  ledger: Ledger,
  signal: AbortSignal,
  mayBegin = true,
): Promise<EventBody[]> {
  const { store, tools, clock } = world;
  const { run } = ledger.session;
  const work = await store.work(folderOf(ledger.session, call));
  // A call that may run twice may also be repeated by a crash: it need not wait for the disk.
  if (tools.replay(call.name) === 'never') {
    await ledger.sync();
    world.owner.check();
  }
  const began = clock.elapsed();
  const context = {
    work,
    folder: store.calls.folder(call.key),
    signal,
    mayBegin,
    blob: (hash: string) => store.blobs.get(hash),
    ...(run && { jobs: run.limits.jobs }),
  };
  const isOpen = call.state === 'started' && (call.replay !== 'safe' || !mayBegin);
  try {
    const result = await (isOpen
      ? tools.resume(call, context)
      : tools.run({ name: call.name, args: call.args }, context));
    if (!result)
      return [{ type: 'tool.interrupted', call: call.key, outcome: 'unknown', why: 'the daemon ended while it ran' }];
    const output = await kept(result.text, store.blobs);
    const { ok, exit } = result;
    const images = shownFrom(folderOf(ledger.session, call), result.images);
    const ms = Math.round(clock.elapsed() - began);
    return [{ type: 'tool.finished', call: call.key, ok, output, ms, ...images, ...(exit !== undefined && { exit }) }];
  } catch (error) {
    if (signal.aborted) return [];
    throw error;
  }
}
