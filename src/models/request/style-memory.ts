import type { ChatMessage, ModelRequest } from '../../engine/ports/session-ports.ts';
import { isDaemonBlock } from '../../protocol/session/prompt-tags.ts';
import { EndpointRefusal } from '../answer/endpoint-errors.ts';
import { carefulStyle, hasCalls, type RequestStyle, styleAfter } from './request-style.ts';
import { flatMessage, orderRoles } from './wire-messages.ts';

/**
 * What to do after a refusal: ask again at once, where `said` names what is left out of the conversation from now on;
 * or ask with a shorter conversation.
 */
export type NextTry = { said?: string } | 'too long';

/**
 * What is known about the requests that an endpoint accepts, by model. A refusal that says what it is about changes the
 * style. One that does not, of a request with a history, leads through measures that leave less and less of that
 * history, so that no session is ever stuck on it: a careful style, calls in words, without the message that the
 * refusal names, without the older messages, with the last message alone. If none helps, all are taken back.
 */
export type StyleMemory = {
  styleFor(model: string): RequestStyle;
  /** The messages as they are sent in this style, after `change`. */
  shown(messages: readonly ChatMessage[], style: RequestStyle, change?: Change): readonly ChatMessage[];
  /** `sent`: the style of the refused request; another call may have changed it since. */
  afterRefusal(model: string, sent: RequestStyle, request: StyledRequest, error: unknown): NextTry | undefined;
  /** The endpoint has accepted this request, in the model's current style; false if that style is a guess. */
  accepted(model: string, request: StyledRequest): boolean;
};

type Change = (messages: readonly ChatMessage[]) => readonly ChatMessage[];
type StyledRequest = Pick<ModelRequest, 'messages' | 'tools'>;

/** The styles of earlier daemons. What is only a guess is not saved. */
export type SavedStyles = { styleOf(model: string): RequestStyle; save(model: string, style: RequestStyle): void };

/** Limits the changes of style for one call: refusals may contradict each other. */
const MAX_CHANGES = 6;

export function openStyleMemory(saved: SavedStyles): StyleMemory {
  const proven = new Map<string, RequestStyle>();
  const tried = new Map<string, { style: RequestStyle; changes: number; isGuess: boolean }>();
  const guessed = new Set<string>();
  const history = openHistory();
  const styleFor = (model: string): RequestStyle =>
    tried.get(model)?.style ?? proven.get(model) ?? saved.styleOf(model);
  return {
    styleFor,
    shown: history.shown,
    afterRefusal(model, sent, request, error) {
      const style = styleFor(model);
      if (error instanceof EndpointRefusal && !isSame(sent, style)) return {};
      const changes = (tried.get(model)?.changes ?? 0) + 1;
      const other = changes <= MAX_CHANGES ? styleAfter(error, style, request) : undefined;
      const careful = carefulStyle(style);
      if (other || (mayBeHistory(request, error) && !isSame(style, careful))) {
        const isGuess = !other || (tried.get(model)?.isGuess ?? false);
        tried.set(model, { style: other ?? careful, changes, isGuess });
        return {};
      }
      const less = mayBeHistory(request, error) ? history.showLess(request.messages, error) : undefined;
      if (less && less !== 'too long') return less;
      tried.delete(model);
      history.showAll(request.messages);
      return less;
    },
    accepted(model, { messages }) {
      const style = styleFor(model);
      const { isGuess } = tried.get(model) ?? { isGuess: guessed.has(model) };
      if (isGuess) guessed.add(model);
      else if (tried.has(model)) saved.save(model, style);
      proven.set(model, style);
      tried.delete(model);
      history.noteSize(messages);
      return !isGuess;
    },
  };
}

const isSame = (one: RequestStyle, other: RequestStyle): boolean => JSON.stringify(one) === JSON.stringify(other);

/** No form of the conversation helps against these. */
const ABOUT_SOMETHING_ELSE =
  /api.?key|credential|\bmodel\b.{0,60}(?:not found|not exist|unknown|invalid)|credits?\b|billing|quota|max_(?:completion_)?tokens|unsupported (?:parameter|value)|temperature/i;
const ABOUT_MESSAGES = /template|jinja|pars|tool|\broles?\b|\bmessages\b|argument/i;

function mayBeHistory({ messages }: StyledRequest, error: unknown): boolean {
  if (!(error instanceof EndpointRefusal) || !messages.some(({ role }) => role === 'assistant' || role === 'tool'))
    return false;
  const { words } = error;
  if (ABOUT_SOMETHING_ELSE.test(words)) return false;
  return error.meaning === 400 || error.meaning === 422 || (error.meaning === 500 && ABOUT_MESSAGES.test(words));
}

/** Messages are immutable and the same objects in each request, so that what is known of them stays with them. */
function openHistory() {
  const flat = new WeakSet<ChatMessage>();
  const left = new WeakSet<ChatMessage>();
  /** The size of each conversation, by its first message, when it was last accepted. */
  const accepted = new WeakMap<object, { size: number; isShortened: boolean }>();
  const leaveOut = (messages: readonly ChatMessage[], said: string): NextTry => {
    for (const one of messages) left.add(one);
    return { said };
  };
  return {
    shown(
      messages: readonly ChatMessage[],
      style: RequestStyle,
      change: Change = (all) => all,
    ): readonly ChatMessage[] {
      const kept = messages.filter((one) => !left.has(one)).map((one) => (flat.has(one) ? flatMessage(one) : one));
      const at = Math.max(
        0,
        kept.findIndex(({ role }) => role !== 'system'),
      );
      return orderRoles(change(kept.length < messages.length ? kept.toSpliced(at, 0, LEFT_OUT) : kept), style);
    },
    showLess(messages: readonly ChatMessage[], error: unknown): NextTry | undefined {
      const sent = messages.filter((one) => !left.has(one));
      if (sent.some((one) => hasCalls(one) && !flat.has(one))) {
        for (const one of sent) flat.add(one);
        return {};
      }
      const [size, known] = [sizeOf(messages), accepted.get(firstOf(messages))];
      if (known && !known.isShortened && size > LARGE_CHARS && size > known.size * GROWTH) {
        known.isShortened = true;
        return 'too long';
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
    noteSize(messages: readonly ChatMessage[]): void {
      accepted.set(firstOf(messages), { size: sizeOf(messages), isShortened: false });
    },
    showAll(messages: readonly ChatMessage[]): void {
      for (const one of messages) {
        flat.delete(one);
        left.delete(one);
      }
    },
  };
}

/** A refusal after this growth since the last answer, of a conversation of this size, may be about its length. */
const GROWTH = 1.1;
const LARGE_CHARS = 12_000;

const sizeOf = (messages: readonly ChatMessage[]): number =>
  messages.reduce((sum, { content }) => sum + (content?.length ?? 0), 0);
/** The system message is made for each request. */
const firstOf = (messages: readonly ChatMessage[]): object =>
  messages.find(({ role }) => role !== 'system') ?? messages;

/** Says in a request what is missing in it. */
const LEFT_OUT: ChatMessage = { role: 'user', content: '[Messages are missing here: the endpoint refused them.]' };

/** The place of the message that a refusal names, such as `messages[4].content`; -1 if it names none. */
function namedPlace(error: unknown): number {
  const found = error instanceof EndpointRefusal ? /messages?(?:\[|\.|\s+index\s+)(\d+)/i.exec(error.words) : null;
  return found ? Number(found[1]) : -1;
}
