const CONSENT =
  'yes|y|yep|yeah|ok(?:ay)?|sure|fine|go ahead|do it|approved?|lgtm|是|是的|对|對|好|好的|可以|行|允许|允許|同意|批准|没问题|沒問題|はい|sí|ja|oui|👍|✅';
/** More words that say of a result that it is as it was wanted. */
const PRAISE = 'done|it is|pass(?:ed|es)?|(?:looks? |all |very )?good|correct|right|great|perfect|正确|正確|通过|通過';
const POLITELY =
  '(?:[,，\\s]+(?:please|thanks|thank you|looks good|it is|谢谢|謝謝|没问题|可以|好的))?[了的呀啊吧\\s]*[.!。！]*';
const REFUSAL =
  "no|n|nope|nah|never|deny|denied|don['’]?t|do not|stop that|不|不行|不要|不可以|不允许|不允許|不同意|别|別|否|拒绝|拒絕|いいえ|nein|non|👎|❌";
const ALWAYS = 'always|yes,? always|always allow|总是|總是|总是允许|總是允許|一直可以|以后都可以|以後都可以';

const whole = (words: string, after: string) => new RegExp(`^(?:${words})${after}$`, 'iu');
const VERDICT = whole(`${CONSENT}|${PRAISE}`, POLITELY);
const YES = whole(CONSENT, POLITELY);
const NO = whole(REFUSAL, '(?:[,，\\s]+(?:please|thanks|thank you|谢谢|謝謝))?[了的呀啊吧\\s]*[.!。！]*');
const EVER = whole(ALWAYS, '[.!。！\\s]*');

/** Whether a person, asked if something is as it should be, says that it is, and nothing else. */
export const isPraise = (said: string): boolean => VERDICT.test(said.trim());

/** What a person who is asked for leave says; null where it is neither, or more than that. */
export function consentOf(said: string): 'allow' | 'deny' | 'always' | null {
  const text = said.trim();
  if (EVER.test(text)) return 'always';
  if (YES.test(text)) return 'allow';
  return NO.test(text) ? 'deny' : null;
}
