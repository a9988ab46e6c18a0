import { APIError } from 'openai';
import type { ChatMessage, ModelRequest } from '../../engine/ports/session-ports.ts';
import { isDaemonBlock } from '../../protocol/session/prompt-tags.ts';
import { refusalText } from '../answer/endpoint-errors.ts';
import { carefulStyle, FIRST_STYLE, hasCalls, type RequestStyle, styleAfter } from './request-style.ts';
import { flatMessage, orderRoles } from './wire-messages.ts';

/** What to do after a refusal: ask again at once; `said` names what is left out of the conversation from now on. */
export type NextTry = { said?: string };

/**
 * What is known about the requests that an endpoint accepts, by model. A refusal that says what it is about changes the
 * style. One that does not, of a request with a history, leads through measures that leave less and less of that
 * history, so that no session is ever stuck on it: a careful style, calls in words, without the message that the
 * refusal names, without the older messages, with the last message alone. If none helps, all are taken back.
 */
export type StyleMemory = {
  styleFor(model: string): RequestStyle;
  /** The messages as they are sent in this style. */
  shown(messages: readonly ChatMessage[], style: RequestStyle): readonly ChatMessage[];
  /** `sent`: the style of the refused request; another call may have changed it since. */
  afterRefusal(model: string, sent: RequestStyle, request: StyledRequest, error: unknown): NextTry | undefined;
  /** The endpoint has accepted the style of the model's last request. */
  accepted(model: string): void;
};

type StyledRequest = Pick<ModelRequest, 'messages' | 'tools'>;

/** Limits the changes of style for one call: refusals may contradict each other. */
const MAX_CHANGES = 6;

export function openStyleMemory(): StyleMemory {
  const proven = new Map<string, RequestStyle>();
  const tried = new Map<string, { style: RequestStyle; changes: number }>();
  const history = openHistory();
  const styleFor = (model: string): RequestStyle => tried.get(model)?.style ?? proven.get(model) ?? FIRST_STYLE;
  return {
    styleFor,
    shown: history.shown,
    afterRefusal(model, sent, request, error) {
      const style = styleFor(model);
      if (error instanceof APIError && !isSame(sent, style)) return {};
      const changes = (tried.get(model)?.changes ?? 0) + 1;
      const other = changes <= MAX_CHANGES ? styleAfter(error, style, request) : undefined;
      const careful = carefulStyle(style);
      if (other || (mayBeHistory(request, error) && !isSame(style, careful))) {
        tried.set(model, { style: other ?? careful, changes });
        return {};
      }
      const less = mayBeHistory(request, error) ? history.showLess(request.messages, error) : undefined;
      if (less) return less;
      tried.delete(model);
      history.showAll(request.messages);
      return undefined;
    },
    accepted(model) {
      proven.set(model, styleFor(model));
      tried.delete(model);
    },
  };
}

const isSame = (one: RequestStyle, other: RequestStyle): boolean => JSON.stringify(one) === JSON.stringify(other);

/** No form of the conversation helps against these. */
const ABOUT_SOMETHING_ELSE =
  /api.?key|credential|\bmodel\b.{0,60}(?:not found|not exist|unknown|invalid)|credits?\b|billing|quota|max_(?:completion_)?tokens|unsupported (?:parameter|value)|temperature/i;
const ABOUT_MESSAGES = /template|jinja|pars|tool|\broles?\b|\bmessages\b|argument/i;

function mayBeHistory({ messages }: StyledRequest, error: unknown): boolean {
  if (!(error instanceof APIError) || !messages.some(({ role }) => role === 'assistant' || role === 'tool'))
    return false;
  const words = refusalText(error);
  if (ABOUT_SOMETHING_ELSE.test(words)) return false;
  return error.status === 400 || error.status === 422 || (error.status === 500 && ABOUT_MESSAGES.test(words));
}

/** Messages are immutable and the same objects in each request, so that what is known of them stays with them. */
function openHistory() {
  const flat = new WeakSet<ChatMessage>();
  const left = new WeakSet<ChatMessage>();
  const leaveOut = (messages: readonly ChatMessage[], said: string): NextTry => {
    for (const one of messages) left.add(one);
    return { said };
  };
  return {
    shown(messages: readonly ChatMessage[], style: RequestStyle): readonly ChatMessage[] {
      const kept = messages.filter((one) => !left.has(one)).map((one) => (flat.has(one) ? flatMessage(one) : one));
      const at = Math.max(
        0,
        kept.findIndex(({ role }) => role !== 'system'),
      );
      return orderRoles(kept.length < messages.length ? kept.toSpliced(at, 0, LEFT_OUT) : kept, style);
    },
    showLess(messages: readonly ChatMessage[], error: unknown): NextTry | undefined {
      const sent = messages.filter((one) => !left.has(one));
      if (sent.some((one) => hasCalls(one) && !flat.has(one))) {
        for (const one of sent) flat.add(one);
        return {};
      }
      const last = sent.findLastIndex(({ role, content }) => role === 'user' && !isDaemonBlock(content ?? ''));
      const named = sent[namedPlace(error)];
      const canGo = (one: ChatMessage): boolean => one.role !== 'system' && one !== sent[last] && one !== sent.at(-1);
      if (named && canGo(named)) return leaveOut([named], 'without the message that it names');
      const older = sent.slice(0, Math.max(0, last)).filter(canGo);
      if (older.length > 0) return leaveOut(older, 'without the messages before the last one');
      const rest = sent.filter(canGo);
      return rest.length > 0 ? leaveOut(rest, 'with the last message alone') : undefined;
    },
    showAll(messages: readonly ChatMessage[]): void {
      for (const one of messages) {
        flat.delete(one);
        left.delete(one);
      }
    },
  };
}

/** Says in a request what is missing in it. */
const LEFT_OUT: ChatMessage = { role: 'user', content: '[Messages are missing here: the endpoint refused them.]' };

/** The place of the message that a refusal names, such as `messages[4].content`; -1 if it names none. */
function namedPlace(error: unknown): number {
  const found = error instanceof APIError ? /messages?(?:\[|\.|\s+index\s+)(\d+)/i.exec(refusalText(error)) : null;
  return found ? Number(found[1]) : -1;
}
