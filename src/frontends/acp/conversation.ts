import { join } from 'node:path';
import type { SessionUpdate } from '@agentclientprotocol/sdk';
import type { Event } from '../../protocol/session/event.ts';
import { inlineText } from '../../protocol/session/log-entry.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import { trackToolCalls } from './tool-calls.ts';

/** A conversation as updates: every word once, each call shown and then changed. */
export type Conversation = {
  /** Words of the model's call in flight. */
  live(text: string): SessionUpdate[];
  event(event: Event): SessionUpdate[];
  /** What a reply says that has not been said since the last message. */
  reply(reply: Reply): SessionUpdate[];
};

/** `isOwn`: whether the editor shows the message of this id itself. */
export function followConversation(folder: string, isOwn: (id: string) => boolean): Conversation {
  const calls = trackToolCalls(join(folder, 'work'));
  /** Orders that the editor's buttons give are no part of the conversation, nor are replies to them. */
  const orders = new Set<string>();
  let heard = '';
  let said = '';
  let lastAnswer = '';
  let isNewAnswer = false;

  const say = (text: string): SessionUpdate[] => {
    if (text === '') return [];
    const gap = isNewAnswer && said.trim() !== '' ? '\n\n' : '';
    isNewAnswer = false;
    said += text;
    return [textChunk('agent_message_chunk', gap + text)];
  };
  /** A call of the model is over: what was not said of its words as they came. Null: they were not for a person. */
  const endAnswer = (text: string | null): SessionUpdate[] => {
    const told = mayBeForPlanner(heard) ? '' : heard;
    heard = '';
    if (text !== null) lastAnswer = text.trim();
    const updates = say(text === null ? '' : text.startsWith(told) ? text.slice(told.length) : text);
    isNewAnswer = true;
    return updates;
  };

  return {
    live(text) {
      const wasHeld = mayBeForPlanner(heard);
      heard += text;
      return mayBeForPlanner(heard) ? [] : say(wasHeld ? heard : text);
    },
    event(event) {
      switch (event.type) {
        case 'message.received': {
          const order = /^\/?(stop|mode|approve|deny)\b/i.exec(event.command ?? '')?.[1]?.toLowerCase();
          if (order === 'stop' || order === 'mode') orders.add(event.id);
          if (order !== undefined) return [];
          said = lastAnswer = '';
          if (isOwn(event.id)) return [];
          const command = event.command === undefined ? '' : `/${event.command.replace(/^\//, '')} `;
          return [textChunk('user_message_chunk', `${command}${inlineText(event.body)}`.trim())];
        }
        case 'model.answered':
          // An answer to a planner's question is no part of the conversation; what came of it is.
          return [...endAnswer(event.consult ? null : event.text), ...calls.updatesFor(event)];
        case 'model.failed':
          return [
            ...endAnswer(null),
            ...(event.retry_at ? [textChunk('agent_thought_chunk', `The model failed: ${event.error}\n`)] : []),
          ];
        default:
          return calls.updatesFor(event);
      }
    },
    reply({ text, in_reply_to: message }) {
      // The daemon's own words often follow those of the model.
      const rest = text.startsWith(lastAnswer) ? text.slice(lastAnswer.length).trim() : text;
      if (orders.has(message) || withoutSpaces(said).includes(withoutSpaces(rest))) return [];
      isNewAnswer = true;
      return say(rest);
    },
  };
}

/**
 * Whether the words so far may be the JSON that a planner's question is answered with. They are held until the answer
 * is whole.
 */
const mayBeForPlanner = (text: string): boolean => /^\s*(?:$|[{[]\s*(?:$|["{[])|`{1,2}$|```)/.test(text);

const withoutSpaces = (text: string): string => text.replace(/\s+/g, '');

export const textChunk = (
  sessionUpdate: 'user_message_chunk' | 'agent_message_chunk' | 'agent_thought_chunk',
  text: string,
): SessionUpdate => ({ sessionUpdate, content: { type: 'text', text } });
