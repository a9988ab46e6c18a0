import type { ChatMessage } from '../../engine/ports/session-ports.ts';
import type { ToolSpec } from '../../engine/ports/tool-ports.ts';
import { isDaemonBlock } from '../../protocol/session/prompt-tags.ts';
import { callReader, findWrittenCalls, type WrittenCall } from './call-notation.ts';

/**
 * What a text without native calls holds: calls that are certain, with the text before them; something that looks like
 * a call and is none that can be run; or no call.
 */
export type TextCalls =
  | { is: 'none' }
  | { is: 'calls'; text: string; calls: Array<{ name: string; args: string }> }
  | { is: 'unclear'; what: string };

/**
 * Reads tool calls that an endpoint passed on as text, in the syntax of whichever model. They are certain if they end
 * the answer, name a tool on offer with arguments that fit, and are no quotation: neither prose goes on after them, nor
 * do they stand in the conversation already, as a file's content does.
 */
export function readTextCalls(
  text: string,
  tools: readonly ToolSpec[],
  conversation: readonly ChatMessage[],
): TextCalls {
  if (!/[<[{(]/.test(text)) return NONE;
  const fences = fencesOf(text);
  const asked = conversation.findLast(({ role, content }) => role === 'user' && !isDaemonBlock(content ?? ''));
  const isShown = ABOUT_CALLS.test(asked?.content ?? '');
  const calls = findWrittenCalls(text, callReader(tools)).filter(
    (call) =>
      !isQuoted(text, call, { fences, isShown }) &&
      !standsInConversation(text.slice(call.start, call.end), conversation),
  );
  if (calls.length === 0) return markedText(text, fences, conversation);
  const [first] = calls;
  const lead = first ? text.slice(0, first.start) : '';
  const isWhole = calls.every(({ end }, at) => isMarkup(text.slice(end, calls[at + 1]?.start)));
  const isPlain = !fences.some(({ start, end }) =>
    calls.some((call) => call.start > start && call.end < end && hasProse(lead)),
  );
  if (isWhole && isPlain && calls.every(({ fits, isMarked }) => fits && isMarked))
    return { is: 'calls', text: withoutOpening(lead), calls: calls.map(({ name, args }) => ({ name, args })) };
  return { is: 'unclear', what: text.slice(first?.start).trim() };
}

const NONE: TextCalls = { is: 'none' };

/** How models of many families begin a call, at the beginning of a line, also where no tool can be recognized in it. */
const CALL_MARK =
  /^\s*(?:<(?:tool_call|function_calls?|[\w-]+:tool_call|TOOLCALL)>\s*(?:[[{]|<|[\w.]+\s*<arg_key>)|<function=|<\|tool_call|<[|｜]?(?:DSML|tool▁call)|\[TOOL_CALLS\]|<\|python_tag\|>|<start_function_call>|<\|START_ACTION\|>|<\|action_start\|>|functools\[|<\|channel\|>commentary to=)/m;

function markedText(text: string, fences: readonly Span[], conversation: readonly ChatMessage[]): TextCalls {
  const found = CALL_MARK.exec(text);
  if (!found) return NONE;
  const at = found.index + found[0].search(/\S/);
  if (fences.some(({ start, end }) => at > start && at < end)) return NONE;
  const what = text.slice(at).trim();
  return standsInConversation(what, conversation) ? NONE : { is: 'unclear', what };
}

type Span = { start: number; end: number };

/** Code blocks; one that is not closed ends with the text. */
function fencesOf(text: string): Span[] {
  const marks = [...text.matchAll(/^[ \t]*(?:```|~~~).*$/gm)];
  const spans: Span[] = [];
  for (let at = 0; at < marks.length; at += 2) {
    const [open, close] = [marks[at], marks[at + 1]];
    if (open) spans.push({ start: open.index, end: close ? close.index + close[0].length : text.length });
  }
  return spans;
}

/** A person who asks about calls is shown one. */
const ABOUT_CALLS = /(?:tool|function)[\s_-]?calls?\b|\bjson\b|工具调用|函数调用/i;

/** A call within a sentence, in a code span, or in a code block that more prose follows, is shown and not made. */
function isQuoted(
  text: string,
  { start, end, args, fits, isMarked }: WrittenCall,
  { fences, isShown }: { fences: readonly Span[]; isShown: boolean },
): boolean {
  const fence = fences.find((one) => start > one.start && end <= one.end);
  if (fence) {
    const isExample = hasProse(text.slice(0, fence.start)) && (isShown || !fits || args === '{}');
    return isExample || hasProse(text.slice(fence.end)) || (!isMarkup(text.slice(end, fence.end)) && !isMarked);
  }
  const before = text.slice(text.lastIndexOf('\n', start - 1) + 1, start);
  const line = text.slice(end).split('\n', 1)[0] ?? '';
  return /\w/.test(before.replace(MARKUP, '')) && (/`\s*$/.test(before) || /^\W*\w/.test(line.replace(MARKUP, '')));
}

/** Lines that begin with a bracket tag belong to the protocol of the daemon. */
const hasProse = (text: string): boolean =>
  text
    .replace(MARKUP, '')
    .split('\n')
    .some((line) => /[\p{L}\p{N}]/u.test(line) && !/^\s*\[\p{L}/u.test(line));

/** Special tokens, the tags around calls, and the marks of code blocks. */
const MARKUP =
  /<\/?[|｜][^<>\n]{0,80}>|<[^<>\n|]{0,60}[|｜]>|<\/?(?:[\w-]+:)?(?:tool_calls?|function_calls?|function|functions|invoke|parameter|TOOLCALL|start_function_call|end_function_call)(?:=[\w.:-]+)?>|\[\/?(?:TOOL_CALLS|ARGS)\]|^[ \t]*(?:```|~~~)\w*[ \t]*(?=$|<)|(?<=｜>)function|\bfunctools\b|\bcommentary(?: to=\S*)?/gm;

const isMarkup = (text: string): boolean => /^[\s[\],;)]*$/.test(text.replace(MARKUP, ''));

/** The text before a call, without what opens it. */
const withoutOpening = (lead: string): string => {
  let text = lead.trimEnd();
  for (let before = ''; before !== text; ) {
    before = text;
    const last = [...text.matchAll(MARKUP)].at(-1);
    if (last && last.index + last[0].length === text.length) text = text.slice(0, last.index).trimEnd();
    else if (/[[(]$/.test(text)) text = text.slice(0, -1).trimEnd();
  }
  return text;
};

/** Whether a person or a tool wrote these words: the model then repeats them. */
function standsInConversation(words: string, conversation: readonly ChatMessage[]): boolean {
  const plain = normalize(words);
  return conversation.some(
    ({ role, content }) =>
      (role === 'user' || role === 'tool') &&
      content !== null &&
      !isDaemonBlock(content) &&
      normalize(content).includes(plain),
  );
}

const normalize = (text: string): string => text.replace(/\\[nrt]|[\s\\]+/g, '');
