import type { Rules } from '../../protocol/config.ts';
import type { ChatMessage } from '../chat.ts';
import { listed } from '../grow.ts';
import { entryOf } from '../keyed.ts';
import { type Language, languageOf } from '../language.ts';
import type { Session } from '../session.ts';
import { daemonBlock } from './block.ts';
import { elided } from './elide.ts';
import { spoken } from './spoken.ts';
import { WORDING } from './wording.ts';

/**
 * Everything the next model call is sent: the system message, the conversation as it was, the messages it is the first to
 * carry, and the daemon's block last.
 */
export function requestMessages(session: Session, rules: Rules, carry: readonly string[]): ChatMessage[] {
  const words = WORDING[sessionLanguage(session, rules)];
  const fresh = carry.flatMap((id) => {
    const message = entryOf(session.messages, id);
    return message ? [{ role: 'user' as const, content: spoken(message) }] : [];
  });
  const block = daemonBlock(session, words);
  const system: ChatMessage = { role: 'system', content: systemText(session, rules) };
  const history = elided(listed(session.conversation), rules.contextWindow);
  return [system, ...history, ...fresh, ...(block === null ? [] : [{ role: 'user' as const, content: block }])];
}

/** Told before the first tool call: who it is, how work is planned, what people wrote down for it. */
function systemText(session: Session, rules: Rules): string {
  const words = WORDING[sessionLanguage(session, rules)];
  const message = session.run ? entryOf(session.messages, session.run.message) : undefined;
  const instructions = rules.instructions ? [`${words.instructions}\n${rules.instructions}`] : [];
  return [words.system(session.name, (message?.at ?? session.at).slice(0, 10)), words.protocol, ...instructions].join(
    '\n\n',
  );
}

/** The configured language, else that of the goal or of the message at hand. */
export function sessionLanguage(session: Session, rules: Pick<Rules, 'language'>): Language {
  if (rules.language) return rules.language;
  const message = session.run ? entryOf(session.messages, session.run.message)?.text : undefined;
  return languageOf(session.run?.beside ? (message ?? '') : (session.plan?.goal ?? message ?? session.title ?? ''));
}
