import type { Rules } from '../../protocol/config.ts';
import type { Consult } from '../../protocol/event.ts';
import { own } from '../../protocol/own.ts';
import type { ChatMessage } from '../chat.ts';
import { listed } from '../grow.ts';
import { entryOf } from '../keyed.ts';
import type { Session } from '../session.ts';
import { sessionLanguage } from '../session-language.ts';
import { windowOf } from '../window.ts';
import { daemonBlock, type OfTools } from './block.ts';
import { consultBlock, consultSystem } from './consult.ts';
import { elided, withFewImages } from './elide.ts';
import { memoryText, skillsText } from './notes.ts';
import { inBlock, spoken } from './spoken.ts';
import { WORDING } from './wording.ts';

/**
 * Everything the next model call is sent: the system message, the conversation as it was, the messages it is the first to
 * carry, and the daemon's block last. A question beside the work (`consult`) has a system message and a block of its own.
 */
export function requestMessages(
  session: Session,
  rules: Rules,
  carry: readonly string[],
  { consult, tools = { names: [], notices: [] } }: { consult?: Consult | undefined; tools?: OfTools } = {},
): ChatMessage[] {
  const language = sessionLanguage(session, rules);
  const fresh = carry.flatMap((id) => {
    const message = entryOf(session.messages, id);
    return message ? [spoken(message, session.seal)] : [];
  });
  const block = consult
    ? consultBlock(session, rules, consult, language)
    : daemonBlock(session, WORDING[language], tools);
  const system: ChatMessage =
    consult && consult !== 'summary'
      ? consultSystem(consult, language, dateOf(session), joined(rules.instructions, memoryText(rules.notes, language)))
      : { role: 'system', content: systemText(session, rules) };
  const history = elided(listed(session.conversation), windowOf(session, rules));
  return [system, ...withFewImages([...history, ...fresh]), ...(block === null ? [] : [inBlock(block, session.seal)])];
}

function dateOf(session: Session): string {
  const message = session.run ? entryOf(session.messages, session.run.message) : undefined;
  return (message?.at ?? session.at).slice(0, 10);
}

/** Told before the first tool call: who it is, how work is planned, what people wrote down for it. */
function systemText(session: Session, rules: Rules): string {
  const language = sessionLanguage(session, rules);
  const words = WORDING[language];
  const agent = own(rules.agents, session.run?.agent ?? '');
  const told = joined(rules.instructions, agent?.instructions);
  return joined(
    words.system(session.name, dateOf(session)),
    `${words.protocol}\n${words.marks}`,
    told && `${words.instructions}\n${told}`,
    skillsText(rules.notes, agent, language),
    memoryText(rules.notes, language),
  );
}

const joined = (...parts: Array<string | undefined>): string => parts.filter(Boolean).join('\n\n');
