import { ASK_USER_TOOL, AskUserArgs, parseOwnArgs } from '../../protocol/tool-calls/own-tools.ts';
import { classifyIntent } from '../intent/intent.ts';
import type { Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';
import { parseCommand } from './commands.ts';
import { SESSION_COMMANDS } from './message-table.ts';

/** The arguments parsed by the schema, or what is wrong with them. */
export const parseAskCall = (args: string): AskUserArgs | string => parseOwnArgs(ASK_USER_TOOL, AskUserArgs, args);

/**
 * Whether a message answers the run's open question, although its words would mean something else elsewhere: "stop" if
 * that is one of the choices, or "not done yet". A known command is always a command.
 */
export function answersOpenQuestion(
  { question, run }: Session,
  message: Pick<Message, 'text' | 'command' | 'template' | 'as' | 'options'>,
): boolean {
  if (message.options?.when === 'apart') return false;
  if (!question || run || message.as === 'data' || message.template || message.command !== undefined) return false;
  const command = parseCommand(message);
  if (command && SESSION_COMMANDS.has(command.name)) return false;
  if (matchChoice(message.text, question.choices)) return true;
  return command === null && classifyIntent(message.text).kind === 'undo';
}

/** Whether a message says "continue" and nothing else. */
export function isBareContinue(message: Message): boolean {
  return message.attachments === undefined && !parseCommand(message) && isGoOn(message.text);
}

/** Whether a text says "continue" and nothing else. */
export function isGoOn(text: string): boolean {
  const intent = classifyIntent(text, { planStatus: 'waiting' });
  return intent.kind === 'continue' && intent.rest === undefined;
}

/** Which choice an answer means, by index from 0. `both`: it is the text of one and the number of another. */
export type MatchedChoice = { is: 'one'; place: number } | { is: 'both'; place: number; number: number };

const CHOICE_NUMBER = /^[#(（]?\s*(\d{1,2})\s*[.)）。、:：]*$/;

/**
 * The choice an answer names, by its number (from 1) or by its text; null if it says something else. Pure and total.
 */
export function matchChoice(answer: string, choices: readonly string[]): MatchedChoice | null {
  const normalized = normalizeChoice(answer);
  const texts = choices.flatMap((choice, place) =>
    normalized !== '' && normalizeChoice(choice) === normalized ? [place] : [],
  );
  const number = Number(CHOICE_NUMBER.exec(answer.normalize('NFKC').trim())?.[1] ?? 0) - 1;
  const byNumber = number in choices ? number : undefined;
  const [byText] = texts;
  if (byText === undefined) return byNumber === undefined ? null : { is: 'one', place: byNumber };
  if (byNumber === undefined || byNumber === byText) return { is: 'one', place: byText };
  return { is: 'both', place: byText, number: byNumber };
}

/** Words without typing differences: case, width, quotes around them, a full stop. */
function normalizeChoice(text: string): string {
  return text
    .normalize('NFKC')
    .trim()
    .replace(/^["'“‘«「『]+|["'”’»」』]+$/gu, '')
    .replace(/[\s.!。]+$/u, '')
    .replace(/\s+/g, ' ')
    .toLowerCase();
}

/** A question as a person reads it: its text and the numbered choices. */
export function formatQuestion(text: string, choices: readonly string[]): string {
  return choices.length === 0 ? text : `${text}\n\n${choices.map((choice, n) => `${n + 1}. ${choice}`).join('\n')}`;
}
