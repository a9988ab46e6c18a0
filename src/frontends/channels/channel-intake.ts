import { isDiskFull, UserError } from '../../base/user-error.ts';
import { approvalMessage } from '../../client/actions/messaging.ts';
import type { Client } from '../../client/index.ts';
import { findAnsweredCall, isApprovalAnswer } from '../../client/inspect/approval-requests.ts';
import { NoSuchSession } from '../../client/sessions/client-errors.ts';
import type { ChannelConversation, ChannelOffer, ChannelPerson } from '../../protocol/settings/channels.ts';
import { ApprovalDecision } from '../../protocol/settings/permissions.ts';
import { restrictClient } from '../http/access/restricted-client.ts';
import { HttpProblem } from '../http/common/http-problem.ts';
import { type ChannelContext, ChannelFault, type Incoming, keyOf, messageIdOf } from './channel.ts';
import { type Outlet, openOutlet } from './conversation-outlet.ts';

/** After so many failures in a row a message is given up, unless the disk is full. */
const MAX_FAILURES = 5;

/** `key` names the session also before its folder, `session`, is there. */
type Item = Incoming & { key: string; session: string; messageId: string };

type Intake = ChannelContext & { outlets: Map<string, Outlet>; received: () => void };

/** Takes what came in: when it resolves, that is durable or refused. */
export function openIntake(on: Intake): (item: Incoming) => Promise<void> {
  const failures = new Map<string, number>();
  return async (item: Incoming): Promise<void> => {
    try {
      await take(on, item);
      await item.done?.().catch(() => undefined);
    } catch (error) {
      on.signal.throwIfAborted();
      const count = (failures.get(item.id) ?? 0) + 1;
      failures.set(item.id, count);
      // The service delivers it, so a file of it that cannot be fetched is no outage.
      const mayGiveUp = error instanceof ChannelFault || (error instanceof UserError && !isDiskFull(error));
      if (!mayGiveUp || count < MAX_FAILURES) throw error;
      const { conversation, id, text } = item;
      await on.files.bury({ direction: 'in', conversation, id, text, why: error.message }, on.now());
      await tell(on, item, `Your message was not taken: ${error.message}`);
    }
    failures.delete(item.id);
  };
}

async function tell(on: Intake, { conversation, id }: Incoming, text: string): Promise<void> {
  const out = { key: keyOf(on.name, 'told', id), text, buttons: [] };
  await on.channel.send(conversation, out, on.signal).catch(() => undefined);
}

async function greet(on: Intake, item: Incoming): Promise<void> {
  if (!(await item.isPrivate())) return;
  const found = await on.files.newCode(item.person, on.now());
  if (!found) return;
  const { code } = found;
  await tell(
    on,
    item,
    `I do not take messages from you yet. The owner of this workspace can change that within an hour:\n\nagentctl channel pair ${on.name} ${code}`,
  );
}

/** Starts what goes out to the conversation, from now on. Its record is on disk before its first message. */
async function follow(on: Intake, { session, conversation }: Item): Promise<() => void> {
  const known = on.outlets.get(session);
  if (known && !known.isOver()) return () => undefined;
  const seq = await on.client.lastSeq(session).catch(ifMissing(0));
  const begin: ChannelConversation = { version: 1, conversation, session, seq, sent: [], offers: [], progress: null };
  await on.files.writeConversation(begin);
  return () => void on.outlets.set(session, openOutlet(on, begin));
}

/** Whether a message was dropped before, in the session or one of its child sessions. */
async function isKnown(on: Intake, { session, messageId }: Item): Promise<boolean> {
  const family = await Promise.resolve()
    .then(() => on.client.withChildren(session))
    .catch(ifMissing<string[]>([]));
  for (const one of family)
    if ((await on.client.sentMessages(one, messageId)).some(({ id }) => id === messageId)) return true;
  return false;
}

