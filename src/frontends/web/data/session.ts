import { signal, useSignal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import type { ApprovalRequest } from '../../../client/inspect/approval-requests.ts';
import type { SessionDetails } from '../../../client/inspect/session-details.ts';
import type { MessageOptions } from '../../../protocol/session/message.ts';
import type { Plan } from '../../../protocol/session/plan.ts';
import type { SessionStanding, Usage, UserQuestion } from '../../../protocol/session/reply.ts';
import { words } from '../text/wording.ts';
import {
  ApiProblem,
  readEarlierEvents,
  readEventStream,
  requestJson,
  type StreamMessage,
  sendOnce,
  sessionPath,
  Unreachable,
} from './api.ts';
import { createTranscript, type Transcript } from './transcript.ts';

type Copied = 'name' | 'title' | 'unserved' | 'inbox' | 'waiting' | 'rejected' | 'waits';

/** The fields of `GET /api/sessions/{session}` that the page uses. */
export type SessionView = Pick<SessionDetails, Copied> & {
  given_title: string | null;
  standing: SessionStanding;
  plan: Plan | null;
  plan_problem: string | null;
  settings_problem: string | null;
  workspace_problem: string | null;
  folder_problems: readonly string[];
  run: { since: string; spent: Usage; limits: { iterations: number } } | null;
  run_end: { status: string; reason: string; text: string; spent: Usage } | null;
  question: UserQuestion | null;
  browser: { open: boolean; taken: SessionDetails['session']['browserHold'] };
  work: { last: number; restored_for: string | null; steps: SessionDetails['session']['stepCheckpoints'] };
};

/** A call that waits for approval, in the session or one of its child sessions. */
export type WaitingCall = ApprovalRequest;

/** The session on screen. */
export type OpenSession = {
  name: string;
  view: SessionView | undefined;
  approvals: readonly WaitingCall[];
  transcript: Transcript;
  /** Why it cannot be shown. */
  problem: ApiProblem | undefined;
};

export const openSession = signal<OpenSession | undefined>(undefined);
/** Incremented with each change of the transcript, which is changed in place. */
export const transcriptVersion = signal(0);
/** Why the last action was refused. */
export const actionProblem = signal<string | undefined>(undefined);

let closing = new AbortController();

/** Shows another session: its state, and its event log as it grows. */
export function showSession(name: string | undefined): void {
  if (openSession.peek()?.name === name) return;
  closing.abort();
  closing = new AbortController();
  actionProblem.value = undefined;
  if (name === undefined) {
    openSession.value = undefined;
    return;
  }
  const transcript = createTranscript();
  openSession.value = { name, view: undefined, approvals: [], transcript, problem: undefined };
  transcriptVersion.value++;
  void follow(name, transcript, closing.signal);
}

/** How many events are read at first, and each time a reader asks for earlier ones. */
const EVENTS = { first: 60, more: 400 };

/**
 * Events are shown in batches, once none has arrived for `pause`, but after `most` at the latest, so that a long log is
 * not rendered over and over while it is read.
 */
const GATHER_MS = { pause: 16, most: 250 };

async function follow(name: string, transcript: Transcript, signal: AbortSignal): Promise<void> {
  const refresh = createRefresh(name, signal);
  // The first events trigger reading the state. A session without events needs this timer.
  const none = setTimeout(refresh, GATHER_MS.most);
  signal.addEventListener('abort', () => clearTimeout(none));
  // On return to the page, files may have changed without an event, such as those in `rejected/`.
  addEventListener('focus', refresh, { signal });
  let gathered: StreamMessage[] = [];
  let since = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const show = () => {
    const messages = gathered;
    gathered = [];
    if (!signal.aborted) takeMessages(name, transcript, messages, refresh);
  };
  const gather = (messages: StreamMessage[]) => {
    clearTimeout(none);
    if (gathered.length === 0) since = performance.now();
    gathered.push(...messages);
    clearTimeout(timer);
    const most = transcript.last === 0 ? 0 : since + GATHER_MS.most - performance.now();
    timer = setTimeout(show, Math.min(GATHER_MS.pause, most));
  };
  try {
    await readEventStream(name, EVENTS.first, gather, signal);
  } catch (error) {
    update(name, { problem: error instanceof ApiProblem ? error : new ApiProblem(0, String(error)) });
  }
}

let earlier = Promise.resolve();

/** Reads earlier events; one request at a time. */
export function readEarlier(): Promise<void> {
  earlier = earlier.then(addEarlier);
  return earlier;
}

async function addEarlier(): Promise<void> {
  const { name, transcript } = openSession.peek() ?? {};
  if (name === undefined || transcript?.first === undefined) return;
  try {
    if (transcript.takeEarlier(await readEarlierEvents(name, transcript.first, EVENTS.more, closing.signal)))
      transcriptVersion.value++;
  } catch (error) {
    if (openSession.peek()?.transcript === transcript) actionProblem.value = describeProblem(error);
  }
}

function takeMessages(name: string, transcript: Transcript, messages: StreamMessage[], refresh: () => void): void {
  for (const message of messages) {
    // For example if the event log cannot be read.
    if (message.event === 'problem') update(name, { problem: new ApiProblem(500, Object(message.data).detail) });
    else transcript.take(message);
  }
  if (messages.some(({ event }) => event !== 'heartbeat')) transcriptVersion.value++;
  if (messages.some(({ id, event }) => id !== undefined || event === 'void')) refresh();
}

/** The pause between two reads of the state. */
const REFRESH_MS = 100;

/** Reads the state again. At most one request is pending; if the state changes meanwhile, one more follows. */
function createRefresh(name: string, signal: AbortSignal): () => void {
  let [isReading, isStale] = [false, false];
  const refresh = async (): Promise<void> => {
    isStale = true;
    if (isReading) return;
    isReading = true;
    while (isStale && !signal.aborted) {
      isStale = false;
      await readState(name, signal);
      await new Promise((later) => setTimeout(later, REFRESH_MS));
    }
    isReading = false;
  };
  return () => void refresh();
}

async function readState(name: string, signal: AbortSignal): Promise<void> {
  try {
    const [view, approvals] = await Promise.all([
      requestJson<SessionView>(sessionPath(name), { signal }),
      requestJson<WaitingCall[]>(sessionPath(name, '/approvals'), { signal }),
    ]);
    update(name, { view, approvals, problem: undefined });
  } catch (error) {
    if (error instanceof ApiProblem) update(name, { problem: error });
  }
}

function update(name: string, changes: Partial<OpenSession>): void {
  const shown = openSession.peek();
  if (shown?.name === name) openSession.value = { ...shown, ...changes };
}

/** Performs an action on the session on screen. If it is refused, shows why beside the composer and returns false. */
export async function act(action: () => Promise<void>): Promise<boolean> {
  actionProblem.value = undefined;
  try {
    await action();
    return true;
  } catch (error) {
    actionProblem.value = describeProblem(error);
    return false;
  } finally {
    const name = openSession.peek()?.name;
    if (name !== undefined) await readState(name, closing.signal);
  }
}

export function describeProblem(error: unknown): string {
  if (error instanceof Unreachable) return words.value.lost;
  return error instanceof Error ? error.message : String(error);
}

/** Whether "continue" resumes a run: while a question or a call waits, an answer does. */
export const canResume = ({ view }: OpenSession): boolean =>
  view?.question === null && view.waits?.say.includes('continue') === true;

type PageCommand = 'continue' | 'pause' | 'stop' | 'cancel' | 'undo' | 'undo-files';

export const sendCommand = (session: string, command: PageCommand): Promise<boolean> =>
  act(() => sendOnce(sessionPath(session, `/${command}`), {}));

/** Makes the files in `work/` what they were at a checkpoint. False if it was refused. */
export const restoreFiles = (session: string, at: number): Promise<boolean> =>
  act(() => sendOnce(sessionPath(session, '/restore'), { at: String(at) }));

/** Takes over the browser, or gives it back. False if it was refused. */
export const orderBrowser = (session: string, order: 'take' | 'return'): Promise<boolean> =>
  act(async () => {
    await requestJson(sessionPath(session, '/browser'), { method: 'POST', body: { do: order } });
  });

/** Uploads any files and sends the message with them. False if it was refused. */
export const sendMessage = (
  session: string,
  text: string,
  { files, options }: { files?: () => Promise<string[]>; options?: MessageOptions | undefined } = {},
): Promise<boolean> =>
  act(async () => {
    const attachments = (await files?.()) ?? [];
    await sendOnce(sessionPath(session, '/messages'), {
      ...(text !== '' && { text }),
      ...(options && Object.keys(options).length > 0 && { options }),
      ...(attachments.length > 0 && { attachments }),
    });
  });

export const answerApproval = (
  { session, id, hash }: WaitingCall,
  decision: 'allow' | 'deny' | 'always',
): Promise<boolean> => act(() => sendOnce(sessionPath(session, `/approvals/${id}`), { hash, decision }));

/** `problem`: why loading failed. */
type Answer<T> = { value: T | undefined; problem: string | undefined };

/** Loads a value, and loads it again when one of `reasons` changes; the previous value stays meanwhile. */
export function useAnswer<T>(load: (ends: AbortSignal) => Promise<T>, reasons: readonly unknown[]): Answer<T> {
  const answer = useSignal<Answer<T>>({ value: undefined, problem: undefined });
  useEffect(() => {
    const ends = new AbortController();
    load(ends.signal).then(
      (value) => {
        if (!ends.signal.aborted) answer.value = { value, problem: undefined };
      },
      (error: unknown) => {
        if (!ends.signal.aborted) answer.value = { value: undefined, problem: describeProblem(error) };
      },
    );
    return () => ends.abort();
  }, reasons);
  return answer.value;
}

/** Loads what the API answers at a path, and again when the path or `reason` changes. */
export const useJson = <T>(path: string, reason?: unknown): Answer<T> =>
  useAnswer((signal) => requestJson<T>(path, { signal }), [path, reason]);

const TICK_MS = 1000;

/** The current time, updated as long as `goesOn`. */
export function useNow(goesOn: boolean): number {
  const now = useSignal(Date.now());
  useEffect(() => {
    now.value = Date.now();
    if (!goesOn) return;
    const timer = setInterval(() => {
      now.value = Date.now();
    }, TICK_MS);
    return () => clearInterval(timer);
  }, [goesOn]);
  return now.value;
}
