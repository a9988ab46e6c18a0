import { getOwn, mapGet } from '../../base/collections.ts';
import { errorCode, errorText, UserError } from '../../base/user-error.ts';
import { parseRunCommand } from '../../core/messages/commands.ts';
import { overtakesQueue, stopsWork } from '../../core/messages/message-actions.ts';
import { formatReplyFile, freeReplyName, replyEvent } from '../../core/messages/replies.ts';
import { classifyReappearedDrop, dropKey, type TakenDrop } from '../../core/session/session-messages.ts';
import type { Session } from '../../core/session/session-state.ts';
import type { Event } from '../../protocol/session/event.ts';
import type { FileIdentity } from '../../protocol/session/log-entry.ts';
import type { Attachment } from '../../protocol/session/message.ts';
import type { PlanEdit } from '../../protocol/session/plan-edit.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { SessionPorts } from '../ports/session-ports.ts';
import type { DroppedFile, SessionStore } from '../ports/store-ports.ts';
import type { SessionLog } from '../state/session-log.ts';
import { spillToBlob } from '../state/session-log.ts';
import {
  dataFlagOf,
  editOrderEvent,
  isSenderKnown,
  optionsFault,
  planTimedOrder,
  resolveTemplate,
} from './message-orders.ts';

/** Longest message kept inline in a log line, in code points. */
const MAX_INLINE_CHARS = 64_000;

/** Messages taken per round; other sessions get their turn between two rounds. */
const BATCH_SIZE = 64;
/** Messages that may be taken and not yet answered. Later ones wait in the inbox, and nothing is lost. */
const MAX_UNANSWERED = 256;
/** This many more may be commands and clear stops, which are handled first. */
const MAX_URGENT = 64;

type AdmissionPorts = Pick<SessionPorts, 'store' | 'hooks'>;

/**
 * Whether to check again soon: `pending`, something is not ready yet; `more`, more is ready than fits in one round;
 * `isFull`, more is there than the session has room for.
 */
export type AdmissionResult = { pending: boolean; more: boolean; isFull: boolean };

/** Whether a session that was full has room for another round. During a run it does not. */
export const canAdmitBatch = (session: Session): boolean =>
  session.run === null && countUnanswered(session) <= MAX_UNANSWERED - BATCH_SIZE;

const countUnanswered = ({ unanswered, unpublishedReplies }: Session): number =>
  unanswered.length + Object.keys(unpublishedReplies).length;

/**
 * Takes what is ready in the inbox. The commit point is the durable `message.received`; only then does the file leave
 * the inbox, so after a crash in between the file is found, recognised by its identity, and only moved. Without `room`
 * on the disk only messages that stop work are taken. Once messages are found, the rules are read again: settings that
 * were saved before a message apply to it.
 */
export async function admitMessages(
  ports: AdmissionPorts,
  sessionLog: SessionLog,
  { isFull, room, readRules }: { isFull: boolean; room: boolean; readRules: () => Promise<Rules> },
): Promise<AdmissionResult> {
  if (!room) {
    const { pending } = await admitBatch(ports, sessionLog, true, readRules, stopsWork);
    return { pending, more: false, isFull };
  }
  for (let full = isFull && !canAdmitBatch(sessionLog.session); ; ) {
    const { pending, more, areSendersKnown } = await admitBatch(ports, sessionLog, full, readRules);
    full ||= countUnanswered(sessionLog.session) > MAX_UNANSWERED - BATCH_SIZE;
    if (!areSendersKnown) return { pending, more: false, isFull };
    // Messages found together while no run is active are separate tasks: a run started in between would absorb them.
    if (!more || full || sessionLog.session.run) return { pending, more: more && !full, isFull: more && full };
  }
}

async function admitBatch(
  ports: AdmissionPorts,
  sessionLog: SessionLog,
  full: boolean,
  readRules: () => Promise<Rules>,
  goesAhead: typeof overtakesQueue = overtakesQueue,
): Promise<{ pending: boolean; more: boolean; areSendersKnown: boolean }> {
  let current = await readRules();
  const mayGoAhead = countUnanswered(sessionLog.session) < MAX_UNANSWERED + MAX_URGENT;
  const { drops, pending, more } = await ports.store.inbox.listReady({
    max: full ? 0 : BATCH_SIZE,
    ...(mayGoAhead && {
      ahead: ({ text = '', command, from }) =>
        goesAhead(sessionLog.session, {
          text,
          ...(command !== undefined && { command }),
          ...dataFlagOf(sessionLog.session, from, current),
        }),
    }),
  });
  if (drops.length > 0) current = await readRules();
  const leave: Array<() => Promise<void>> = [];
  for (const drop of drops.filter((one) => isSenderKnown(sessionLog.session, one, current)))
    leave.push(await admitFile(drop, ports, sessionLog, current));
  if (leave.length > 0) await sessionLog.sync();
  for (const one of leave) await one();
  return { pending, more, areSendersKnown: current.settingsFault === null };
}