async function choose(
  on: Intake,
  item: Item,
  mine: Client,
  person: ChannelPerson,
  offer: ChannelOffer,
  answer: string,
) {
  const { session, messageId: id } = item;
  if (offer.call) {
    const calls = await on.client.approvalRequests(session);
    const { session: of, hash, id: number } = offer.call;
    const asked = calls.find((one) => one.session === of && one.id === number && one.hash === hash);
    if (!asked) return tell(on, item, 'That call does not wait any more.');
    const decision = ApprovalDecision.parse(answer);
    await mine.sendOnce(of, { ...approvalMessage(asked, hash, decision), id }, { mustExist: true });
  } else {
    if ((await on.client.show(session)).session.question?.text !== offer.question)
      return tell(on, item, 'That question is not open any more.');
    await mine.sendOnce(session, { text: answer, id }, { mustExist: true });
  }
  await on.outlets.get(session)?.settle(offer.token, `(${answer}: ${person.name})`);
}

async function drop(on: Intake, item: Item, mine: Client): Promise<void> {
  const { key, session, messageId: id, text } = item;
  const offers = on.outlets.get(session)?.offers() ?? [];
  const answered = await findAnsweredCall(on.client, key, { text });
  if (typeof answered === 'object' && isApprovalAnswer({ text })) {
    const isShown = offers.some(({ call }) => call?.hash === answered.hash && call.id === answered.id);
    if (!isShown)
      return tell(on, item, 'Not passed on: the call that waits now has not been shown here yet. Answer when it is.');
  }
  const attachments: string[] = [];
  for (const file of item.files) {
    try {
      attachments.push((await mine.upload(key, file.name, await file.open())).attachment);
    } catch (error) {
      if (!(error instanceof ChannelFault && error.isFinal)) throw error;
      await tell(on, item, `${file.name} was not taken: ${error.message}.`);
    }
  }
  if (text.trim() === '' && attachments.length === 0) return;
  const begin = await follow(on, item);
  await mine.sendOnce(key, { ...(text.trim() !== '' && { text }), attachments, id });
  begin();
  on.received();
}

async function take(on: Intake, given: Incoming): Promise<void> {
  const person = on.files.people().find(({ id }) => id === given.person.id);
  if (!person) return greet(on, given);
  const { refusal } = given;
  const key = `${on.name}:${given.conversation}`;
  const session = on.client.sessionName(key);
  const item: Item = { ...given, key, session, messageId: messageIdOf(on.name, refusal?.about ?? given.id) };
  if (refusal) {
    if (refusal.about === undefined || (await isKnown(on, item))) await tell(on, given, refusal.text);
    return;
  }
  if (await isKnown(on, item)) return;
  const mine = restrictClient(on.client, tokenOf(person, session), () => true);
  try {
    const pressed = findOption(on.outlets.get(session)?.offers() ?? [], item, on.channel.hasButtons);
    if (pressed) await choose(on, item, mine, person, ...pressed);
    else if (item.choice !== undefined) await tell(on, item, 'That is not open any more.');
    else await drop(on, item, mine);
  } catch (error) {
    // What this person may not do.
    if (!(error instanceof HttpProblem)) throw error;
    await tell(on, item, `Not passed on: you may not do that (${error.parts.wanted}).`);
  }
}

/** The option that a button or, where there are none, a number stands for. */
function findOption(
  offers: readonly ChannelOffer[],
  { choice, text }: Incoming,
  hasButtons: boolean,
): [ChannelOffer, string] | undefined {
  for (const offer of offers)
    for (const { number, answer } of offer.options)
      if (choice === `${offer.token}:${number}` || (!hasButtons && text.trim() === `${number}`)) return [offer, answer];
  return undefined;
}

/** What a person may do: as the holder of a token, in their own conversation; an admin is not restricted to it. */
const tokenOf = ({ name, role, since }: ChannelPerson, session: string) => ({
  ...{ name, role, sessions: [role === 'admin' ? '*' : session], sha256: '', created_at: since ?? '' },
});

const ifMissing =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof NoSuchSession) return value;
    throw error;
  };
