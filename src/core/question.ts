import { ASK_TOOL, AskCall } from '../protocol/ask-call.ts';
import { readCallArgs } from '../protocol/call-args.ts';
import type { EventBody } from '../protocol/event.ts';
import { pickedBy } from './choices.ts';
import { COMMANDS, commandOf, spokenText } from './commands.ts';
import { classifyMessage } from './intent/index.ts';
import { entryOf } from './keyed.ts';
import { imagesOf, spoken } from './prompt/spoken.ts';
import type { Call, Message, Session } from './session.ts';

export const isAskCall = (call: Pick<Call, 'name'>): boolean => call.name === ASK_TOOL.name;

/** The arguments by the schema, or what is wrong with them. */
export const readAsk = (args: string): AskCall | string => readCallArgs(AskCall, args);

/**
 * Whether a message answers the question a run waits with, though its words would mean something else elsewhere: "stop" where that
 * is one of the choices, or "not done yet". A known command is always a command.
 */
export function isAnswer(
  { question, run }: Session,
  message: Pick<Message, 'text' | 'command' | 'template' | 'as'>,
): boolean {
  if (!question || run || message.as === 'data' || message.template || message.command !== undefined) return false;
  const command = commandOf(message);
  if (command && Object.hasOwn(COMMANDS, command.name)) return false;
  if (pickedBy(message.text, question.choices)) return true;
  return command === null && classifyMessage(message.text).kind === 'undo';
}

/** The result of the question, where the run goes on with a message: that message is its answer, and nothing else. */
export function answering(session: Session): EventBody[] {
  const { question, run } = session;
  if (!question || !run) return [];
  const message = entryOf(session.messages, run.message);
  const text = message ? answerText(message, question.choices, session.seal) : NONE;
  const images = message ? imagesOf(message) : [];
  const shown = images.length > 0 && { images };
  return [{ type: 'tool.finished', call: question.call, ok: true, output: { text }, ms: 0, ...shown }];
}

/** The question is asked no longer, since the person did something else. Nothing where none is open. */
export function withdrawn({ question }: Session, why: string): EventBody[] {
  if (!question) return [];
  return [
    { type: 'tool.finished', call: question.call, ok: false, output: { text: `No answer was given: ${why}.` }, ms: 0 },
  ];
}

const NONE = 'No answer was given; the person said "continue". Decide yourself, or ask again if you cannot.';

/** What the model is told: the person's words, and which choice they mean. */
function answerText(message: Message, choices: readonly string[], seal: string): string {
  const picked = pickedBy(message.text, choices);
  if (picked?.is === 'one')
    return `The person chose ${picked.place + 1}: ${choices[picked.place]}${filesOf(message, seal)}`;
  const said = spokenText(message).trim();
  if (said === '' && message.attachments === undefined) return NONE;
  if (isBareContinue(message)) return `No answer was given; the person said: ${said}`;
  const both = picked
    ? `\n[This is the text of choice ${picked.place + 1}, and the number of choice ${picked.number + 1}: ${choices[picked.number]}.]`
    : choices.length > 0
      ? '\n[The choices were shown numbered from 1, in your order.]'
      : '';
  return `The person answered:\n${spoken(message, seal).content}${both}`;
}

/** Whether it says "continue" and nothing else. */
export function isBareContinue(message: Message): boolean {
  if (message.attachments !== undefined || commandOf(message)) return false;
  const intent = classifyMessage(message.text, { planStatus: 'waiting' });
  return intent.kind === 'continue' && intent.rest === undefined;
}

/** Behind a choice: what came along with it. */
function filesOf(message: Message, seal: string): string {
  const note = spoken({ ...message, text: '' }, seal).content.trimEnd();
  return note === '' ? '' : `\n${note}`;
}