/** Logs one drop; the returned function takes its file out of the inbox once that is durable. */
async function admitFile(
  drop: DroppedFile,
  ports: AdmissionPorts,
  sessionLog: SessionLog,
  rules: Rules,
): Promise<() => Promise<void>> {
  const { store } = ports;
  const taken = mapGet(sessionLog.session.takenDrops, dropKey(drop.identity));
  const origin = taken ? classifyReappeared(taken, drop, sessionLog.session) : 'new';
  if (taken && origin === 'left over') return finishLeaving(drop, taken, store, sessionLog.session);
  if (!drop.ok) return rejectFile(drop, drop.why, store, sessionLog);
  const { id, edit } = drop.message;
  const earlier = id === undefined ? undefined : mapGet(sessionLog.session.messages, id);
  if (earlier) {
    if (earlier.sha256 === drop.identity.sha256)
      return edit
        ? () => store.inbox.moveToDone(drop, sessionLog.session.seq, [])
        : republishReply(drop, earlier.id, ports, sessionLog);
    const why = `The id "${id}" was already used for another message. Use a new id, or send the same content.`;
    return rejectFile(drop, why, store, sessionLog);
  }
  if (taken && origin === 'unclear' && drop.name !== nameOf(taken, sessionLog.session))
    return answerUnderOtherName(drop, taken, store, sessionLog);
  if (taken && origin === 'unclear')
    return rejectFile(drop, describeTakenBefore(taken, sessionLog.session, edit !== undefined), store, sessionLog);
  if (edit) return takeEditOrder(drop, edit, store, sessionLog, rules);
  const beyond = optionsFault(drop.message, rules);
  if (beyond !== undefined) return rejectFile(drop, beyond, store, sessionLog);
  return receiveMessage(drop, store, sessionLog, rules);
}

/** A file that is in the log is also in the inbox: finds out why. */
function classifyReappeared(
  taken: TakenDrop,
  drop: DroppedFile,
  session: Session,
): ReturnType<typeof classifyReappearedDrop> {
  const message = mapGet(session.messages, taken.message);
  return classifyReappearedDrop(taken, drop, message && { name: message.name, isAnswered: message.isReplied });
}

const nameOf = ({ name, message }: TakenDrop, { messages }: Session): string =>
  name ?? mapGet(messages, message)?.name ?? message;

/** A file renamed just after it was taken: who waits under the new name is told where the result comes. */
async function answerUnderOtherName(
  drop: DroppedFile,
  taken: TakenDrop,
  store: SessionStore,
  sessionLog: SessionLog,
): Promise<() => Promise<void>> {
  const { session } = sessionLog;
  const name = freeMessageName(store, session, drop.name);
  const first = mapGet(session.messages, taken.message)?.name ?? taken.message;
  const text = `This is the message "${nameOf(taken, session)}", which was renamed after it had been taken. It runs once; outbox/${first} has the result.`;
  const reply = replyEvent(session, name, { status: 'joined', text, plan: null }, 'en');
  const seq = await sessionLog.record([{ ...reply, file: identityWithName(drop, name) }]);
  return () => store.inbox.moveToDone(drop, seq, []);
}

function describeTakenBefore({ message, seq }: TakenDrop, { messages }: Session, isEdit: boolean): string {
  const reply = mapGet(messages, message)?.name ?? message;
  const answer = isEdit ? '' : `; its reply is outbox/${reply}`;
  return (
    `This file was already processed as the message "${message}" (event ${seq}), and nothing indicates that it should run again` +
    `${answer}. To run it again, drop a copy of the file (cp).`
  );
}

/** An order to edit the plan is carried out at once. The event is its answer: it gets no reply. */
async function takeEditOrder(
  drop: DroppedFile & { ok: true },
  edit: PlanEdit,
  store: SessionStore,
  sessionLog: SessionLog,
  rules: Rules,
): Promise<() => Promise<void>> {
  const name = freeMessageName(store, sessionLog.session, drop.name);
  const order = { order: drop.message.id ?? name, file: identityWithName(drop, name) };
  const seq = await sessionLog.record([await editOrderEvent(edit, drop.message, order, sessionLog, rules)]);
  return () => store.inbox.moveToDone(drop, seq, []);
}

