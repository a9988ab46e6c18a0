import type { Question } from '../protocol/ask-call.ts';
import type { EventBody } from '../protocol/event.ts';
import type { Plan } from '../protocol/plan.ts';
import type { Reply, ReplyStatus } from '../protocol/reply.ts';
import { legible, visible } from '../protocol/visible.ts';
import { completedSteps } from './completed.ts';
import { entryOf } from './keyed.ts';
import type { Language } from './language.ts';
import { SAYINGS } from './sayings.ts';
import type { Session } from './session.ts';
import { currentIndex } from './steps.ts';

/** The event of one reply, before it has its place in the record. */
export type Committed = Extract<EventBody, { type: 'reply.committed' }>;

type Facts = {
  status: ReplyStatus;
  text: string;
  reason?: string;
  usage?: Reply['usage'];
  plan?: Plan | null;
  exit?: number;
  question?: Question;
  /** Files under `work/` that were there when the run came to rest. */
  attachments?: string[];
  approval?: number;
};

/** The one reply of a message, as an event. A fault in `plan.json` that nobody was told of yet is told here. */
export function replyTo(session: Session, id: string, facts: Facts, language: Language): Committed {
  const { status, text, reason, usage = null, exit, question, approval, attachments = [] } = facts;
  const plan = facts.plan === undefined ? session.plan : facts.plan;
  const note =
    session.planProblem && status !== 'rejected' ? `\n\n${SAYINGS[language].planNote(session.planProblem)}` : '';
  return {
    type: 'reply.committed',
    message: id,
    reply: {
      id: entryOf(session.messages, id)?.name ?? id,
      in_reply_to: id,
      session: session.name,
      status,
      // What a person answers must not hide anything from them.
      text: (status === 'waiting' ? legible(text) : text) + note,
      ...(reason !== undefined && { reason }),
      ...(question && { question: { text: question.text, choices: question.choices } }),
      plan: plan && planFacts(plan),
      usage,
      ...(exit !== undefined && { exit }),
      ...(approval !== undefined && { approval }),
      attachments,
    },
  };
}

/** A free name for a reply that no message asked for, of the same kind as that of the reply `like`. */
export function nameOfStandIn(session: Session, about: string, like: string): string {
  const ending = /(?:\.msg)?\.[A-Za-z0-9]+$/.exec(like)?.[0] ?? '.md';
  const isTaken = (name: string) => (entryOf(session.names, name) ?? entryOf(session.messages, name)) !== undefined;
  for (let n = 1; ; n++) {
    const name = `${about}${n > 1 ? `-${n}` : ''}${ending}`;
    if (!isTaken(name)) return name;
  }
}

function planFacts(plan: Plan): Reply['plan'] {
  const current = plan.steps[currentIndex(plan.steps)];
  const open = current && (current.status === 'running' || current.status === 'pending');
  return {
    id: plan.id,
    completed: completedSteps(plan),
    total: plan.steps.length,
    current: open ? current.description : null,
  };
}

/**
 * The bytes of a reply file: JSON for a JSON message, else Markdown with the same facts in front matter. Characters that nobody sees
 * are escapes in JSON and in the front matter, which read back as they were.
 */
export function replyText(reply: Reply): string {
  if (/\.json$/i.test(reply.id)) return `${visible(JSON.stringify(reply, null, 2))}\n`;
  const { text, ...facts } = reply;
  const lines = Object.entries(facts).map(
    ([key, value]) => `${key}: ${typeof value === 'string' ? quoted(value) : JSON.stringify(value)}`,
  );
  return `---\n${visible(lines.join('\n'))}\n---\n\n${text}\n`;
}

/** A string that YAML reads back as itself: plain where that is safe, else as JSON, which YAML includes. */
function quoted(value: string): string {
  return /^[A-Za-z_][\w.-]*$/.test(value) && !/^(?:true|false|null|yes|no|on|off|y|n)$/i.test(value)
    ? value
    : JSON.stringify(value);
}
