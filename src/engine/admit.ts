import { goesAhead } from '../core/answers.ts';
import { dropKey, type TakenDrop, whatReappeared } from '../core/drops.ts';
import { freeName } from '../core/ids.ts';
import { entryOf } from '../core/keyed.ts';
import { replyText, replyTo } from '../core/reply.ts';
import { isOrder } from '../core/senders.ts';
import type { Session } from '../core/session.ts';
import { fillTemplate } from '../core/template/fill.ts';
import { type RunOrder, runOrder } from '../core/template/order.ts';
import type { Rules } from '../protocol/config.ts';
import { errorCode, errorText, UserError } from '../protocol/errors.ts';
import type { Event, FileIdentity, MessageTemplate } from '../protocol/event.ts';
import type { Attached } from '../protocol/images.ts';
import { own } from '../protocol/own.ts';
import type { Reply } from '../protocol/reply.ts';
import { cut } from './cut.ts';
import type { Ledger } from './ledger.ts';
import type { Drop, SessionStore, Templates } from './ports.ts';

/** Longest message kept in a line of the record, in code points. */
const MESSAGE_LIMIT = 64_000;

/** `unknown`: the settings that say whose messages are orders do not hold. */
type Senders = Rules['senders'] | 'unknown';

/** Messages taken in one round, between two of which other sessions have their turn. */
const ROUND = 64;
/** Messages that may be taken and not yet answered. What comes then waits in the inbox, and nothing is lost. */
const ROOM = 256;
/** So many more may be commands and clear stops, which go before their turn. */
const AHEAD = 64;

/**
 * Whether there is reason to look again soon: `pending`, something is not ready yet; `more`, more is ready than fits in one
 * round; `held`, more is there than there is room for.
 */
export type Admitted = { pending: boolean; more: boolean; held: boolean };

/** Whether a session that was full has room for another round. A run hears only what came in before it was full. */
export const hasRoom = (session: Session): boolean => session.run === null && waiting(session) <= ROOM - ROUND;

const waiting = ({ unanswered, unpublished }: Session): number => unanswered.length + Object.keys(unpublished).length;

/**
 * Takes what is ready in the inbox. The commit point is the durable `message.received`; only then does the file leave the
 * inbox, so a crash in between finds it again, knows it by its identity, and only repeats the leaving.
 */
export async function admit(
  store: SessionStore,
  ledger: Ledger,
  { held, senders }: { held: boolean; senders: Senders },
): Promise<Admitted> {
  for (let full = held && !hasRoom(ledger.session); ; ) {
    const { pending, more } = await round(store, ledger, full, senders);
    full ||= waiting(ledger.session) > ROOM - ROUND;
    if (senders === 'unknown') return { pending, more: false, held };
    // What was found together while no run is on are tasks of their own: a run that began in between would take them along.
    if (!more || full || ledger.session.run) return { pending, more: more && !full, held: more && full };
  }
}

async function round(
  store: SessionStore,
  ledger: Ledger,
  full: boolean,
  senders: Senders,
): Promise<{ pending: boolean; more: boolean }> {
  const mayGoAhead = waiting(ledger.session) < ROOM + AHEAD;
  const { drops, pending, more } = await store.inbox.look({
    max: full ? 0 : ROUND,
    ...(mayGoAhead && {
      ahead: ({ text = '', command, from }) =>
        goesAhead(ledger.session, {
          text,
          ...(command !== undefined && { command }),
          ...asData(ledger, from, senders),
        }),
    }),
  });
  const leave: Array<() => Promise<void>> = [];
  for (const drop of drops.filter((one) => isKnown(ledger, one, senders)))
    leave.push(await take(drop, store, ledger, senders));
  if (leave.length > 0) await ledger.sync();
  for (const one of leave) await one();
  return { pending, more };
}

/** Puts one drop on record; the answer takes its file out of the inbox once that is durable. */
async function take(drop: Drop, store: SessionStore, ledger: Ledger, senders: Senders): Promise<() => Promise<void>> {
  const taken = entryOf(ledger.session.drops, dropKey(drop.identity));
  const is = taken ? reappeared(taken, drop, ledger.session) : 'new';
  if (taken && is === 'left over') return again(drop, taken, store, ledger.session);
  if (!drop.ok) return refuse(drop, drop.why, store, ledger);
  const { id } = drop.message;
  const earlier = id === undefined ? undefined : entryOf(ledger.session.messages, id);
  if (earlier) {
    if (earlier.sha256 === drop.identity.sha256) return republish(drop, earlier.id, store, ledger);
    return refuse(
      drop,
      `The id "${id}" was used before for another message. Wanted: a new id, or the same content.`,
      store,
      ledger,
    );
  }
  if (taken && is === 'unclear') return refuse(drop, takenBefore(taken, ledger.session), store, ledger);
  return receive(drop, store, ledger, senders);
}

/** A file that is on record stands in the inbox: what it is now. */
function reappeared(taken: TakenDrop, drop: Drop, session: Session): ReturnType<typeof whatReappeared> {
  const message = entryOf(session.messages, taken.message);
  return whatReappeared(taken, drop, message && { name: message.name, isAnswered: message.replied });
}

