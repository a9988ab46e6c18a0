import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import { clip } from '../protocol/recorded.ts';
import { visible } from '../protocol/visible.ts';
import { commandOf, type Kind, spokenText } from './commands.ts';
import { consentOf } from './consent.ts';
import type { Due } from './decide.ts';
import { denialKey } from './fold-approval.ts';
import { entryOf } from './keyed.ts';
import { nameOfStandIn, replyTo } from './reply.ts';
import { restEvents, type Why } from './rest.ts';
import { SAYINGS } from './sayings.ts';
import type { Approval, Call, Message, Session } from './session.ts';
import { sessionLanguage } from './session-language.ts';

/** Denials of one call in a run, the last of which rests it: a model that does not take a no has to be helped by a person. */
const MOST_DENIALS = 3;
/** Code points of a call that a reply shows. */
const SHOWN = 2000;

/** The run rests over a call that waits for a person. Its calls stay open, and its reply says what is asked. */
export function restOver(session: Session, rules: Rules): EventBody[] {
  const { open } = session.approvals;
  if (!session.run || !open) return [];
  const text = askedText(session, rules, open);
  return restEvents(session, rules, { status: 'waiting', reason: 'approval', text, keeps: true });
}

/** What a person is asked: the call to the letter, why, and how to answer. */
function askedText(session: Session, rules: Rules, { id, name, why, shows, always, expires_at }: Approval): string {
  const words = SAYINGS[sessionLanguage(session, rules)];
  const whole = visible(shows);
  const call = clip(whole, SHOWN);
  const lines = call.split('\n').map((line) => `    ${line}`);
  const cut = call === whole ? [] : [words.asksCut(id)];
  const parts = [words.asks(id, name, why), [...lines, ...cut].join('\n'), words.asksHow(id, always, expires_at)];
  return visible(parts.join('\n\n'));
}

/** Nobody has answered by then. */
export function unanswered(session: Session): { due?: Due } {
  const { open } = session.approvals;
  if (!open) return {};
  return { due: { at: open.expires_at, events: answers(session, { decision: 'deny', by: 'nobody', why: NOBODY }) } };
}

/** What the model is told where nobody answered in time. */
export const NOBODY = 'denied: nobody answered';
export const BY_PERSON = 'denied: a person said no';
const BY_OTHER_WORDS = 'not approved: the person wrote something else instead, see their message';
const WITHDRAWN = 'denied: a person had other wishes before it was answered';

type Said = Pick<Extract<EventBody, { type: 'approval.answered' }>, 'decision' | 'by' | 'why'> & {
  always?: string | null;
  message?: Message;
  joins?: boolean;
};

/**
 * The answer to the call that waits, as events. What the run comes to is told by the reply to the message that answered; where none
 * did, one that stands for it gets that reply.
 */
export function answers(session: Session, { decision, by, why, always, message, joins }: Said): EventBody[] {
  const { open } = session.approvals;
  if (!open) return [];
  return [
    {
      type: 'approval.answered',
      ...{ call: open.call, id: open.id, decision, by, why },
      ...(always && { always }),
      ...(message ? { message: message.id } : standIn(session, open)),
      ...(joins && { joins }),
    },
  ];
}

/** A message that waits for its reply still gets it; a reply that was given cannot be given again. */
function standIn(session: Session, { id, run }: Approval): { message?: string; name?: string } {
  const asked = entryOf(session.messages, run?.message ?? '');
  if (!asked?.replied) return {};
  const name = nameOfStandIn(session, `approval-${id}`, asked.name);
  return { message: name, name };
}

/** What a message means for the call that waits; null where it means nothing, or none waits. */
export function answerTo(session: Session, message: Message, kind: Kind, rules: Rules): EventBody[] | null {
  const { open } = session.approvals;
  if (!open || session.run) return null;
  switch (kind) {
    case 'approve':
    case 'deny':
      return ordered(session, message, kind, rules);
    case 'task':
    case 'continue':
      return spoken(session, message, kind, rules);
    case 'pause':
    case 'stop':
    case 'cancel':
    case 'new':
      // The run goes on for a moment, and meets the message.
      return [{ ...withdrawn(open), type: 'approval.answered' }];
    case 'run':
      return answers(session, { decision: 'deny', by: 'withdrawn', why: WITHDRAWN });
    case 'undo':
    case 'status':
    case 'plan':
    case 'mode':
    case 'help':
    case 'told':
      return null;
    default:
      return kind satisfies never;
  }
}

