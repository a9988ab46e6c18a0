import { createMutex } from '../../base/async.ts';
import { errorText } from '../../base/user-error.ts';
import type { ApprovalRequest } from '../../client/index.ts';
import { NoSuchSession } from '../../client/sessions/client-errors.ts';
import type { Event } from '../../protocol/session/event.ts';
import { type Reply, RUN_END } from '../../protocol/session/reply.ts';
import type { ChannelConversation, ChannelOffer } from '../../protocol/settings/channels.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';
import { type ChannelButton, type ChannelContext, isOwnMessage, keyOf, pauseAfter, splitText } from './channel.ts';
import { startChannelProgress } from './plan-progress.ts';

/** Receipts kept: more than the parts of the replies that can lie between two saves of the position. */
const MAX_RECEIPTS = 300;

/** What goes out to one conversation: the replies of its session, what waits for an answer, and the plan. */
export type Outlet = {
  offers(): readonly ChannelOffer[];
  /** An offer was answered: its buttons go away, and it says how. */
  settle(token: string, how: string): Promise<void>;
  isOver(): boolean;
  ended: Promise<void>;
};

/**
 * Follows the event log of a session from the noted position, and sends each of its replies once: a receipt is on disk
 * for every part that the service has accepted, and the position moves on only behind them. Ends with the signal, or
 * when the session is gone.
 */
export function openOutlet(context: ChannelContext, state: ChannelConversation): Outlet {
  const { client, files, signal, name, channel } = context;
  const { session } = state;
  const inOrder = createMutex();
  const save = () => inOrder(() => files.writeConversation(state));
  const progress = startChannelProgress(context, state, save);
  const sender = openSender(context, state, save);
  const { offer, settle, retire } = openOffers(context, state, { ...sender, save });
  /** Replies that are decided but not in the outbox yet, by their message. */
  const committed = new Map<string, { seq: number; reply: Reply }>();
  let isOver = false;

  async function sendReply(reply: Reply) {
    const receipt = reply.id;
    const calls = await client.approvalRequests(session);
    const { question } = reply;
    // The text of the reply has the exact call.
    const own = calls.find(({ session: of, id }) => of === session && id === reply.approval);
    await retire(calls, (await client.show(session)).session.question?.text ?? null);
    if (question && question.choices.length > 0 && channel.hasButtons) {
      const options = question.choices.map((label) => ({ label, answer: label }));
      await offer(
        receipt,
        reply.text,
        { token: keyOf(session, receipt), call: null, question: question.text },
        options,
      );
    } else if (!own) await sender.sendText(receipt, reply.text);
    if (own) await offer(receipt, reply.text, ...answersOf(own));
    else if (reply.reason === RUN_END.approval)
      for (const call of calls)
        await offer(`${receipt} ${call.session} ${call.id}`, describeCall(call), ...answersOf(call));
    for (const path of reply.attachments) await sender.sendFile(`${receipt} ${path}`, path);
  }

  async function take(event: Event) {
    if (event.type === 'run.started' || event.type === 'run.resumed') progress.begin();
    if (/^(?:plan|step)\./.test(event.type)) progress.touch();
    if (event.type === 'reply.committed') committed.set(event.message, { seq: event.seq, reply: event.reply });
    if (event.type === 'approval.answered') {
      const found = state.offers.find(({ call }) => call?.session === session && call.id === event.id);
      if (found) await settle(found.token, `(${event.decision === 'deny' ? 'denied' : 'allowed'})`);
    }
    const reply = event.type === 'reply.published' ? committed.get(event.message)?.reply : undefined;
    if (reply) await sendReply(reply);
    if (event.type === 'reply.published') committed.delete(event.message);
    const open = [...committed.values()].map(({ seq }) => seq - 1);
    state.seq = Math.min(event.seq, ...open);
    if (!reply) return;
    await save();
    if (isOwnMessage(name, reply.in_reply_to)) await client.markReplyRead(session, reply.id);
  }

  async function follow(): Promise<void> {
    for (let faults = 0; !signal.aborted; faults++) {
      try {
        // A log that lost its end goes on from an earlier event.
        state.seq = Math.min(state.seq, await client.lastSeq(session));
        committed.clear();
        for await (const { event } of client.events(session, { from: state.seq + 1, follow: true, signal })) {
          await take(event);
          faults = 0;
        }
        if (!signal.aborted) return;
      } catch (error) {
        if (signal.aborted || error instanceof NoSuchSession) return;
        context.reportFault(`replies of ${readableName(session)}: ${errorText(error)}`);
        await pauseAfter(error, faults, signal);
      }
    }
  }

  const ended = follow().finally(() => {
    isOver = true;
    progress.stop();
  });
  return { offers: () => state.offers, settle, isOver: () => isOver, ended };
}

