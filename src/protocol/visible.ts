/**
 * What nobody sees, or what turns the order of what they see: controls, marks of direction, joiners, tags, fillers, line and
 * paragraph separators, private and lone halves of characters. Tab and line feed are seen for what they are.
 */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;
/** The same, but controls, which are another matter in a terminal, and joiners and variants of what is no ASCII: emoji and scripts need them. */
const MISLEADING =
  /(?!(?<=[^\x00-\x7f])(?:\u200c|\u200d|\ufe0e|\ufe0f))[\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]/gu;

/** A text to be decided about: what cannot be seen is written out (`\u202e`). JSON reads back as it was. */
export const visible = (text: string): string =>
  text.replace(HIDDEN, (char) => (char === '\n' || char === '\t' ? char : writtenOut(char)));

/** A text to be read: what could mislead is written out. */
export const readable = (text: string): string => text.replace(MISLEADING, writtenOut);

/** A text that a person answers: controls and what could mislead are written out; emoji and scripts stay as they are. */
export const legible = (text: string): string =>
  readable(text.replace(/\p{Cc}/gu, (char) => (char === '\n' || char === '\t' ? char : writtenOut(char))));

/** In UTF-16 units, as JSON writes them. */
function writtenOut(char: string): string {
  return [...Array(char.length).keys()].map((at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, '0')}`).join('');
}
