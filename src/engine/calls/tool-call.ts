import { getOwn } from '../../base/collections.ts';
import { truncateMiddle } from '../../base/strings.ts';
import { errorText, isDiskFull } from '../../base/user-error.ts';
import type { Decision } from '../../core/runs/decision.ts';
import { checkCallKey, isCheckKey } from '../../core/session/internal-calls.ts';
import type { TurnCall } from '../../core/session/run-state.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { MAX_INLINE_CHARS, type StoredText } from '../../protocol/session/log-entry.ts';
import type { ImageFile } from '../../protocol/session/message.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { Blobs } from '../ports/store-ports.ts';
import { type SessionLog, spillToBlob } from '../state/session-log.ts';

/**
 * Removes the folders of calls whose end is durable, and ends what still runs of them, such as a command stopped while
 * no daemon was running. What cannot be ended is logged, and its folder stays. Finished jobs are ended as well.
 */
export async function cleanUpCalls(ports: SessionPorts, sessionLog: SessionLog): Promise<void> {
  const { store, tools, log } = ports;
  try {
    await endCancelledJobs(ports, sessionLog);
    const ended = (await store.calls.list()).filter((call) => !keysOfOpenCalls(sessionLog.session).includes(call));
    if (ended.length === 0) return;
    await sessionLog.sync();
    for (const call of ended) {
      const left = await tools.endLeftovers(store.calls.pathOf(call));
      if (left === 'ended') log('warn', `ended leftover processes of the call ${call}`);
      if (left === 'runs') log('error', `a process of the call ${call}, which has ended, cannot be ended`);
      else await store.calls.remove(call);
    }
  } catch (error) {
    // Leftover folders are no reason to stop; a log that cannot be written fails at the next append.
    log('warn', `could not remove call folders yet: ${errorText(error)}`);
  }
}

/** Ends what was running in the background when the session was cancelled or reset; that event is on disk first. */
async function endCancelledJobs({ jobs, log }: SessionPorts, sessionLog: SessionLog): Promise<void> {
  const { jobsEndSeq } = sessionLog.session;
  if (!jobs || jobsEndSeq === 0) return;
  await sessionLog.sync();
  const ended = await jobs.end(jobsEndSeq);
  if (ended.length > 0) log('info', `ended with the session's cancel or fresh start: ${ended.join(', ')}`);
}

/** Keys of calls that have started and have no end in the log. */
function keysOfOpenCalls({ turn, claim }: Session): string[] {
  const calls = (turn?.calls ?? []).filter((call) => call.state === 'started').map((call) => call.key);
  const checks = (claim?.checks ?? []).flatMap((check, n) =>
    claim && check?.state === 'started' ? [checkCallKey(claim, n)] : [],
  );
  return [...calls, ...checks];
}

/**
 * Runs one tool call: logged before it starts and when it has ended. A call that an earlier daemon started is restarted
 * only if it is safe and the permission gate still allows it (`mayBegin`): otherwise its result is fetched, or it is
 * logged that nobody knows the result. An aborted call is left open for the caller, who knows why. `offered`: the tools
 * that the model may call.
 */
export async function runToolCall(
  { call }: Decision & { do: 'act' },
  ports: SessionPorts,
  sessionLog: SessionLog,
  signal: AbortSignal,
  { mayBegin, offered }: { mayBegin: boolean; offered: readonly string[] },
): Promise<EventBody[]> {
  const { store, tools, clock } = ports;
  const { run } = sessionLog.session;
  const folderOfWork = workFolderOf(sessionLog.session, call);
  const work = await store.work(folderOfWork);
  // A call that may run twice may also be repeated after a crash: it need not wait for the disk.
  if (tools.replayPolicy(call.name) === 'never') {
    await sessionLog.sync();
    ports.owner.check();
  }
  const began = clock.elapsed();
  const context = {
    work,
    ...(folderOfWork !== undefined && { top: await store.work(undefined) }),
    folder: store.calls.pathOf(call.key),
    signal,
    mayBegin,
    offered,
    blob: (hash: string) => store.blobs.get(hash),
    ...(run && { jobs: run.limits.jobs, reach: run.reach ?? [] }),
  };
  const isOpen = call.state === 'started' && (call.replay !== 'safe' || !mayBegin);
  try {
    const result = await (isOpen
      ? tools.resume(call, context)
      : tools.run({ name: call.name, args: call.args }, context));
    if (!result)
      return [
        {
          type: 'tool.interrupted',
          call: call.key,
          outcome: 'unknown',
          why: 'the daemon ended while it ran, or this session was moved or copied',
        },
      ];
    const output = await storeOutput(result.text, store.blobs);
    const { ok, exit, sha256 } = result;
    const images = imagesFromRoot(folderOfWork, result.images);
    const ms = Math.round(clock.elapsed() - began);
    const facts = { ...images, ...(exit !== undefined && { exit }), ...(sha256 !== undefined && { sha256 }) };
    return [{ type: 'tool.finished', call: call.key, ok, output, ms, ...facts }];
  } catch (error) {
    if (signal.aborted) return [];
    throw error;
  }
}

/** The folder of a call under `work/`: a check of a child's work runs where that child worked. */
export function workFolderOf({ run, claim, children }: Session, call: TurnCall): string | undefined {
  return (isCheckKey(call.key) ? getOwn(children, claim?.step ?? '')?.folder : undefined) ?? run?.folder;
}

/** Images of a call by their paths under the session's `work/`. */
function imagesFromRoot(folder: string | undefined, images: ImageFile[] = []): { images?: ImageFile[] } {
  if (images.length === 0) return {};
  return { images: images.map((one) => (folder === undefined ? one : { ...one, path: `${folder}/${one.path}` })) };
}

/**
 * The result of a call cannot be produced twice: if the disk has no room for a long text, its beginning and end are
 * kept.
 */
async function storeOutput(text: string, blobs: Blobs): Promise<StoredText> {
  try {
    return await spillToBlob(text, MAX_INLINE_CHARS, blobs);
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    return { text: truncateMiddle(text, MAX_INLINE_CHARS, 'not kept, there was no room for it on the disk') };
  }
}
