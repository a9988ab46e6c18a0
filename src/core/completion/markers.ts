import type { Tag } from './brackets.ts';

/**
 * The words of an explicit marker, exact but for case and space. English and Chinese come from the original three-tier
 * detector; the others are what models write when the conversation is in that language.
 */
const WORDS = new Set([
  ...['done', 'complete', 'completed', 'finished', 'step done', 'step complete', 'step completed'],
  ...['完成', '已完成', '步骤完成', '步驟完成', '结束', '結束'],
  ...['完了', 'ステップ完了'],
  ...['hecho', 'completado', 'terminado', 'paso completado'],
  ...['erledigt', 'fertig', 'abgeschlossen', 'schritt erledigt'],
  ...['terminé', 'fait', 'étape terminée'],
]);

/** Where the clause of a marker begins: what an earlier clause denies does not reach it. */
const CLAUSE = /[.!?;:,…，。！？；：、—–]/;
/** A denial ends at most one word before the marker: "not [Done]", "have not reached [Done]", "还没 [完成]". */
const DENIED =
  /(?:\b(?:not|never|cannot|nicht|pas|jamais|nunca)|n['’]t)(?:\s+[\p{L}]+)?[^\p{L}\p{N}]*$|\b(?:no|non|kein|aún no)[^\p{L}\p{N}]*$|(?:未|没|沒|没有|沒有|尚未|不|不算|不能|无法|無法|别|別|不要|非|まだ)(?:达到|達到|到|写|寫|能)?\s*[*_]*$/iu;
/** The marker is an object of speech: "write [Done]", "the [Done] marker". */
const MENTIONED =
  /\b(?:the|an?|with|say|says|write|print|output|emit|put|type|reply|respond|use|using|reach|until|before|einen?|le|la|el)\s*[*_]*$/iu;
/** A promise: a modal and, within a few words, a verb of saying that takes the marker as its object. */
const PROMISED =
  /(?:\b(?:will|would|shall|should|can|could|must|may|(?:need|have|has|going|want|asked|told|remember) to)|['’]ll)\s+(?:[\p{L}]+\s+){0,2}(?:say|write|mark|print|output|emit|put|add|type|reply|respond|report|call|declare|set)(?:\s+[\p{L}]+){0,3}[\s*_:：(]*$/iu;
const PROMISED_CJK =
  /(?:会|會|将|將|请|請|再|才|就|应|應|需要|可以)[^，。！？；]{0,6}(?:写|寫|输出|輸出|说|說|标|標|标记|標記|回复|回覆|打|用|加|发|發|注明)(?:上|出|下|为|為)?\s*[*_]*$/u;
/** A condition in front of the marker, or behind it in the same breath: "if all exist: [Done]", "[Done] once they pass". */
const CONDITION =
  /(?:^|[\s,，])(?:if|unless|as soon as|wenn|falls|sobald|si|dès que|cuando)\s[^.!?。]*$|(?:如果|若|假如|一旦|只有|除非|等到)[^。！？]*$/iu;
const CONDITION_AFTER = /^[^\p{L}\p{N}]*(?:if|once|when|until|unless|as soon as|wenn|sobald|cuando|quand|si)\s\p{Ll}/u;
/** Or its negation follows: "[Done] is not reached", "[完了]していない", or it is asked: "[Done]?" */
const DENIED_AFTER =
  /^[\s*_]*(?:[?？]|(?:is|was|has|have|does|do|can)(?:\s+not|n['’]t)\b|not yet|了?吗|了?嗎|(?:し|では|じゃ)(?:ていない|てない|ない|ません|ていません))/iu;

/** Whether a tag's inside is a marker: a word of the list, with or without the number of the step. */
export const isMarkerWord = (inside: string): boolean =>
  WORDS.has(inside) ||
  WORDS.has(
    inside.replace(/^(step|步骤|步驟|paso|schritt|étape)\s*#?\d+\s*/u, (_, word: string) =>
      /\p{Script=Han}/u.test(word) ? word : `${word} `,
    ),
  );

/** The first tag that says by itself that the step is done. */
export const markerOf = (tags: readonly Tag[]): Tag | undefined =>
  tags.find((tag) => isMarkerWord(tag.inside) && isClaim(tag));

/** Whether a tag is said of the work at hand: not denied, not promised, not conditional, not talked about. */
export function isClaim({ before, after }: Pick<Tag, 'before' | 'after'>): boolean {
  const sentence = before.split(/[.!?。！？…]\s*(?=\S)/).at(-1) ?? '';
  const clause = before.split(CLAUSE).at(-1) ?? '';
  if (DENIED.test(clause) || MENTIONED.test(clause) || DENIED_AFTER.test(after)) return false;
  if (PROMISED.test(sentence) || PROMISED_CJK.test(sentence) || CONDITION.test(sentence)) return false;
  return !CONDITION_AFTER.test(after);
}
