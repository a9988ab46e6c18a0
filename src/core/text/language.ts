export type Language = 'en' | 'zh';

/** The language the daemon answers in: that of the person's text, out of the two supported. */
export function detectLanguage(text: string): Language {
  return /\p{Script=Han}/u.test(text) && !/[\p{Script=Hiragana}\p{Script=Katakana}]/u.test(text) ? 'zh' : 'en';
}
