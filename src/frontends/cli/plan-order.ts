import { UserError } from '../../protocol/errors.ts';
import { EXITS } from './exit-codes.ts';

/** What may be done to a plan by a message to the daemon. */
export const ORDERS = ['done', 'skip', 'add', 'move', 'reword', 'undo'] as const;
export type Order = (typeof ORDERS)[number];

export const ORDER_USAGE: Readonly<Record<Order, string>> = {
  done: 'done <step> [result..]',
  skip: 'skip <step> [reason..]',
  add: 'add <text..> [--after STEP]',
  move: 'move <step> <position>',
  reword: 'reword <step> <text..>',
  undo: 'undo',
};

/**
 * The text of the message that gives an order, such as `done step_2 All five are there`. Throws a usage error (exit 2) where
 * words are missing or too many; whether there is such a step the daemon says.
 */
export function orderText(order: Order, words: readonly string[], after: string | undefined): string {
  if (after !== undefined && order !== 'add') throw usage('--after goes with add only.', order);
  const [step = '', ...rest] = words;
  const text = rest.join(' ').trim();
  switch (order) {
    case 'add':
      return addText(words.join(' ').trim(), after?.trim());
    case 'undo':
      if (words.length > 0) throw usage(`undo takes nothing, but ${JSON.stringify(step)} came.`, order);
      return order;
    case 'done':
    case 'skip':
      return [order, stepName(step, order), text].filter(Boolean).join(' ');
    case 'move':
      if (!/^[1-9]\d{0,8}$/.test(text)) throw usage('move wants a step and a position from 1 on.', order);
      return `move ${stepName(step, order)} ${text}`;
    case 'reword':
      if (text === '') throw usage('reword wants a step and its new text.', order);
      return `reword ${stepName(step, order)} ${text}`;
    default:
      return order satisfies never;
  }
}

function addText(text: string, after: string | undefined): string {
  if (text === '') throw usage('add wants the text of the new step.', 'add');
  if (after === undefined) return `add ${text}`;
  if (after === '' || /[:：]/.test(after)) throw usage('--after wants the id or the number of a step.', 'add');
  return `add after ${after}: ${text}`;
}

/** The daemon takes the first word for the step, so a description of several words cannot name it here. */
function stepName(step: string, order: Order): string {
  if (step.trim() === '') throw usage(`${order} wants a step: its id or number.`, order);
  if (/\s/.test(step.trim()))
    throw usage(`${order} wants the id or number of a step, not ${JSON.stringify(step)}.`, order);
  return step.trim();
}

function usage(message: string, order: Order): UserError {
  return new UserError(`${message}\nWanted: agentctl plan <session> ${ORDER_USAGE[order]}`, EXITS.usage.code);
}