const withdrawn = ({ call, id }: Approval) => ({
  ...{ call, id, decision: 'deny' as const, by: 'withdrawn' as const, why: WITHDRAWN },
});

/** `/approve 3 always`, `/deny 3`. */
function ordered(session: Session, message: Message, kind: 'approve' | 'deny', rules: Rules): EventBody[] {
  const { open } = session.approvals;
  const words = (commandOf(message)?.rest ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const named = words.find((word) => word !== 'always');
  if (named !== undefined && named !== String(open?.id)) {
    const language = sessionLanguage(session, rules);
    const text = SAYINGS[language].notThatOne(named, open?.id ?? 0);
    return [replyTo(session, message.id, { status: 'rejected', text }, language)];
  }
  if (kind === 'deny') return answers(session, { decision: 'deny', by: 'person', why: BY_PERSON, message });
  const always = words.includes('always') ? (open?.always ?? null) : null;
  return answers(session, { decision: 'allow', by: 'person', why: '', always, message });
}

/** Plain words: a yes, a no, or something else, which is a no and is told to the model. */
function spoken(session: Session, message: Message, kind: 'task' | 'continue', rules: Rules): EventBody[] {
  const { open } = session.approvals;
  const said = spokenText(message);
  const consent = message.attachments ? null : consentOf(said);
  if (consent === 'deny') return answers(session, { decision: 'deny', by: 'chat', why: BY_PERSON, message });
  if (consent !== null) {
    const always = consent === 'always' ? (open?.always ?? null) : null;
    return answers(session, { decision: 'allow', by: 'chat', why: '', always, message });
  }
  if (kind === 'continue' && open) {
    const text = askedText(session, rules, open);
    const facts = { status: 'waiting' as const, reason: 'approval', text, approval: open.id };
    return [replyTo(session, message.id, facts, sessionLanguage(session, rules))];
  }
  return answers(session, { decision: 'deny', by: 'chat', why: BY_OTHER_WORDS, message, joins: true });
}

/** A rule's no: nobody is asked. */
export function denyByRule(call: string, why: string): EventBody {
  return { type: 'approval.answered', call, decision: 'deny', by: 'rule', why: `denied: ${why}` };
}

/** Messages that were written without knowing of the call that waits: plain words of theirs do not answer it, and wait with it. */
export function waitsWithIt(session: Session, message: Message, kind: Kind | null): boolean {
  const { open } = session.approvals;
  return open !== null && (kind === 'task' || kind === 'continue') && open.unseen.includes(message.id);
}

/** The verdict on a call that has not begun; null where nobody has given one. */
export function verdictOn({ approvals: { last } }: Session, { key }: Pick<Call, 'key'>) {
  return last?.call === key ? last : null;
}

/** A call that may not run is answered: the model is told, and goes on from there. */
export function refusal(session: Session, call: Call): EventBody[] {
  const last = call.state === 'asked' ? verdictOn(session, call) : null;
  if (last?.verdict.decision !== 'deny') return [];
  return [{ type: 'tool.finished', call: call.key, ok: false, output: { text: last.verdict.why }, ms: 0 }];
}

/** The same call denied so often that it is no use to go on. */
export function deniedAgain(session: Session, rules: Rules): Why | null {
  const { denied, last } = session.approvals;
  const [key, times] = Object.entries(denied).find(([, count]) => count >= MOST_DENIALS) ?? [];
  if (key === undefined || times === undefined) return null;
  const words = SAYINGS[sessionLanguage(session, rules)];
  const is = last && denialKey(last) === key ? last : null;
  const rule = JSON.stringify({ allow: is?.always ?? key.split('\n')[0] });
  const text = words.deniedAgain(times, clip(visible(key.replace('\n', ' ')), 400), rule);
  return { status: 'paused', reason: 'denied', text };
}
