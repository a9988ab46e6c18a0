import { sha256 } from '../../base/sha256.ts';
import { escapeInvisible, truncate } from '../../base/strings.ts';
import type { Event, EventOf } from '../../protocol/session/event.ts';
import type { NoticeBody } from '../../protocol/session/notice-file.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Language } from '../../protocol/settings/effective-settings.ts';
import type { NoticeKind } from '../../protocol/settings/notify.ts';
import type { OwedItem } from '../../protocol/workspace/owed-file.ts';
import { readableName } from '../../protocol/workspace/session-names.ts';

const MAX_TEXT_CHARS = 2000;
const MAX_CALL_CHARS = 1000;

/** The end of a run that a person asked for is no news to them. */
const ASKED_FOR: ReadonlySet<string> = new Set<string>([RUN_END.asked, RUN_END.stopped, RUN_END.newConversation]);

/**
 * The notice of an event, if it is one that people are notified of. A child session reports only its calls that wait:
 * the end of its runs is its parent's matter.
 */
export function noticeOf(session: string, isChild: boolean, event: Event, language: Language): NoticeBody | undefined {
  if (event.type === 'approval.asked') return ofApproval(session, event, language);
  if (event.type !== 'run.ended' || isChild || event.reason === RUN_END.approval) return undefined;
  if (ASKED_FOR.has(event.reason) || event.status === 'cancelled') return undefined;
  const asked = event.question ? `${event.question.text}${listChoices(event.question.choices)}` : event.text;
  return { ...head(session, event, event.status), text: toText(asked) };
}

function ofApproval(session: string, event: EventOf<'approval.asked'>, language: Language): NoticeBody {
  const { id, name: tool, display, hash, expires_at } = event;
  const shown = truncate(escapeInvisible(display), MAX_CALL_CHARS);
  return {
    ...head(session, event, 'waiting'),
    text: toText(`${language === 'zh' ? '允许这个调用吗？' : 'Allow this call?'} ${shown}\n${event.why}`),
    call: { id, tool, display: shown, hash, expires_at },
  };
}

/** What does not wait any more since an event: a call that was answered, or a question. `call`: null for a question. */
export function settledBy(name: string, event: Event): Array<{ session: string; call: number | null }> {
  const session = readableName(name);
  if (event.type === 'approval.answered') return event.id === undefined ? [] : [{ session, call: event.id }];
  return event.type === 'run.started' || event.type === 'run.resumed' ? [{ session, call: null }] : [];
}

/** A notice of something that is owed. Its id is the same as long as it stays owed for the same reason. */
export function noticeOfOwed(item: OwedItem, now: Date): NoticeBody {
  const { session, why, help } = item;
  return {
    ...{ version: 1, id: owedId(item), at: now.toISOString(), kind: 'owed' },
    session: session === null ? null : readableName(session),
    text: toText(`${why}${help === null ? '' : `\n${help}`}`),
  };
}

/** A budget is another one in the next period. */
export const owedId = ({ kind, session, why, since, until }: OwedItem): string =>
  hashOf([kind, session, why, since, ...(kind === 'budget' ? [until] : [])]);

const head = (session: string, { seq, at }: Event, kind: NoticeKind) =>
  ({ version: 1, id: hashOf([session, seq, at]), at, kind, session: readableName(session) }) as const;

const toText = (text: string): string => truncate(escapeInvisible(text), MAX_TEXT_CHARS);

const listChoices = (choices: readonly string[]): string =>
  choices.map((choice, place) => `\n${place + 1}. ${choice}`).join('');

const hashOf = (parts: readonly unknown[]): string => sha256(JSON.stringify(parts)).slice(0, 24);
