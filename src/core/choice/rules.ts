import { type WorkSigns, workSigns } from './signs.ts';

/** What kind of work a message asks for. `parts`: the same thing with many parts. */
export const CHOICES = ['simple', 'complex', 'emergent', 'parts'] as const;
export type Choice = (typeof CHOICES)[number];

/** What the rules say: a choice and why, or that they disagree and why. */
export type Ruling = { choice: Choice | null; why: string; signs: WorkSigns };

/** A text that long says more than the rules understand. */
const LONG = 400;
/** One sentence: two actions in it need no plan. */
const SHORT = 60;

/**
 * What kind of work a message asks for, by rules alone. `null` where signs point in more than one direction: the model is asked
 * then. Talk and questions are `simple`, also where nothing at all was recognised in a short text.
 */
export function ruleOn(text: string): Ruling {
  const signs = workSigns(text);
  return { ...verdict(signs), signs };
}

function verdict(signs: WorkSigns): { choice: Choice | null; why: string } {
  const { order, actions, open, openish, condition, together, parts, items, commands, asks, length } = signs;
  if (commands > 0 && items === 0) return { choice: 'simple', why: 'the message brings its own steps' };
  const ordered = order.length >= 2 || actions.length >= 3 || items >= 3;
  const many = [
    ...(order.length > 0 ? [`in order: ${order.join(', ')}`] : []),
    ...(actions.length > 1 ? [`${actions.length} actions: ${actions.slice(0, 6).join(', ')}`] : []),
    ...(items > 1 ? [`a list of ${items}`] : []),
  ];
  const way = open.length > 0 ? [`the way is to be found: ${open.join(', ')}`] : [];
  if (open.length > 0 && !asks) {
    return ordered ? { choice: null, why: [...way, ...many].join('; ') } : { choice: 'emergent', why: way.join() };
  }
  if (ordered) return { choice: 'complex', why: many.join('; ') };
  const mixed = [
    ...way,
    ...(order.length > 0 && actions.length >= 2 ? many : []),
    ...(openish.length > 0 && !asks ? [`perhaps more than one go: ${openish.join(', ')}`] : []),
    ...(condition.length > 0 && !asks ? [`a condition: ${condition.join(', ')}`] : []),
    ...(together.length > 0 ? [`at the same time: ${together.join(', ')}`] : []),
    ...(parts.length > 0 && !asks ? [`many parts: ${parts.join(', ')}`] : []),
    ...(actions.length === 2 && length > SHORT ? many : []),
    ...(length > LONG ? [`${length} characters`] : []),
  ];
  if (mixed.length > 0) return { choice: null, why: [...new Set(mixed)].join('; ') };
  if (asks) return { choice: 'simple', why: 'a question' };
  return { choice: 'simple', why: actions.length > 0 ? `one go: ${actions.join(', ')}` : 'talk, or one go' };
}