function takenBefore({ message, seq }: TakenDrop, { messages }: Session): string {
  const reply = entryOf(messages, message)?.name ?? message;
  return (
    `This very file was taken before, as the message "${message}" (event ${seq}), and nothing shows that it is meant once more; ` +
    `its reply is outbox/${reply}. Wanted: a new file. To have it done again, drop a copy of it (cp).`
  );
}

async function receive(
  drop: Drop & { ok: true },
  store: SessionStore,
  ledger: Ledger,
  senders: Senders,
): Promise<() => Promise<void>> {
  const { text = '', id, from, command, options, attachments = [] } = drop.message;
  let files: Attached[];
  try {
    files = await store.inbox.place(attachments);
  } catch (error) {
    // A disk that says no is not the sender's fault.
    if (!(error instanceof UserError) || errorCode(error) !== undefined) throw error;
    return refuse(drop, errorText(error), store, ledger);
  }
  const places = files.map(({ path }) => path);
  const name = nameFor(store, ledger.session, drop.name);
  const as = asData(ledger, from, senders);
  const order = runOrder({ text, ...(command !== undefined && { command }) });
  const template = order && !as && (await templateFor(order, store.templates));
  const seq = await ledger.record([
    {
      type: 'message.received',
      id: id ?? name,
      name,
      body: await cut(text, MESSAGE_LIMIT, store.blobs),
      file: fileOf(drop, name),
      ...(from !== undefined && { from }),
      ...as,
      ...(command !== undefined && { command }),
      ...(options && { options }),
      ...(places.length > 0 && { attachments: places, files }),
      ...(template && { template }),
    },
  ]);
  return () => store.inbox.settle(drop, seq, paired(attachments, places));
}

/** Of a sender who gives no orders here. Decided once: what the settings say later changes nothing of this message. */
const asData = ({ session }: Ledger, from: string | undefined, senders: Senders): { as: 'data' } | undefined =>
  isOrder(session.name, from, senders === 'unknown' ? [] : senders) ? undefined : { as: 'data' };

/** A message stays in the inbox as long as nobody knows whether its sender gives orders here. */
const isKnown = (ledger: Ledger, drop: Drop, senders: Senders): boolean =>
  senders !== 'unknown' || !drop.ok || asData(ledger, drop.message.from, senders) === undefined;

/** The template a message runs, as it is at this moment: an edit that comes later changes nothing of this run. */
async function templateFor({ name, args }: RunOrder, templates: Templates): Promise<MessageTemplate> {
  if (name === '') {
    const known = (await templates.names()).join(', ') || 'none yet; put one into templates/ of the workspace';
    return { fault: `Wanted: /run <template> [name=value …]. Templates: ${known}.` };
  }
  const found = await templates.read(name);
  return found.ok ? fillTemplate(found.template, args) : { fault: found.why };
}

async function refuse(drop: Drop, why: string, store: SessionStore, ledger: Ledger): Promise<() => Promise<void>> {
  const name = nameFor(store, ledger.session, drop.name);
  const reply = replyTo(ledger.session, name, { status: 'rejected', text: why, plan: null }, 'en');
  await ledger.record([{ ...reply, file: fileOf(drop, name) }]);
  return () => store.inbox.refuse(drop, why);
}

/** On record already: only the leaving was cut short. */
function again(drop: Drop, known: TakenDrop, store: SessionStore, session: Session): () => Promise<void> {
  const message = entryOf(session.messages, known.message);
  if (!message || !drop.ok) {
    const why = drop.ok ? own(session.unpublished, known.message)?.text : drop.why;
    return () => store.inbox.refuse(drop, why ?? `It was refused before; outbox/${known.message} says why.`);
  }
  return () => store.inbox.settle(drop, known.seq, paired(drop.message.attachments ?? [], message.attachments ?? []));
}

/** The same id with the same content: nothing runs, and the reply that was given is put in place again. */
async function republish(drop: Drop, id: string, store: SessionStore, ledger: Ledger): Promise<() => Promise<void>> {
  let reply: Reply | undefined;
  await store.journal.read((event: Event) => {
    if (event.type === 'reply.committed' && event.message === id) reply = event.reply;
  }, 'oldest');
  const message = entryOf(ledger.session.messages, id);
  if (!reply && message?.replied && !(await store.outbox.restore(message.name))) {
    return refuse(
      drop,
      `The message "${id}" was answered before, and its reply is kept no longer. Wanted: a new id, if it is to be done again.`,
      store,
      ledger,
    );
  }
  return async () => {
    if (reply) await store.outbox.publishAgain(reply.id, replyText(reply));
    await store.inbox.settle(drop, ledger.session.seq, []);
  };
}

function nameFor({ outbox }: SessionStore, { names, messages }: Session, name: string): string {
  return freeName(
    name,
    (one) => (entryOf(names, one) ?? entryOf(messages, one)) !== undefined || outbox.isReserved(one),
  );
}

const fileOf = ({ name, identity }: Drop, reply: string): FileIdentity =>
  name === reply ? identity : { ...identity, name };

function paired(from: string[], to: string[]): Array<{ from: string; to: string }> {
  return from.flatMap((path, place) => (to[place] === undefined ? [] : [{ from: path, to: to[place] }]));
}
