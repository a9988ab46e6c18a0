import type { Rules } from '../protocol/config.ts';
import { entryOf } from './keyed.ts';
import { type Language, languageOf } from './language.ts';
import type { Session } from './session.ts';

/** The configured language, else that of the goal or of the message at hand. */
export function sessionLanguage(session: Session, rules: Pick<Rules, 'language'>): Language {
  if (rules.language) return rules.language;
  const message = session.run ? entryOf(session.messages, session.run.message)?.text : undefined;
  return languageOf(session.run?.beside ? (message ?? '') : (session.plan?.goal ?? message ?? session.title ?? ''));
}