type Noted = (handle: string) => void;
type Save = () => Promise<void>;
type Sender = ReturnType<typeof openSender>;

/** Sends each part once: what has a receipt is left out. */
function openSender(context: ChannelContext, state: ChannelConversation, save: Save) {
  const { client, channel, signal, name } = context;
  const { session, conversation } = state;

  /** Sends a part, unless there is a receipt for it. `sent` is saved together with the receipt. */
  async function once(receipt: string, text: string, send: (key: string) => Promise<string>, sent: Noted = () => {}) {
    if (state.sent.includes(receipt)) return;
    const key = keyOf(name, session, receipt);
    const handle = await context.deliver({ conversation, id: receipt, text }, () => send(key));
    if (handle !== undefined) sent(handle);
    state.sent = [...state.sent, receipt].slice(-MAX_RECEIPTS);
    await save();
  }

  /** `buttons` are below the last part. */
  async function sendText(receipt: string, text: string, buttons: ChannelButton[] = [], sent: Noted = () => {}) {
    const parts = splitText(text, channel.maxChars);
    for (const [n, part] of parts.entries()) {
      const isLast = n === parts.length - 1;
      const out = { text: part, buttons: isLast ? buttons : [] };
      const send = (key: string) => channel.send(conversation, { key, ...out }, signal);
      await once(`${receipt}#${n}`, part, send, isLast ? sent : undefined);
    }
  }

  async function sendFile(receipt: string, path: string) {
    const opened = await client.openFile(session, path.replace(/^work\//, '')).catch(() => undefined);
    if (!opened) return;
    if (opened.bytes > channel.maxFileBytes) {
      opened.close();
      return sendText(receipt, `${path} has ${opened.bytes} bytes, which is too much for a message. It stays there.`);
    }
    const content = await new Response(opened.read()).blob();
    await once(receipt, path, (key) => channel.sendFile(conversation, { key, name: opened.name, content }, signal));
  }

  return { sendText, sendFile };
}

/** What can be answered with a button or a number in one conversation. */
function openOffers(
  { channel, signal }: ChannelContext,
  state: ChannelConversation,
  { sendText, save }: Pick<Sender, 'sendText'> & { save: Save },
) {
  /** Sends something that can be answered with a button or, where there are none, with a number. */
  async function offer(
    receipt: string,
    words: string,
    what: Pick<ChannelOffer, 'token' | 'call' | 'question'>,
    answers: ReadonlyArray<{ label: string; answer: string }>,
  ) {
    const token = what.token.slice(0, 12);
    const others = state.offers.filter((one) => one.token !== token);
    const first = Math.max(0, ...others.flatMap(({ options }) => options.map(({ number }) => number))) + 1;
    const options = answers.map((one, n) => ({ ...one, number: first + n }));
    const numbered = options.map(({ number, label }) => `\n${number} ${label}`).join('');
    const text = channel.hasButtons ? words : `${words}\nReply with a number:${numbered}`;
    const buttons = options.map(({ label, number }) => ({ label, data: `${token}:${number}` }));
    await sendText(receipt, text, channel.hasButtons ? buttons : [], (handle) => {
      const shown = splitText(words, channel.maxChars).at(-1) ?? '';
      state.offers = [...others, { ...what, token, options, handle, text: shown }];
    });
  }

  async function settle(token: string, how: string): Promise<void> {
    const found = state.offers.find((one) => one.token === token);
    if (!found) return;
    state.offers = state.offers.filter((one) => one !== found);
    await save();
    const text = splitText(`${found.text}\n${how}`, channel.maxChars).at(-1) ?? how;
    // Only how it looks: what an old button does is decided when it is pressed.
    await channel.edit?.(state.conversation, found.handle, { text, buttons: [] }, signal).catch(() => undefined);
  }

  /** Offers that can no longer be answered. */
  async function retire(calls: readonly ApprovalRequest[], question: string | null) {
    for (const one of state.offers) {
      const isOpen = one.call
        ? calls.some(({ hash, session: of }) => hash === one.call?.hash && of === one.call.session)
        : one.question === question;
      if (!isOpen) await settle(one.token, '(over)');
    }
  }

  return { offer, settle, retire };
}

function describeCall({ session, tool, display, why, expires_at }: ApprovalRequest): string {
  return `Allow this call of ${readableName(session)}? ${tool}:\n${display}\n\n${why}\nDenied automatically at ${expires_at}.`;
}

function answersOf({ session, id, hash, always }: ApprovalRequest) {
  const what = { token: keyOf(session, String(id), hash), call: { session, id, hash }, question: null };
  const options = [
    { label: 'Allow', answer: 'allow' },
    ...(always === null ? [] : [{ label: `Always allow ${always}`.slice(0, 200), answer: 'always' }]),
    { label: 'Deny', answer: 'deny' },
  ];
  return [what, options] as const;
}