async function receiveMessage(
  drop: DroppedFile & { ok: true },
  store: SessionStore,
  sessionLog: SessionLog,
  rules: Rules,
): Promise<() => Promise<void>> {
  const { text = '', id, from, by, rights, command, options, attachments = [] } = drop.message;
  let files: Attachment[];
  try {
    files = await store.inbox.placeAttachments(attachments);
  } catch (error) {
    // A disk error is not the sender's fault.
    if (!(error instanceof UserError) || errorCode(error) !== undefined) throw error;
    return rejectFile(drop, errorText(error), store, sessionLog);
  }
  const places = files.map(({ path }) => path);
  const name = freeMessageName(store, sessionLog.session, drop.name);
  const as = dataFlagOf(sessionLog.session, from, rules);
  const order = parseRunCommand({ text, ...(command !== undefined && { command }) });
  const planned = as ? undefined : await planTimedOrder(drop, { id: id ?? name, session: sessionLog.session }, store);
  const fault = planned && 'fault' in planned ? planned : undefined;
  const template = fault ?? (order && !as && (await resolveTemplate(order, store.templates)));
  const seq = await sessionLog.record([
    {
      type: 'message.received',
      id: id ?? name,
      name,
      body: await spillToBlob(text, MAX_INLINE_CHARS, store.blobs),
      file: identityWithName(drop, name),
      ...(from !== undefined && { from }),
      ...(by && { by }),
      ...(rights && { rights }),
      ...as,
      ...(command !== undefined && { command }),
      ...(options && { options }),
      ...(places.length > 0 && { attachments: places, files }),
      ...(template && { template }),
      ...(planned && 'when' in planned && { planned }),
    },
  ]);
  return () => store.inbox.moveToDone(drop, seq, pairAttachments(attachments, places));
}

async function rejectFile(
  drop: DroppedFile,
  why: string,
  store: SessionStore,
  sessionLog: SessionLog,
): Promise<() => Promise<void>> {
  const name = freeMessageName(store, sessionLog.session, drop.name);
  const reply = replyEvent(sessionLog.session, name, { status: 'rejected', text: why, plan: null }, 'en');
  await sessionLog.record([{ ...reply, file: identityWithName(drop, name) }]);
  return () => store.inbox.reject(drop, why);
}

/** Already logged: only the move out of the inbox was cut short. */
function finishLeaving(
  drop: DroppedFile,
  known: TakenDrop,
  store: SessionStore,
  session: Session,
): () => Promise<void> {
  const message = mapGet(session.messages, known.message);
  if (!message || !drop.ok) {
    const why = drop.ok ? getOwn(session.unpublishedReplies, known.message)?.text : drop.why;
    return () => store.inbox.reject(drop, why ?? `It was already rejected; outbox/${known.message} says why.`);
  }
  return () =>
    store.inbox.moveToDone(drop, known.seq, pairAttachments(drop.message.attachments ?? [], message.attachments ?? []));
}

/** The same id with the same content: nothing runs, and the reply is published again. */
async function republishReply(
  drop: DroppedFile,
  id: string,
  { store, hooks }: AdmissionPorts,
  sessionLog: SessionLog,
): Promise<() => Promise<void>> {
  let reply: Reply | undefined;
  await store.eventLog.read((event: Event) => {
    if (event.type === 'reply.committed' && event.message === id) reply = event.reply;
  }, 'oldest');
  const message = mapGet(sessionLog.session.messages, id);
  if (!reply && message?.isReplied && !(await store.outbox.restore(message.name))) {
    const why = `The message "${id}" was already answered, and its reply has been removed. To run it again, use a new id.`;
    return rejectFile(drop, why, store, sessionLog);
  }
  return async () => {
    if (reply) {
      await store.outbox.republish(reply.id, formatReplyFile(reply));
      hooks?.onReply();
    }
    await store.inbox.moveToDone(drop, sessionLog.session.seq, []);
  };
}

function freeMessageName({ outbox }: SessionStore, { replyNames, messages }: Session, name: string): string {
  return freeReplyName(
    name,
    (one) => (mapGet(replyNames, one) ?? mapGet(messages, one)) !== undefined || outbox.isReserved(one),
  );
}

const identityWithName = ({ name, identity }: DroppedFile, reply: string): FileIdentity =>
  name === reply ? identity : { ...identity, name };

function pairAttachments(from: string[], to: string[]): Array<{ from: string; to: string }> {
  return from.flatMap((path, place) => (to[place] === undefined ? [] : [{ from: path, to: to[place] }]));
}
