import type { Rules } from '../protocol/config.ts';
import type { EventBody } from '../protocol/event.ts';
import type { ChatMessage } from './chat.ts';
import { gistOf } from './gist.ts';
import { listed } from './grow.ts';
import { elided, FILL, tokensIn, tokensOf } from './prompt/elide.ts';
import type { Session } from './session.ts';
import { windowOf } from './window.ts';

/**
 * Windows that a conversation may grow to before its oldest turns are folded away. Leaving out old outputs (`elided`) carries
 * it that far; beyond, they would only be kept in memory and in snapshots, and never be sent again.
 */
const MOST_WINDOWS = 1.25;
/** Part of the room that stays. So each time at least as much again goes, and a provider's prefix cache is lost seldom. */
const STAYS = 0.25;
/** Models that find their place by reading the whole conversation, and have no window. */
const READS_ALL = /^(?:runbook$|scripted:)/;

/**
 * The event that folds the oldest turns away, where the conversation has outgrown its window and there is enough to fold. A call
 * stays with its result, an answer with the messages it was given to, and the last turn stays in any case.
 */
export function compaction(session: Session, rules: Rules): EventBody | null {
  if (READS_ALL.test(session.run?.model ?? rules.model ?? '')) return null;
  const conversation = listed(session.conversation);
  const window = windowOf(session, rules);
  const room = window * FILL;
  if (!hasOutgrown(conversation, window)) return null;
  const from = cutFor(conversation, room * STAYS);
  const old = conversation.slice(0, from);
  if (tokensIn(old) < room * STAYS) return null;
  return {
    type: 'context.compacted',
    upto: session.seq,
    summary: gistOf(session, old, rules),
    kept: conversation.length - from,
  };
}

function hasOutgrown(conversation: readonly ChatMessage[], window: number): boolean {
  const size = tokensIn(conversation);
  if (size <= window * FILL) return false;
  return size > window * MOST_WINDOWS || tokensIn(elided(conversation, window)) > window * FILL;
}

/** Where what stays begins: the first place that leaves no more than `most` tokens behind it. */
function cutFor(conversation: readonly ChatMessage[], most: number): number {
  const last = conversation.findLastIndex((message) => message.role === 'assistant');
  let size = 0;
  let from = conversation.length;
  for (let place = conversation.length - 1; place > 0; place--) {
    const message = conversation[place];
    if (!message) break;
    size += tokensOf(message);
    if (size > most && from <= last) break;
    if (isStart(conversation, place)) from = place;
  }
  // One long turn alone is never cut.
  return from > last ? 0 : from;
}

/** A turn begins with the messages an answer was given to, or with the answer where there were none. */
function isStart(conversation: readonly ChatMessage[], place: number): boolean {
  return conversation[place]?.role !== 'tool' && conversation[place - 1]?.role !== 'user';
}
