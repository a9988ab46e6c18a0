import { asked } from './choices.ts';
import { entryOf } from './keyed.ts';
import type { Language } from './language.ts';
import { SAYINGS } from './sayings.ts';
import type { Session } from './session.ts';
import { planSummary } from './summary.ts';

/** What `/status` says: what runs or why it rests, what was spent, where the plan is. */
export function statusText(session: Session, language: Language): string {
  const words = SAYINGS[language];
  return [
    ...(session.run ? running(session, language) : resting(session, language)),
    session.plan ? `\n${planSummary(session.plan, language)}` : words.noPlan,
  ].join('\n');
}

function running(session: Session, language: Language): string[] {
  const { run } = session;
  if (!run) return [];
  const words = SAYINGS[language];
  const failure = run.failure?.last;
  const { iterations, tokens, cost } = run.spent;
  return [
    words.working(entryOf(session.messages, run.message)?.text.split('\n')[0] ?? run.message),
    `iterations ${iterations}/${run.limits.iterations}, tokens ${tokens}${cost === null ? '' : `, cost ${cost.toFixed(4)}`}`,
    ...(failure?.retry_at ? [words.retrying(failure.error, failure.attempt, failure.retry_at)] : []),
  ];
}

function resting(session: Session, language: Language): string[] {
  const words = SAYINGS[language];
  const { rest, question } = session;
  return [
    words.idle,
    ...(rest ? [words.rests(rest.status, rest.reason)] : []),
    ...(question ? [`\n${asked(question.text, question.choices)}`] : []),
  ];
}
